/* SPDX-License-Identifier: Apache-2.0 */
/* ranking.h - which backend is fastest where, by how much, and how sure that is. */
#ifndef ATTN_REPORT_RANKING_H
#define ATTN_REPORT_RANKING_H

#include "report/speedup.h"

/* One case. Columns are those of the grid; n_columns: none. Backends whose numbers are wrong or
 * approximate are not ranked. */
struct attn_rank {
    size_t first, second;    /* the fastest, and the fastest of the others */
    size_t ranked;           /* backends */
    struct attn_ratio ratio; /* the second's time over the first's; NAN without a second */
    bool clear;              /* no interval of another's time over the first's holds 1, or it is far
                                slower */
};

/* Cases of one name: "sweep_heads" of sweep_heads/h=1 and so on. Names without '/' that begin alike
 * up to '_' are one family, too, as in the tables of results. */
struct attn_family {
    const char *name;
    size_t length;        /* of the name */
    size_t cases, alone;  /* ranked by two or more backends; by one */
    size_t clear;         /* of `cases` */
    double work;          /* FLOPs of one run of all of them */
    size_t first, second; /* columns: first in most cases, and first in most without that one; the
                             mean decides between equals */
    struct attn_ratio ratio; /* geometric mean of the second's time over the first's */
    size_t shared;           /* cases in it */
    size_t *wins;            /* by column: cases in which it is first, of those of two or more */
    bool *ties; /* by column: over the cases that it shares with the first, it may be as fast */
};

struct attn_ranking {
    const struct attn_grid *grid; /* must outlive the ranking */
    struct attn_rank *lines;      /* one for each line of the grid */
    struct attn_family *families; /* those with `cases`, most work first */
    size_t n_families;
    size_t cases, clear, *wins; /* of the whole run */
    size_t *storage;            /* of all wins */
    bool *tie_storage;
};

/* Whether a result can be ranked: timed, exact and not wrong. NULL is not. */
bool attn_row_ranked(const struct attn_view_row *row);
/* The place of the fastest ranked one of n rows but `except`; n: none. */
size_t attn_fastest(const struct attn_view_row *const *rows, size_t n, size_t except);
/* Whether a row is the fastest of its case or cannot be told from it: the interval of their ratio
 * holds 1. A ratio without an interval, as of one round, ties nothing. `fastest` NULL: there is
 * none. */
bool attn_row_ties(const struct attn_view_row *row, const struct attn_view_row *fastest);

/* Returns 0, or -1: no memory. */
int attn_ranking_create(const struct attn_grid *grid, struct attn_ranking *ranking);
void attn_ranking_free(struct attn_ranking *ranking);

/* Whether a family has no fastest backend: the one that is first in most cases is behind the second
 * in the mean, and they can be told apart. columns: of the grid. */
bool attn_family_no_one(const struct attn_family *family, size_t columns);

/* "sweep_heads", "mask (single cases)" or "unnamed cases". */
void attn_family_label(const struct attn_family *family, char *label, size_t size);

/* Whether a line of the grid belongs to a family. */
bool attn_family_has(const struct attn_family *family, const struct attn_grid_line *line);

/* The geometric mean of independent ratios, with its 95 % interval: standard errors of logarithms
 * add by squares, degrees of freedom by Welch and Satterthwaite. The interval is (0, INFINITY) if
 * one of them has none; all NAN for count 0. */
struct attn_ratio attn_ratio_mean(const struct attn_ratio *ratios, size_t count);

#endif
