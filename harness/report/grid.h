/* SPDX-License-Identifier: Apache-2.0 */
/* grid.h - results as a reader compares them: a line a case, a column a backend; and skips counted
 * by reason. What is built here points into the view, which must outlive it. */
#ifndef ATTN_REPORT_GRID_H
#define ATTN_REPORT_GRID_H

#include "report/view.h"

enum attn_grid_kind {
    ATTN_GRID_HOT,   /* every case; timings but those of the cold cache */
    ATTN_GRID_COLD,  /* cases timed in the cold cache */
    ATTN_GRID_CHECKS /* every case; the first result of each backend, timed or not */
};

struct attn_grid_line {
    const struct attn_view_row *row; /* one of the cells: names the case */
    /* The group of cases that their names begin with, up to '_' or '/'; "cases" without a name. */
    const char *group;
    size_t group_length, group_order;   /* order of appearance: lines of one group are together */
    const struct attn_view_row **cells; /* one a column; NULL: not run */
};

struct attn_grid {
    size_t *columns; /* backends of the view that have something to show here, its order */
    size_t n_columns, n_lines;
    struct attn_grid_line *lines;
    const struct attn_view_row **cells; /* of all lines */
};

/* Backends that compute nothing are in no grid. A grid without columns has no lines. Returns 0, or
 * -1 without memory. */
int attn_grid_create(const struct attn_view *view, enum attn_grid_kind kind,
                     struct attn_grid *grid);
void attn_grid_free(struct attn_grid *grid);

bool attn_grid_starts_group(const struct attn_grid *grid, size_t line);

/* A reason and how many cases each backend skipped for it. Reasons that differ in numbers alone are
 * one, with N for the numbers. */
struct attn_skip_reason {
    char reason[256];
    size_t total, *counts; /* one a backend of the view */
};

struct attn_skips {
    struct attn_skip_reason *items; /* most frequent first */
    size_t count, room;
};

int attn_skips_create(const struct attn_view *view, struct attn_skips *skips);
void attn_skips_free(struct attn_skips *skips);

#endif
