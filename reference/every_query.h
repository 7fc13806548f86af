/* SPDX-License-Identifier: Apache-2.0 */
/* every_query.h - all rows of one query. Private to every.c and every_query.c. */
#ifndef ATTN_REFERENCE_EVERY_QUERY_H
#define ATTN_REFERENCE_EVERY_QUERY_H

#include "reference/job.h"

/* Keys of a leaf. */
#define EVERY_LEAF 16
/* Entries of a sum before its columns: the largest score, the sums of p, p (e^w - 1), and
 * p e^-shift (1 - relative). Then p v of each column, and p (e^w - 1) v of each column. */
enum { EVERY_MOST, EVERY_WEIGHT, EVERY_GROWTH, EVERY_LOWER, EVERY_COLUMNS };

/* What one thread works with: the tree of one query, and the answers of its rows. */
struct every_work {
    struct ref_scratch *scratch;
    double *tree;       /* nodes of `width`: leaf n is node leaves + n, the sum of all is node 1 */
    double *sum;        /* of one row */
    double *q;          /* [Dq] */
    double *answers;    /* [rows of the query, 2 Dv + 2]: out, bound, lse, its bound */
    int64_t capacity;   /* rows that fit */
    int64_t first, end; /* keys that any row of the query sees */
    int64_t leaves;
    double top, least; /* largest and least score, and sink */
    double rise;
    double sink, sink_growth, sink_lower; /* of the sink, as of a key */
    const char *wrong;                    /* why the query cannot be done; NULL: it can */
};

struct every {
    struct ref_job job;
    struct ref_keys keys;
    struct ref_block block;
    struct every_work *works;
    int64_t width;          /* of a sum */
    int64_t *query;         /* [Sq] number of the row's query in this head */
    int64_t *order, *start; /* rows by query */
    int64_t queries, first_query;
    int64_t step; /* of the window of this head */
    bool sink;
    double sink_logit;
    uint32_t lse_dtype;
};

/* Finds the keys of a query, computes their scores and weights, and builds the tree. Sets
 * work->wrong if that cannot be done. */
void ref_every_begin(const struct every *e, struct every_work *w, int64_t query);

/* Writes the answer of row i, which has that query. */
void ref_every_answer(const struct every *e, struct every_work *w, int64_t i, double *answer);

#endif
