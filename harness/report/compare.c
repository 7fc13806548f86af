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
#include "report/compare_put.h"
#include "report/paired.h"
#include "report/speedup.h"
#include "report/text.h"
#include "results/figures.h"

/* With an anchor all times are relative to it. */
static size_t medians_of(const struct attn_view *view, const struct attn_view_row *row,
                         const char *anchor, double **medians)
{
    return anchor ? attn_anchored_medians(view, row, anchor, medians)
                  : attn_view_round_medians(row->bench, medians);
}

/* The time of the new result over that of the base: two of one run by their turns, if they took
 * turns, as its own report has it; else by the medians of rounds. */
static struct attn_ratio ratio_of(const struct attn_pairs *pairs, struct attn_pair *pair,
                                  const struct attn_compare_options *options)
{
    double *base = NULL, *next = NULL;
    struct attn_ratio turns;
    if (options->backends[0] && !options->anchor) {
        pair->by_turns = attn_paired_ratio_of(pair->next, pair->base, &turns);
        return attn_row_ratio(pair->next, pair->base);
    }
    size_t n_base = medians_of(&pairs->base, pair->base, options->anchor, &base);
    size_t n_next = medians_of(&pairs->next, pair->next, options->anchor, &next);
    if (options->anchor && (!n_base || !n_next))
        pair->reason = "the anchor was not timed in the same rounds";
    const struct attn_ratio ratio = attn_ratio_of(base, n_base, next, n_next);
    free(base);
    free(next);
    return ratio;
}

static void judge(const struct attn_pairs *pairs, struct attn_pair *pair,
                  const struct attn_compare_options *options)
{
    const double margin = options->margin;
    const struct attn_ratio r = ratio_of(pairs, pair, options);
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

static bool is_timed(const struct attn_run_data *run)
{
    size_t i;
    const json_t *record;
    json_array_foreach(run->records, i, record)
    {
        if (strcmp(attn_field_text(record, "type"), "bench") == 0)
            return true;
    }
    return false;
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
    if (differences->ceilings == differences->stopping && n > 0 && (size_t)n < size)
        n += snprintf(why + n, size - (size_t)n,
                      ". Other work on one machine does that, too: then time both in one run and "
                      "'compare --within' it, or 'compare --live'");
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

static struct attn_compare_tally count(const struct attn_pairs *pairs)
{
    struct attn_compare_tally tally = {.geomean = NAN};
    double logs = 0;
    for (size_t i = 0; i < pairs->count; i++) {
        const struct attn_pair *pair = &pairs->items[i];
        tally.of[pair->verdict]++;
        if (isfinite(pair->ratio.ratio)) {
            logs += log(pair->ratio.ratio);
            tally.rated++;
            tally.by_turns += pair->by_turns;
        }
    }
    if (tally.rated)
        tally.geomean = exp(logs / (double)tally.rated);
    return tally;
}

static enum attn_exit exit_of(const struct attn_compare_findings *f,
                              const struct attn_compare_options *options)
{
    const struct attn_compare_tally *tally = &f->tally;
    if (tally->rated + tally->of[ATTN_BROKE] == 0)
        return ATTN_EXIT_NOTHING;
    enum attn_exit code = ATTN_EXIT_OK;
    if (tally->of[ATTN_SLOWER] + tally->of[ATTN_BROKE] + f->footprint.grew + f->footprint.steeper +
        f->instructions.grew)
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
                const struct attn_compare_options *options, struct attn_compare_findings *f,
                char *why, size_t size)
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
        (options->gate && (attn_footprint_judge(pairs, &f->footprint) != 0 ||
                           attn_instructions_judge(pairs, &f->instructions) != 0))) {
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
    struct attn_compare_findings f = {
        .tally.geomean = NAN, .stored = base != next, .code = ATTN_EXIT_BASELINE};
    int status = 0;
    if (f.stored && attn_differences_find(base, next, options, &f.differences) != 0) {
        snprintf(why, size, "%s", no_memory);
        return -1;
    }
    if (f.differences.stopping && !options->cross && is_timed(base) != is_timed(next))
        snprintf(f.reason, sizeof f.reason,
                 "not comparable: the %s has no timings, as a run of 'verify' ('verify --baseline' "
                 "compares errors)",
                 is_timed(base) ? "new run" : "base");
    else if (f.differences.stopping && !options->cross)
        explain_differences(&f.differences, f.reason, sizeof f.reason);
    else
        status = find(base, next, options, &f, why, size);
    f.exit = attn_run_exit(next, attn_run_exit(base, f.code));
    if (status == 0 && (attn_compare_put(out, &f, options) != 0 || ferror(out))) {
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
    attn_instructions_free(&f.instructions);
    return status;
}
