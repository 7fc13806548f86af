/* SPDX-License-Identifier: Apache-2.0 */
/* speedup.h - how many times faster than a baseline each backend is, case by case. */
#ifndef ATTN_REPORT_SPEEDUP_H
#define ATTN_REPORT_SPEEDUP_H

#include "report/grid.h"
#include "results/statistics.h"

/* The time of `base` over the time of `row`, two results of one case in one run: above 1 `row` is
 * faster. Every ratio that a report shows comes from here. The paired ratio (report/paired.h) if
 * they took turns. Else that of round medians with Welch's interval, which is (0, INFINITY) if a
 * side has one round. All NAN if one of the two was not timed, was wrong, or is NULL. */
struct attn_ratio attn_row_ratio(const struct attn_view_row *base, const struct attn_view_row *row);

struct attn_speedup {
    struct attn_grid grid; /* ATTN_GRID_HOT; the view must outlive it */
    size_t baseline;       /* a column of the grid; n_columns: no baseline */
    const struct attn_view *view;
    bool chosen; /* chosen by ATTN_BASELINE_RULE, not by name */
};

#define ATTN_BASELINE_RULE                                                                         \
    "the slowest exact backend of those timed in more than half of the cases, by the geometric "   \
    "mean over the cases that all of them share"

/* `wanted` is a backend's label or name; NULL: ATTN_BASELINE_RULE applies. There is no baseline if
 * fewer than two backends were timed. Returns 0; 1 with the reason if no backend called `wanted`
 * was timed; or -1 with the reason. On failure there is nothing to free. */
int attn_speedup_create(const struct attn_view *view, const char *wanted,
                        struct attn_speedup *speedup, char *why, size_t size);
void attn_speedup_free(struct attn_speedup *speedup);

/* attn_row_ratio of the baseline and the column's backend. */
struct attn_ratio attn_speedup_of(const struct attn_speedup *speedup, size_t line, size_t column);

struct attn_speedup_mean {
    double mean, least, greatest; /* geometric mean of attn_speedup_of; NAN without cases */
    size_t cases;
};

/* Over the lines first to end - 1. */
struct attn_speedup_mean attn_speedup_mean(const struct attn_speedup *speedup, size_t first,
                                           size_t end, size_t column);

/* Was any backend but the baseline timed in the lines first to end - 1? */
bool attn_speedup_any(const struct attn_speedup *speedup, size_t first, size_t end);

/* One past the last line of the group that begins with `first`. */
size_t attn_speedup_group_end(const struct attn_speedup *speedup, size_t first);

#endif
