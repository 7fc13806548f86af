/* SPDX-License-Identifier: Apache-2.0 */
/* speedup.c - chooses a baseline and holds the others against it. */
#include "report/speedup.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/paired.h"
#include "report/text.h"

static const struct attn_view_backend *backend_at(const struct attn_speedup *speedup, size_t column)
{
    return &speedup->view->backends[speedup->grid.columns[column]];
}

/* Whether a column may be the baseline unasked. */
static bool is_candidate(const struct attn_grid *grid, size_t column)
{
    size_t timed = 0, lines = 0;
    for (size_t i = 0; i < grid->n_lines; i++) {
        bool any = false;
        for (size_t c = 0; c < grid->n_columns; c++)
            any = any || attn_row_timed(grid->lines[i].cells[c]);
        const struct attn_view_row *row = grid->lines[i].cells[column];
        if (attn_row_timed(row) && !attn_row_exact(row))
            return false;
        lines += any;
        timed += attn_row_timed(row);
    }
    return 2 * timed > lines;
}

/* The sum of a column's logarithms of time over the lines in which every candidate was timed. */
static double shared_time(const struct attn_grid *grid, const bool *candidates, size_t column)
{
    double sum = 0;
    for (size_t i = 0; i < grid->n_lines; i++) {
        bool shared = true;
        for (size_t c = 0; c < grid->n_columns; c++)
            shared = shared && (!candidates[c] || attn_row_timed(grid->lines[i].cells[c]));
        if (shared)
            sum += log(grid->lines[i].cells[column]->median);
    }
    return sum;
}

/* ATTN_BASELINE_RULE. Returns the column, n_columns where there is none; -1 without memory. */
static int choose(struct attn_speedup *speedup)
{
    const struct attn_grid *grid = &speedup->grid;
    bool *candidates = calloc(grid->n_columns + 1, sizeof *candidates);
    double slowest = -INFINITY;
    if (!candidates)
        return -1;
    speedup->baseline = grid->n_columns;
    speedup->chosen = true;
    for (size_t c = 0; c < grid->n_columns; c++)
        candidates[c] = is_candidate(grid, c);
    for (size_t c = 0; c < grid->n_columns; c++) {
        double time = candidates[c] ? shared_time(grid, candidates, c) : -INFINITY;
        if (time > slowest) {
            slowest = time;
            speedup->baseline = c;
        }
    }
    free(candidates);
    return 0;
}

/* The column of a label or, of several with other options, the first of a name. */
static int find(struct attn_speedup *speedup, const char *wanted, char *why, size_t size)
{
    size_t n = speedup->grid.n_columns;
    int used;
    speedup->baseline = n;
    for (size_t c = n; c-- > 0;)
        if (strcmp(backend_at(speedup, c)->name, wanted) == 0)
            speedup->baseline = c;
    for (size_t c = 0; c < n; c++)
        if (strcmp(backend_at(speedup, c)->label, wanted) == 0)
            speedup->baseline = c;
    if (speedup->baseline < n)
        return 0;
    used =
        snprintf(why, size, "the baseline '%.100s' was not timed in this run; these were:", wanted);
    for (size_t c = 0; c < n && used > 0 && (size_t)used < size; c++)
        used += snprintf(why + used, size - (size_t)used, " %s", backend_at(speedup, c)->label);
    if (n == 0)
        snprintf(why, size, "there is no baseline '%.100s': nothing was timed in this run", wanted);
    return 1;
}

int attn_speedup_create(const struct attn_view *view, const char *wanted,
                        struct attn_speedup *speedup, char *why, size_t size)
{
    struct attn_speedup fresh = {.view = view};
    if (attn_grid_create(view, ATTN_GRID_HOT, &fresh.grid) != 0) {
        snprintf(why, size, "no memory for the speed-ups");
        return -1;
    }
    int status = wanted ? find(&fresh, wanted, why, size) : choose(&fresh);
    if (status < 0)
        snprintf(why, size, "no memory for the speed-ups");
    if (status != 0) {
        attn_speedup_free(&fresh);
        return status;
    }
    if (fresh.grid.n_columns < 2)
        fresh.baseline = fresh.grid.n_columns;
    *speedup = fresh;
    return 0;
}

void attn_speedup_free(struct attn_speedup *speedup)
{
    attn_grid_free(&speedup->grid);
}

struct attn_ratio attn_row_ratio(const struct attn_view_row *base, const struct attn_view_row *row)
{
    struct attn_ratio ratio = {NAN, NAN, NAN, -1, 1};
    double *base_medians = NULL, *medians = NULL;
    if (!attn_row_timed(base) || !attn_row_timed(row) || attn_paired_ratio_of(base, row, &ratio))
        return ratio;
    size_t n_base = attn_view_round_medians(base->bench, &base_medians);
    size_t n = attn_view_round_medians(row->bench, &medians);
    if (n_base && n) {
        ratio = attn_ratio_of(medians, n, base_medians, n_base);
        if (n < ATTN_INTERVAL_ROUNDS || n_base < ATTN_INTERVAL_ROUNDS)
            ratio = (struct attn_ratio){ratio.ratio, 0, INFINITY, -1, 1};
    }
    free(base_medians);
    free(medians);
    return ratio;
}

struct attn_ratio attn_speedup_of(const struct attn_speedup *speedup, size_t line, size_t column)
{
    const struct attn_view_row **cells = speedup->grid.lines[line].cells;
    return attn_row_ratio(cells[speedup->baseline], cells[column]);
}

struct attn_speedup_mean attn_speedup_mean(const struct attn_speedup *speedup, size_t first,
                                           size_t end, size_t column)
{
    struct attn_speedup_mean mean = {NAN, NAN, NAN, 0};
    double sum = 0;
    for (size_t i = first; i < end; i++) {
        double ratio = attn_speedup_of(speedup, i, column).ratio;
        if (!isfinite(ratio) || ratio <= 0)
            continue;
        sum += log(ratio);
        mean.cases++;
        mean.least = fmin(mean.least, ratio);
        mean.greatest = fmax(mean.greatest, ratio);
    }
    if (mean.cases)
        mean.mean = exp(sum / (double)mean.cases);
    return mean;
}

bool attn_speedup_any(const struct attn_speedup *speedup, size_t first, size_t end)
{
    size_t cases = 0;
    for (size_t c = 0; c < speedup->grid.n_columns; c++)
        if (c != speedup->baseline)
            cases += attn_speedup_mean(speedup, first, end, c).cases;
    return cases > 0;
}

size_t attn_speedup_group_end(const struct attn_speedup *speedup, size_t first)
{
    size_t end = first + 1;
    while (end < speedup->grid.n_lines && !attn_grid_starts_group(&speedup->grid, end))
        end++;
    return end;
}
