/* SPDX-License-Identifier: Apache-2.0 */
/* speedup.h - how many times faster each backend is than a baseline, case by case. */
#ifndef ATTN_REPORT_SPEEDUP_H
#define ATTN_REPORT_SPEEDUP_H

#include "report/grid.h"
#include "results/statistics.h"

struct attn_speedup {
    struct attn_grid grid; /* ATTN_GRID_HOT; what it points into must outlive this */
    size_t baseline;       /* a column of the grid; n_columns: there is none */
    const struct attn_view *view;
    bool chosen; /* by ATTN_BASELINE_RULE, not by name */
};

#define ATTN_BASELINE_RULE                                                                         \
    "the slowest exact backend of those timed in more than half of the cases, by the geometric "   \
    "mean over the cases that all of them share"

/* `wanted` is a backend's label or name; NULL: ATTN_BASELINE_RULE. There is no baseline where fewer
 * than two backends were timed. Returns 0; 1 with the reason where no backend called `wanted` was
 * timed, or -1 with the reason; then nothing is to be freed. */
int attn_speedup_create(const struct attn_view *view, const char *wanted,
                        struct attn_speedup *speedup, char *why, size_t size);
void attn_speedup_free(struct attn_speedup *speedup);

/* Time of the baseline over that of the column's backend: above 1 the backend is faster. From round
 * medians, with Welch's interval, (0, INFINITY) where a side has one round; all NAN where one of
 * the two was not timed or not right. */
struct attn_ratio attn_speedup_of(const struct attn_speedup *speedup, size_t line, size_t column);

struct attn_speedup_mean {
    double mean, least, greatest; /* geometric mean of attn_speedup_of; NAN without cases */
    size_t cases;
};

/* Over the lines first to end - 1. */
struct attn_speedup_mean attn_speedup_mean(const struct attn_speedup *speedup, size_t first,
                                           size_t end, size_t column);

/* The end of the group of lines that begins with `first`. */
size_t attn_speedup_group_end(const struct attn_speedup *speedup, size_t first);

#endif
