/* SPDX-License-Identifier: Apache-2.0 */
/* paired.c - ratios from the field `live` of two results. */
#include "report/paired.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/text.h"
#include "results/figures.h"

enum { ROUNDS_MOST = 1000 };

static bool same_text(const json_t *a, const json_t *b, const char *path)
{
    return strcmp(attn_field_text(a, path), attn_field_text(b, path)) == 0;
}

/* Did both take turns beside the same anchor? */
static bool comparable(const json_t *a, const json_t *b)
{
    return *attn_field_text(a, "live.paired.anchor") && same_text(a, b, "live.paired.anchor") &&
           same_text(a, b, "live.paired.anchor_options");
}

/* The round of this number; NULL: none. */
static const json_t *round_of(const json_t *bench, double number)
{
    size_t i;
    json_t *round;
    json_array_foreach(attn_field_at(bench, "live.in_rounds"), i,
                       round) if (attn_field_number(round, "round") == number) return round;
    return NULL;
}

/* The ratios in the rounds that both have, [ROUNDS_MOST]: in the undisturbed ones, or in all if
 * these are too few. */
static size_t ratios_of(const json_t *base, const json_t *bench, double *values)
{
    double calm[ROUNDS_MOST];
    size_t i, n = 0, n_calm = 0;
    json_t *other;
    json_array_foreach(attn_field_at(base, "live.in_rounds"), i, other)
    {
        const json_t *round = round_of(bench, attn_field_number(other, "round"));
        const double value = attn_field_number(other, "ratio") / attn_field_number(round, "ratio");
        if (!isfinite(value) || !(value > 0) || n == ROUNDS_MOST)
            continue;
        values[n++] = value;
        if (!json_is_true(json_object_get(other, "disturbed")) &&
            !json_is_true(json_object_get(round, "disturbed")))
            calm[n_calm++] = value;
    }
    if (n_calm < ATTN_UNDISTURBED_ROUNDS_LEAST)
        return n;
    memcpy(values, calm, n_calm * sizeof *values);
    return n_calm;
}

/* Standard error of the mean logarithm; -1: unknown. */
static double error_of(const double *values, size_t n)
{
    double mean = 0, squares = 0;
    for (size_t i = 0; i < n; i++)
        mean += log(values[i]) / (double)n;
    for (size_t i = 0; i < n; i++)
        squares += (log(values[i]) - mean) * (log(values[i]) - mean);
    return n > 1 ? sqrt(squares / ((double)(n - 1) * (double)n)) : -1;
}

bool attn_paired_ratio_of(const struct attn_view_row *base, const struct attn_view_row *row,
                          struct attn_ratio *ratio)
{
    double values[ROUNDS_MOST];
    struct attn_interval interval;
    if (!base || !row || !comparable(base->bench, row->bench))
        return false;
    const size_t n = ratios_of(base->bench, row->bench, values);
    if (n == 0)
        return false;
    attn_turns_summarise(values, n, &interval);
    const bool known = isfinite(interval.lo) && isfinite(interval.hi);
    *ratio = (struct attn_ratio){.ratio = interval.value,
                                 .lo = known ? interval.lo : 0,
                                 .hi = known ? interval.hi : INFINITY,
                                 .error = error_of(values, n),
                                 .df = n > 1 ? (double)(n - 1) : 1};
    return true;
}

/* Is its time one of right numbers? */
size_t attn_paired_best(const struct attn_grid *grid, size_t line)
{
    double least = INFINITY;
    size_t best = grid->n_columns;
    for (size_t c = 0; c < grid->n_columns; c++) {
        const struct attn_view_row *row = grid->lines[line].cells[c];
        const double ratio =
            attn_row_timed(row) ? attn_field_number(row->bench, "live.paired.ratio") : (double)NAN;
        if (ratio > 0 && ratio < least) {
            least = ratio;
            best = c;
        }
    }
    return best;
}

struct attn_paired_widths attn_paired_widths_of(const struct attn_grid *grid)
{
    struct attn_paired_widths widths = {0, NAN, 0};
    double rounds = 0, undisturbed = 0;
    double *all = calloc(grid->n_lines * grid->n_columns + 1, sizeof *all);
    for (size_t i = 0; i < grid->n_lines && all; i++) {
        const struct attn_view_row **cells = grid->lines[i].cells;
        const size_t best = attn_paired_best(grid, i);
        struct attn_ratio ratio;
        for (size_t c = 0; c < grid->n_columns && best < grid->n_columns; c++)
            if (c != best && attn_row_timed(cells[c]) &&
                attn_paired_ratio_of(cells[c], cells[best], &ratio) && isfinite(ratio.hi)) {
                all[widths.ratios++] = (ratio.hi - ratio.lo) / ratio.ratio;
                rounds += attn_field_number(cells[c]->bench, "live.rounds");
                undisturbed += attn_field_number(cells[c]->bench, "live.undisturbed");
            }
    }
    if (all && widths.ratios > 0) {
        attn_sort_doubles(all, widths.ratios);
        widths.median = attn_quantile_sorted(all, widths.ratios, 0.5);
        widths.disturbed = undisturbed < rounds ? 1 - undisturbed / rounds : 0;
    }
    free(all);
    return widths;
}
