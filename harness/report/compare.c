/* SPDX-License-Identifier: Apache-2.0 */
/* compare.c - pairs the results of two runs and judges each pair.
 *
 * The ratio is new over base, so above 1 is slower. With margin m, on the 95 % interval [lo, hi] of
 * the ratio:
 *   slower   lo > 1 + m             all of it beyond the margin: a regression
 *   faster   hi < 1 / (1 + m)       the same with the sides swapped
 *   same     [lo, hi] inside [1 / (1 + m), 1 + m]
 *   unclear  anything else: more rounds would tell
 * Of n equal results 2.5 % at most are slower by chance, and as many faster. With --discoveries the
 * rate of these among all that are slower or faster is bounded (Benjamini and Hochberg). */
#include "report/compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/anchor.h"
#include "report/comparable.h"
#include "report/footprint.h"
#include "report/text.h"
#include "results/figures.h"

static const char *const verdict_names[] = {"same",  "faster",    "slower",  "unclear",
                                            "broke", "only base", "only new"};

/* What the ratio is made of: the geometric mean of the round medians, NAN where there are none. */
static double centre(const struct attn_view_row *row)
{
    double *medians = NULL, logs = 0;
    size_t n = row ? attn_view_round_medians(row->bench, &medians) : 0;
    for (size_t i = 0; i < n; i++)
        logs += log(medians[i]);
    free(medians);
    return n ? exp(logs / (double)n) : (double)NAN;
}

/* With an anchor all times are relative to it. */
static size_t medians_of(const struct attn_view *view, const struct attn_view_row *row,
                         const char *anchor, double **medians)
{
    return anchor ? attn_anchored_medians(view, row, anchor, medians)
                  : attn_view_round_medians(row->bench, medians);
}

static void judge(const struct attn_pairs *pairs, struct attn_pair *pair,
                  const struct attn_compare_options *options)
{
    const double margin = options->margin;
    double *base = NULL, *next = NULL;
    size_t n_base = medians_of(&pairs->base, pair->base, options->anchor, &base);
    size_t n_next = medians_of(&pairs->next, pair->next, options->anchor, &next);
    if (options->anchor && (!n_base || !n_next))
        pair->reason = "the anchor was not timed in the same rounds";
    struct attn_ratio r = attn_ratio_of(base, n_base, next, n_next);
    free(base);
    free(next);
    pair->ratio = r;
    pair->p = attn_ratio_p(&r, margin);
    if (r.lo > 1 + margin)
        pair->verdict = ATTN_SLOWER;
    else if (r.hi < 1 / (1 + margin))
        pair->verdict = ATTN_FASTER;
    else if (r.lo >= 1 / (1 + margin) && r.hi <= 1 + margin)
        pair->verdict = ATTN_SAME;
    else
        pair->verdict = ATTN_UNCLEAR;
}

/* One sentence: the first difference that stops the comparison, and how many more there are. */
static void explain_differences(const struct attn_differences *differences, char *why, size_t size)
{
    const struct attn_difference *first = differences->items;
    while (!first->stops)
        first++;
    const size_t more = differences->stopping - 1;
    int n =
        snprintf(why, size, "not comparable: the %.96s is %.128s in the base and %.128s in the new",
                 first->what, first->base, first->next);
    if (more && n > 0 && (size_t)n < size)
        n += snprintf(why + n, size - (size_t)n, ", and %zu more difference%s", more,
                      more > 1 ? "s" : "");
    if (n > 0 && (size_t)n < size)
        snprintf(why + n, size - (size_t)n, "; --cross compares nevertheless");
}

/* Adjusts the p-values of all judged pairs. One that is beyond the margin by itself, but would be a
 * false discovery too often among so many, is unclear. */
static int adjust(struct attn_pairs *pairs, double rate)
{
    double *p = calloc(pairs->count + 1, sizeof *p);
    size_t n = 0;
    if (!p)
        return -1;
    for (size_t i = 0; i < pairs->count; i++)
        if (!isnan(pairs->items[i].p))
            p[n++] = pairs->items[i].p;
    const int status = attn_false_discovery(p, n, p);
    n = 0;
    for (size_t i = 0; status == 0 && i < pairs->count; i++) {
        struct attn_pair *pair = &pairs->items[i];
        if (isnan(pair->p))
            continue;
        pair->p = p[n++];
        if ((pair->verdict == ATTN_SLOWER || pair->verdict == ATTN_FASTER) && pair->p > rate)
            pair->verdict = ATTN_UNCLEAR;
    }
    free(p);
    return status;
}

struct tally {
    size_t of[ATTN_ONLY_NEW + 1];
    size_t rated;
    double geomean;
};

/* All that a comparison has found. */
struct findings {
    struct attn_pairs pairs;
    struct attn_differences differences;
    struct attn_footprint footprint; /* empty without the gate */
    struct tally tally;
    bool stored; /* two runs, not two backends of one */
    enum attn_exit code;
    char reason[768];
};

static struct tally count(const struct attn_pairs *pairs)
{
    struct tally tally = {.geomean = NAN};
    double logs = 0;
    for (size_t i = 0; i < pairs->count; i++) {
        const struct attn_pair *pair = &pairs->items[i];
        tally.of[pair->verdict]++;
        if (isfinite(pair->ratio.ratio)) {
            logs += log(pair->ratio.ratio);
            tally.rated++;
        }
    }
    if (tally.rated)
        tally.geomean = exp(logs / (double)tally.rated);
    return tally;
}

static enum attn_exit exit_of(const struct findings *f, const struct attn_compare_options *options)
{
    const struct tally *tally = &f->tally;
    if (tally->rated + tally->of[ATTN_BROKE] == 0)
        return ATTN_EXIT_NOTHING;
    enum attn_exit code = ATTN_EXIT_OK;
    if (tally->of[ATTN_SLOWER] + tally->of[ATTN_BROKE] + f->footprint.grew + f->footprint.steeper)
        code = attn_exit_stronger(code, ATTN_EXIT_REGRESSION);
    if (options->gate && options->accuracy && options->accuracy->drifted)
        code = attn_exit_stronger(code, ATTN_EXIT_NUMERICS);
    if (options->strict && tally->of[ATTN_UNCLEAR])
        code = attn_exit_stronger(code, ATTN_EXIT_INCONCLUSIVE);
    return code;
}

/* Worst first: broke, slower, unclear, same, faster, then what only one side has; within a verdict
 * by ratio, the slowest first. */
static int compare_pairs(const void *a, const void *b)
{
    static const int rank[] = {3, 4, 1, 2, 0, 5, 6};
    const struct attn_pair *x = a, *y = b;
    int by_rank = rank[x->verdict] - rank[y->verdict];
    if (by_rank)
        return by_rank;
    double rx = isfinite(x->ratio.ratio) ? x->ratio.ratio : 0;
    double ry = isfinite(y->ratio.ratio) ? y->ratio.ratio : 0;
    return (rx < ry) - (rx > ry);
}

static const char *names_of(const struct attn_pair *pair, char *text, size_t size)
{
    const char *a = pair->base_label, *b = pair->next_label;
    if (strcmp(a, b) == 0)
        snprintf(text, size, "%s", a);
    else
        snprintf(text, size, "%s -> %s", a, b);
    return text;
}

/* A cell of `width` characters, to the right of its column where width > 0, else to the left, and
 * two blanks. printf counts bytes, and the micro sign has two. */
static void put_cell(FILE *out, const char *text, int width)
{
    int pad = abs(width);
    for (const char *c = text; *c; c++)
        pad -= ((unsigned char)*c & 0xc0) != 0x80;
    fprintf(out, "%*s%s%*s", width > 0 && pad > 0 ? pad : 0, "", text,
            width < 0 && pad > 0 ? pad + 2 : 2, "");
}

static const struct {
    const char *head;
    int width;
} columns[] = {{"verdict", -9}, {"new/base", 8}, {"95 % interval", 14},
               {"base", 9},     {"new", 9},      {"backend", -12}};

static void put_cells(FILE *out, const char *const cells[])
{
    for (size_t c = 0; c < sizeof columns / sizeof columns[0]; c++)
        put_cell(out, cells ? cells[c] : columns[c].head, columns[c].width);
}

static void put_line(FILE *out, const struct attn_pair *pair)
{
    char ratio[ATTN_FIGURE_MAX] = "-", interval[64] = "-", base[ATTN_FIGURE_MAX] = "-";
    char next[ATTN_FIGURE_MAX] = "-", names[288];
    if (isfinite(pair->ratio.ratio))
        snprintf(ratio, sizeof ratio, "%.3f", pair->ratio.ratio);
    if (isfinite(pair->ratio.hi))
        snprintf(interval, sizeof interval, "%.3f..%.3f", pair->ratio.lo, pair->ratio.hi);
    if (isfinite(centre(pair->base)))
        attn_figure_time(centre(pair->base), base);
    if (isfinite(centre(pair->next)))
        attn_figure_time(centre(pair->next), next);
    names_of(pair, names, sizeof names);
    put_cells(out, (const char *const[]){verdict_names[pair->verdict], ratio, interval, base, next,
                                         names});
    fprintf(out, "%s%s%s%s\n", pair->row->label,
            strcmp(pair->row->cache, "cold") == 0 ? " (cold)" : "", *pair->reason ? ": " : "",
            pair->reason);
}

static void put_table(FILE *out, const struct attn_pairs *pairs, const struct tally *tally)
{
    put_cells(out, NULL);
    fputs("case\n", out);
    for (size_t i = 0; i < pairs->count; i++)
        put_line(out, &pairs->items[i]);
    static const enum attn_comparison order[] = {ATTN_BROKE,   ATTN_SLOWER, ATTN_UNCLEAR,
                                                 ATTN_SAME,    ATTN_FASTER, ATTN_ONLY_BASE,
                                                 ATTN_ONLY_NEW};
    const char *between = "";
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++) {
        if (!tally->of[order[i]])
            continue;
        fprintf(out, "%s%zu %s", between, tally->of[order[i]], verdict_names[order[i]]);
        between = ", ";
    }
    if (tally->rated)
        fprintf(out, "; geometric mean of new/base %.3f over %zu (above 1 is slower)",
                tally->geomean, tally->rated);
    fputc('\n', out);
}

static json_t *finite_or_null(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *pair_json(const struct attn_pair *pair)
{
    const struct attn_view_row *row = pair->row;
    return json_pack("{s:s,s:s,s:s,s:s,s:s,s:o,s:s,s:s,s:o,s:o,s:o,s:o,s:o,s:s,s:o}", "id", row->id,
                     "case", row->line, "label", row->label, "backend", pair->base_label,
                     "new_backend", pair->next_label, "threads", finite_or_null(row->threads),
                     "cache", row->cache, "verdict", verdict_names[pair->verdict], "ratio",
                     finite_or_null(pair->ratio.ratio), "lo", finite_or_null(pair->ratio.lo), "hi",
                     finite_or_null(pair->ratio.hi), "base_ns", finite_or_null(centre(pair->base)),
                     "new_ns", finite_or_null(centre(pair->next)), "reason", pair->reason, "p",
                     finite_or_null(pair->p));
}

static void put_differences(FILE *out, const struct attn_differences *differences)
{
    for (size_t i = 0; i < differences->count; i++) {
        const struct attn_difference *d = &differences->items[i];
        fprintf(out, "%s: the %s is %s in the base and %s in the new\n",
                d->stops ? "differs" : "changed", d->what, d->base, d->next);
    }
}

/* What else the gate judges, after the table of times. */
static void put_gate(FILE *out, const struct findings *f,
                     const struct attn_compare_options *options)
{
    const struct attn_accuracy *accuracy = options->accuracy;
    const size_t slower = f->tally.of[ATTN_SLOWER] + f->tally.of[ATTN_BROKE];
    const size_t grew = f->footprint.grew + f->footprint.steeper;
    attn_footprint_put(&f->footprint, out);
    if (accuracy)
        fprintf(out, "accuracy: %d results compared, %d drifted\n%s", accuracy->compared,
                accuracy->drifted, accuracy->lines);
    fprintf(out, "gate: time %s, memory %s, accuracy %s\n", slower ? "FAILED" : "passed",
            grew ? "FAILED" : "passed",
            !accuracy            ? "not judged"
            : accuracy->drifted  ? "FAILED"
            : accuracy->compared ? "passed"
                                 : "not judged");
}

static json_t *gate_json(const struct findings *f, const struct attn_compare_options *options)
{
    const struct attn_accuracy *a = options->accuracy;
    if (!options->gate)
        return json_null();
    return json_pack("{s:{s:I,s:I,s:I,s:I,s:O},s:{s:i,s:i,s:s}}", "memory", "compared",
                     (json_int_t)f->footprint.compared, "grew", (json_int_t)f->footprint.grew,
                     "orders", (json_int_t)f->footprint.orders, "steeper",
                     (json_int_t)f->footprint.steeper, "results", f->footprint.list, "accuracy",
                     "compared", a ? a->compared : 0, "drifted", a ? a->drifted : 0, "lines",
                     a ? a->lines : "");
}

static int put_json(FILE *out, const struct findings *f, const struct attn_compare_options *options)
{
    json_t *list = json_array(), *counts = json_object();
    int bad = !list || !counts;
    for (size_t i = 0; !bad && i < f->pairs.count; i++)
        bad = json_array_append_new(list, pair_json(&f->pairs.items[i])) != 0;
    for (int v = 0; !bad && v <= ATTN_ONLY_NEW; v++)
        bad = json_object_set_new(counts, verdict_names[v],
                                  json_integer((json_int_t)f->tally.of[v])) != 0;
    json_t *root = json_pack("{s:f,s:o,s:o,s:o,s:i,s:s,s:o,s:o}", "margin", options->margin,
                             "results", list, "counts", counts, "geometric_mean",
                             finite_or_null(f->tally.geomean), "exit", (int)f->code, "reason",
                             f->reason, "differences", attn_differences_json(&f->differences),
                             "gate", f->footprint.list ? gate_json(f, options) : json_null());
    bad = bad || !root || json_dumpf(root, out, JSON_INDENT(1) | JSON_PRESERVE_ORDER) != 0;
    json_decref(root);
    fputc('\n', out);
    return bad ? -1 : 0;
}

static int put(FILE *out, const struct findings *f, const struct attn_compare_options *options)
{
    if (options->json)
        return put_json(out, f, options);
    if (f->pairs.count)
        put_table(out, &f->pairs, &f->tally);
    if (f->pairs.count && options->anchor)
        fprintf(out, "ratios are of times relative to %s, round by round; margin %g %%\n",
                options->anchor, 100 * options->margin);
    else if (f->pairs.count && f->stored)
        fprintf(out,
                "times are absolute: they hold for this machine in the state of both runs; "
                "margin %g %%\n",
                100 * options->margin);
    if (f->footprint.list)
        put_gate(out, f, options);
    put_differences(out, &f->differences); /* why nothing was compared is for stderr */
    return 0;
}

/* The anchor is what the others are held against, and no result of its own. */
static void drop_anchor(struct attn_pairs *pairs, const char *anchor)
{
    size_t kept = 0;
    for (size_t i = 0; i < pairs->count; i++) {
        const struct attn_pair *pair = &pairs->items[i];
        const struct attn_view *view = pair->base ? &pairs->base : &pairs->next;
        if (!attn_anchor_is(view, pair->row, anchor))
            pairs->items[kept++] = *pair;
    }
    pairs->count = kept;
}

static const char no_memory[] = "no memory for the comparison";

/* Pairs the results and judges each; with the gate, memory as well. */
static int find(const struct attn_run_data *base, const struct attn_run_data *next,
                const struct attn_compare_options *options, struct findings *f, char *why,
                size_t size)
{
    struct attn_pairs *pairs = &f->pairs;
    if (attn_pairs_create(base, next, options, pairs, why, size) != 0)
        return -1;
    if (options->anchor)
        drop_anchor(pairs, options->anchor);
    for (size_t i = 0; i < pairs->count; i++)
        if (pairs->items[i].verdict == ATTN_SAME)
            judge(pairs, &pairs->items[i], options);
    if ((options->discoveries > 0 && adjust(pairs, options->discoveries) != 0) ||
        (options->gate && attn_footprint_judge(pairs, &f->footprint) != 0)) {
        snprintf(why, size, "%s", no_memory);
        return -1;
    }
    qsort(pairs->items, pairs->count, sizeof *pairs->items, compare_pairs);
    f->tally = count(pairs);
    f->code = exit_of(f, options);
    if (f->code == ATTN_EXIT_NOTHING && options->anchor && pairs->count)
        snprintf(f->reason, sizeof f->reason,
                 "nothing to compare: no result has the anchor '%.100s' in the same rounds",
                 options->anchor);
    else if (f->code == ATTN_EXIT_NOTHING)
        attn_pairs_explain_none(pairs, options, f->reason, sizeof f->reason);
    return 0;
}

int attn_compare(const struct attn_run_data *base, const struct attn_run_data *next,
                 const struct attn_compare_options *options, FILE *out, enum attn_exit *code,
                 char *why, size_t size)
{
    struct findings f = {.tally.geomean = NAN, .stored = base != next, .code = ATTN_EXIT_BASELINE};
    int status = 0;
    if (f.stored && attn_differences_find(base, next, &f.differences) != 0) {
        snprintf(why, size, "%s", no_memory);
        return -1;
    }
    if (f.differences.stopping && !options->cross)
        explain_differences(&f.differences, f.reason, sizeof f.reason);
    else
        status = find(base, next, options, &f, why, size);
    if (status == 0 && (put(out, &f, options) != 0 || ferror(out))) {
        snprintf(why, size, "the comparison could not be written");
        status = -1;
    }
    if (status == 0) {
        snprintf(why, size, "%s", f.reason);
        *code = f.code;
    }
    attn_pairs_free(&f.pairs);
    attn_differences_free(&f.differences);
    attn_footprint_free(&f.footprint);
    return status;
}
