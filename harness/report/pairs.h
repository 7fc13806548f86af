/* SPDX-License-Identifier: Apache-2.0 */
/* pairs.h - which result of a new run belongs to which of its base. */
#ifndef ATTN_REPORT_PAIRS_H
#define ATTN_REPORT_PAIRS_H

#include "report/view.h"
#include "results/statistics.h"

/* What the comparison of one result says. */
enum attn_comparison {
    ATTN_SAME,    /* interval of the ratio inside the margin */
    ATTN_FASTER,  /* whole interval below 1 / (1 + margin): slower, with the sides swapped */
    ATTN_SLOWER,  /* whole interval above 1 + margin: a regression */
    ATTN_UNCLEAR, /* interval too wide to say */
    ATTN_BROKE,   /* base was timed, new failed, ended badly or refused the case */
    ATTN_ONLY_BASE,
    ATTN_ONLY_NEW
};

enum { ATTN_MAP_MAX = 16 };

struct attn_compare_options {
    double margin;           /* 0.03 */
    const char *backends[2]; /* --backends A,B within one run; NULL: by backend name across runs */
    const char *map[ATTN_MAP_MAX][2]; /* --map A=B: A of base or of new against B of the other */
    int n_map;
    bool strict; /* unclear counts as inconclusive */
    bool json;   /* JSON in place of a table */
};

struct attn_pair {
    const struct attn_view_row *base, *next; /* NULL on the side that has none */
    const struct attn_view_row *row;         /* of the two, the one that names the case */
    const char *base_label, *next_label;     /* the backends, never NULL */
    const char *reason;                      /* of the side that was not timed, or "" */
    enum attn_comparison verdict;
    struct attn_ratio ratio; /* NAN, 0, INFINITY until judged */
};

struct attn_pairs {
    struct attn_pair *items;
    size_t count;
    struct attn_view base, next; /* what the items point into */
};

/* Pairs by id, threads, cache and backend (with its options), or by the backends that the options
 * name. A pair that was timed on both sides comes as ATTN_SAME, to be judged; the others have their
 * verdict. What was timed on neither side is left out, and so are backends that measure the harness
 * alone. A new result that was skipped is ATTN_BROKE, but ATTN_ONLY_BASE for want of time or memory
 * and between two backends that the options name, with its reason. Returns 0, or -1 with the
 * reason. */
int attn_pairs_create(const struct attn_run_data *base, const struct attn_run_data *next,
                      const struct attn_compare_options *options, struct attn_pairs *pairs,
                      char *why, size_t size);
/* Why nothing was timed on both sides, in one sentence: a backend that the options name and the run
 * does not have, with the nearest that it has, or that it is so. */
void attn_pairs_explain_none(const struct attn_pairs *pairs,
                             const struct attn_compare_options *options, char *why, size_t size);
void attn_pairs_free(struct attn_pairs *pairs);

#endif
