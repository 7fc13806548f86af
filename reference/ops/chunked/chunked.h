/* SPDX-License-Identifier: Apache-2.0 */
/* chunked.h - what the files of the operator share. */
#ifndef ATTN_REFERENCE_CHUNKED_H
#define ATTN_REFERENCE_CHUNKED_H

#include "reference/job.h"

int ref_chunked_compute(const struct ref_job *job);

/* The factor of the linear part. */
double ref_chunked_lin_scale(const struct attn_problem *problem);

/* bound.c: constants of the bound of one row; OP.md has the letters. */
struct ref_chunked_bound {
    const struct ref_arithmetic *a;
    double scale, lin_scale;         /* their sizes */
    double score, quadratic, linear; /* G of q.k, and of a term on its way into out */
    double omega;                    /* what one underflow may lose */
    bool overflows;                  /* a score or weight may leave the range of its type */
};

/* The arithmetic of a problem whose linear part may be added up in either order: each term of
 * lin_q (lin_k v^T) is a chain of its own. */
struct ref_arithmetic ref_chunked_arithmetic(const struct ref_job *job, int64_t dl);

/* A row that sees `own` keys of its chunk and `far` keys through the linear part. */
void ref_chunked_bound_begin(const struct ref_arithmetic *a, const struct attn_problem *problem,
                             int64_t dl, int64_t own, int64_t far, struct ref_chunked_bound *bound);

/* One cell of the quadratic part. */
struct ref_chunked_cell {
    double product;     /* scale q.k */
    double bias;        /* 0: none */
    double size, reach; /* sums of |q k|, and of |q| + |k| */
};

/* How far its weight, as stored, may be from `weight`. */
double ref_chunked_weight_error(struct ref_chunked_bound *bound, int64_t dk,
                                const struct ref_chunked_cell *cell, double weight);

/* Sums over the keys for one column of out. */
struct ref_chunked_column {
    double size, error;   /* quadratic: of the largest weight and of its error, times |v| */
    double linear, small; /* linear: of |lin_q| |lin_k| |v|; of (1 + the same) */
    double own;           /* of 1 + weight + |v|, for underflows */
};

/* E of an element of out; gate NULL: there is none. */
double ref_chunked_error(const struct ref_chunked_bound *bound,
                         const struct ref_chunked_column *column, double out, const double *gate);

#endif
