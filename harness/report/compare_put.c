/* SPDX-License-Identifier: Apache-2.0 */
/* compare_put.c - a comparison as a table or as JSON. */
#include "report/compare_put.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/text.h"
#include "results/figures.h"
#include "results/record.h"

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

/* The figures of a pair as text. */
struct cells {
    char ratio[ATTN_FIGURE_MAX], interval[64], base[ATTN_FIGURE_MAX], next[ATTN_FIGURE_MAX];
    char names[288];
};

static void fill_cells(const struct attn_pair *pair, struct cells *cells)
{
    *cells = (struct cells){.ratio = "-", .interval = "-", .base = "-", .next = "-"};
    if (isfinite(pair->ratio.ratio))
        snprintf(cells->ratio, sizeof cells->ratio, "%.3f", pair->ratio.ratio);
    if (isfinite(pair->ratio.hi))
        snprintf(cells->interval, sizeof cells->interval, "%.3f..%.3f", pair->ratio.lo,
                 pair->ratio.hi);
    if (isfinite(centre(pair->base)))
        attn_figure_time(centre(pair->base), cells->base);
    if (isfinite(centre(pair->next)))
        attn_figure_time(centre(pair->next), cells->next);
    names_of(pair, cells->names, sizeof cells->names);
}

static const char *cache_words(const struct attn_pair *pair)
{
    return attn_row_cold(pair->row) ? " (cold)" : "";
}

static void put_line(FILE *out, const struct attn_pair *pair)
{
    struct cells cells;
    fill_cells(pair, &cells);
    put_cells(out, (const char *const[]){verdict_names[pair->verdict], cells.ratio, cells.interval,
                                         cells.base, cells.next, cells.names});
    fprintf(out, "%s%s%s%s\n", pair->row->label, cache_words(pair), *pair->reason ? ": " : "",
            pair->reason);
}

/* Groups of a table, the bad ones first. */
static const enum attn_comparison order[] = {ATTN_BROKE, ATTN_SLOWER,    ATTN_UNCLEAR, ATTN_FASTER,
                                             ATTN_SAME,  ATTN_ONLY_BASE, ATTN_ONLY_NEW};
enum { GROUPS = sizeof order / sizeof order[0] };

static bool is_folded(enum attn_comparison verdict)
{
    return verdict == ATTN_ONLY_BASE || verdict == ATTN_ONLY_NEW;
}

/* "only base: 14 results (mine 8, yours 6)": one line for what has nothing to be compared with. */
static void put_folded(FILE *out, const struct attn_pairs *pairs, enum attn_comparison verdict)
{
    size_t all = 0;
    const char *between = "";
    for (size_t i = 0; i < pairs->count; i++)
        all += pairs->items[i].verdict == verdict;
    fprintf(out, "%s: %zu result%s (", verdict_names[verdict], all, all == 1 ? "" : "s");
    for (size_t i = 0; i < pairs->count; i++) {
        const char *label = pairs->items[i].base_label;
        size_t first = 0, n = 0;
        if (pairs->items[i].verdict != verdict)
            continue;
        while (pairs->items[first].verdict != verdict ||
               strcmp(pairs->items[first].base_label, label) != 0)
            first++;
        for (size_t k = i; k < pairs->count && first == i; k++)
            n += pairs->items[k].verdict == verdict &&
                 strcmp(pairs->items[k].base_label, label) == 0;
        if (n == 0)
            continue;
        fprintf(out, "%s%s %zu", between, label, n);
        between = ", ";
    }
    fputs(")\n", out);
}

/* mark: stands around the counts. */
static void put_tally(FILE *out, const struct attn_compare_tally *tally, const char *mark)
{
    const char *between = mark;
    for (size_t g = 0; g < GROUPS; g++) {
        if (!tally->of[order[g]])
            continue;
        fprintf(out, "%s%zu %s", between, tally->of[order[g]], verdict_names[order[g]]);
        between = ", ";
    }
    fputs(mark, out);
    if (tally->rated)
        fprintf(out, "; geometric mean of new/base %.3f over %zu (above 1 is slower)",
                tally->geomean, tally->rated);
    fputc('\n', out);
}

static void put_table(FILE *out, const struct attn_pairs *pairs,
                      const struct attn_compare_tally *tally)
{
    put_cells(out, NULL);
    fputs("case\n", out);
    for (size_t g = 0; g < GROUPS; g++) {
        if (!tally->of[order[g]])
            continue;
        if (is_folded(order[g]))
            put_folded(out, pairs, order[g]);
        for (size_t i = 0; i < pairs->count && !is_folded(order[g]); i++)
            if (pairs->items[i].verdict == order[g])
                put_line(out, &pairs->items[i]);
    }
    put_tally(out, tally, "");
}

static void put_markdown_line(FILE *out, const struct attn_pair *pair)
{
    struct cells cells;
    fill_cells(pair, &cells);
    fputs("| ", out);
    attn_put_markdown(out, pair->row->label);
    fprintf(out, "%s", cache_words(pair));
    if (*pair->reason) {
        fputs(": ", out);
        attn_put_markdown(out, pair->reason);
    }
    fputs(" | ", out);
    attn_put_markdown(out, cells.names);
    fprintf(out, " | %s | %s | %s | %s |\n", cells.ratio, cells.interval, cells.base, cells.next);
}

/* A section for each verdict; what is the same is folded away. */
static void put_markdown(FILE *out, const struct attn_pairs *pairs,
                         const struct attn_compare_tally *tally)
{
    put_tally(out, tally, "**");
    for (size_t g = 0; g < GROUPS; g++) {
        const bool same = order[g] == ATTN_SAME;
        if (!tally->of[order[g]])
            continue;
        fputc('\n', out);
        if (is_folded(order[g])) {
            put_folded(out, pairs, order[g]);
            continue;
        }
        if (same)
            fprintf(out, "<details><summary>%s</summary>\n\n", verdict_names[order[g]]);
        else
            fprintf(out, "### %s\n\n", verdict_names[order[g]]);
        fputs("| case | backend | new/base | 95 % interval | base | new |\n"
              "|---|---|---:|---|---:|---:|\n",
              out);
        for (size_t i = 0; i < pairs->count; i++)
            if (pairs->items[i].verdict == order[g])
                put_markdown_line(out, &pairs->items[i]);
        fputs(same ? "\n</details>\n" : "", out);
    }
    fputc('\n', out);
}

static json_t *pair_json(const struct attn_pair *pair)
{
    const struct attn_view_row *row = pair->row;
    return json_pack(
        "{s:s,s:s,s:s,s:s,s:s,s:o,s:s,s:s,s:o,s:o,s:o,s:o,s:o,s:s,s:o,s:b}", "id", row->id, "case",
        row->line, "label", row->label, "backend", pair->base_label, "new_backend",
        pair->next_label, "threads", attn_json_number(row->threads), "cache", row->cache, "verdict",
        verdict_names[pair->verdict], "ratio", attn_json_number(pair->ratio.ratio), "lo",
        attn_json_number(pair->ratio.lo), "hi", attn_json_number(pair->ratio.hi), "base_ns",
        attn_json_number(centre(pair->base)), "new_ns", attn_json_number(centre(pair->next)),
        "reason", pair->reason, "p", attn_json_number(pair->p), "by_turns", pair->by_turns);
}

static void put_differences(FILE *out, const struct attn_differences *differences, bool markdown)
{
    for (size_t i = 0; i < differences->count; i++) {
        const struct attn_difference *d = &differences->items[i];
        fprintf(out, "%s%s: the %s is %s in the base and %s in the new\n", markdown ? "- " : "",
                d->stops ? "differs" : "changed", d->what, d->base, d->next);
    }
    if (markdown && differences->count > 0)
        fputs("\n", out); /* ends the list */
}

/* Nothing passes that nothing was compared for. */
static const char *gate_word(bool failed, size_t compared)
{
    return failed ? "FAILED" : compared ? "passed" : "not judged";
}

/* What else the gate judges, after the table of times. */
static void put_gate(FILE *out, const struct attn_compare_findings *f,
                     const struct attn_compare_options *options)
{
    const struct attn_accuracy *accuracy = options->accuracy;
    const size_t slower = f->tally.of[ATTN_SLOWER] + f->tally.of[ATTN_BROKE];
    const size_t grew = f->footprint.grew + f->footprint.steeper;
    const bool unclear = f->tally.rated && f->tally.of[ATTN_UNCLEAR] == f->tally.rated;
    attn_footprint_put(&f->footprint, out);
    attn_instructions_put(&f->instructions, out);
    if (accuracy)
        fprintf(out, "accuracy: %d results compared, %d drifted\n%s", accuracy->compared,
                accuracy->drifted, accuracy->lines);
    fprintf(out, "gate: time %s, memory %s, accuracy %s",
            unclear && !slower ? "unclear" : gate_word(slower, f->tally.rated),
            gate_word(grew, f->footprint.compared),
            gate_word(accuracy && accuracy->drifted, accuracy ? (size_t)accuracy->compared : 0));
    if (f->instructions.compared > 0)
        fprintf(out, ", instructions %s", f->instructions.grew ? "FAILED" : "passed");
    fputc('\n', out);
}

static json_t *gate_json(const struct attn_compare_findings *f,
                         const struct attn_compare_options *options)
{
    const struct attn_accuracy *a = options->accuracy;
    if (!options->gate)
        return json_null();
    return json_pack("{s:{s:I,s:I,s:I,s:I,s:O},s:{s:i,s:i,s:s},s:{s:I,s:I,s:I,s:O}}", "memory",
                     "compared", (json_int_t)f->footprint.compared, "grew",
                     (json_int_t)f->footprint.grew, "orders", (json_int_t)f->footprint.orders,
                     "steeper", (json_int_t)f->footprint.steeper, "results", f->footprint.list,
                     "accuracy", "compared", a ? a->compared : 0, "drifted", a ? a->drifted : 0,
                     "lines", a ? a->lines : "", "instructions", "compared",
                     (json_int_t)f->instructions.compared, "grew", (json_int_t)f->instructions.grew,
                     "lost", (json_int_t)f->instructions.lost, "results", f->instructions.list);
}

static int put_json(FILE *out, const struct attn_compare_findings *f,
                    const struct attn_compare_options *options)
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
                             attn_json_number(f->tally.geomean), "exit", (int)f->exit, "reason",
                             f->reason, "differences", attn_differences_json(&f->differences),
                             "gate", f->footprint.list ? gate_json(f, options) : json_null());
    bad = bad || !root || json_dumpf(root, out, JSON_INDENT(1) | JSON_PRESERVE_ORDER) != 0;
    json_decref(root);
    fputc('\n', out);
    return bad ? -1 : 0;
}

/* Of two backends of one run: what their ratios are made of. */
static void put_sources(FILE *out, const struct attn_compare_tally *tally, double margin)
{
    const size_t rest = tally->rated - tally->by_turns;
    fprintf(out, "ratios of %zu of %zu by turns in this run", tally->by_turns, tally->rated);
    if (rest)
        fprintf(out, ", of %zu by medians of rounds, which is less sure", rest);
    fprintf(out, "; margin %g %%\n", 100 * margin);
}

int attn_compare_put(FILE *out, const struct attn_compare_findings *f,
                     const struct attn_compare_options *options)
{
    if (options->json)
        return put_json(out, f, options);
    if (f->pairs.count)
        (options->markdown ? put_markdown : put_table)(out, &f->pairs, &f->tally);
    if (f->pairs.count && options->anchor)
        fprintf(out, "ratios are of times relative to %s, round by round; margin %g %%\n",
                options->anchor, 100 * options->margin);
    else if (f->pairs.count && f->stored)
        fprintf(out,
                "times are absolute: they hold for this machine in the state of both runs; "
                "margin %g %%\n",
                100 * options->margin);
    else if (f->pairs.count)
        put_sources(out, &f->tally, options->margin);
    if (f->footprint.list)
        put_gate(out, f, options);
    /* Why nothing was compared is for stderr. */
    put_differences(out, &f->differences, options->markdown);
    return 0;
}
