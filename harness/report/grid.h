/* SPDX-License-Identifier: Apache-2.0 */
/* grid.h - lays results out for comparison: one line per case, one column per backend. Also counts
 * skips by reason. The structures point into the view, which must outlive them. */
#ifndef ATTN_REPORT_GRID_H
#define ATTN_REPORT_GRID_H

#include <stdint.h>

#include "report/view.h"

enum attn_grid_kind {
    ATTN_GRID_HOT,     /* every case; all timings except cold-cache ones */
    ATTN_GRID_RESULTS, /* the same, with backends that have no timing and say why */
    ATTN_GRID_COLD,    /* cases timed with a cold cache, and such backends */
    ATTN_GRID_CHECKS   /* every case; the first result of each backend, timed or not */
};

#define ATTN_GROUP_UNNAMED "cases"

struct attn_grid_line {
    const struct attn_view_row *row; /* one of the cells; it names the case */
    /* The beginning of the case's name, up to '_' or '/'; ATTN_GROUP_UNNAMED if it has
     * no name. */
    const char *group;
    size_t group_length,
        group_order; /* order of first appearance; lines of a group stay together */
    const struct attn_view_row **cells; /* one per column; NULL: not run */
};

struct attn_grid {
    /* Backends with something to show: those that are fastest in most cases first. */
    size_t *columns;
    size_t n_columns, n_lines;
    struct attn_grid_line *lines;
    const struct attn_view_row **cells; /* storage of all lines */
};

/* Leaves out backends that compute nothing. A grid without columns has no lines. Returns 0, or -1:
 * no memory. */
int attn_grid_create(const struct attn_view *view, enum attn_grid_kind kind,
                     struct attn_grid *grid);
void attn_grid_free(struct attn_grid *grid);

bool attn_grid_starts_group(const struct attn_grid *grid, size_t line);

/* A reason, and how many cases each backend skipped for it. Reasons that differ only in numbers
 * count as one, which says the largest: "a run is predicted to take up to 12 s". */
struct attn_skip_reason {
    char reason[256], pattern[256]; /* the same with a mark for each number */
    uint64_t differs;               /* bit i: number i is not the same in all that were joined */
    size_t total, *counts;          /* one per backend of the view */
};

struct attn_skips {
    struct attn_skip_reason *items; /* most frequent first */
    size_t count, room;
};

int attn_skips_create(const struct attn_view *view, struct attn_skips *skips);
/* The same of what has no timing because time or memory was missing. */
int attn_untimed_create(const struct attn_view *view, struct attn_skips *skips);
void attn_skips_free(struct attn_skips *skips);

#endif
