/* SPDX-License-Identifier: Apache-2.0 */
/* paired.h - ratios of backends that took turns in one run, and how well they are known. */
#ifndef ATTN_REPORT_PAIRED_H
#define ATTN_REPORT_PAIRED_H

#include <stdio.h>

#include "report/grid.h"
#include "results/statistics.h"

/* The time of `base` over the time of `row`, results of one case: above 1 `row` is faster. Each
 * round in which both took turns gives one ratio, by way of their anchor. The ratio is the median
 * over the rounds, with its 95 % interval (results/figures.h); (0, INFINITY) with one round. False
 * if they never took turns in the same cycles. */
bool attn_paired_ratio_of(const struct attn_view_row *base, const struct attn_view_row *row,
                          struct attn_ratio *ratio);

/* The column of the backend that was fastest in turns; grid->n_columns: none has a ratio. */
size_t attn_paired_best(const struct attn_grid *grid, size_t line);

/* How many ratios to the best backend of each case have an interval, and the median of the widths:
 * (hi - lo) / ratio. NAN: none. */
struct attn_paired_widths {
    size_t ratios;
    double median;    /* (upper end - lower end) / ratio; NAN: none */
    double disturbed; /* share of their rounds that something else on the core disturbed */
};
struct attn_paired_widths attn_paired_widths_of(const struct attn_grid *grid);

/* Tables of ratios to the best backend. Write nothing if no backends took turns. Return 0, or -1:
 * no memory. */
int attn_html_put_paired(FILE *out, const struct attn_view *view);
int attn_markdown_put_paired(FILE *out, const struct attn_view *view);

#endif
