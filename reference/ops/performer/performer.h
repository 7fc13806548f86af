/* SPDX-License-Identifier: Apache-2.0 */
/* performer.h - what the files of the operator share. */
#ifndef ATTN_REFERENCE_PERFORMER_H
#define ATTN_REFERENCE_PERFORMER_H

#include "reference/job.h"

/* One head of one batch entry in double. x' is a key or a query times the root of the scale. */
struct ref_performer {
    const struct ref_job *job;
    int64_t b, h, m, dk, dv;
    int64_t keys;    /* those that len allows */
    double root;     /* of the scale */
    double eps;      /* 0: none */
    double *w;       /* [m,Dk] */
    double *w_size;  /* [m,Dk] |w| */
    double heaviest; /* the largest sum of |w| of a row */
    double *key;     /* [Dk] a key on its way */
    double *log_k;   /* [Sk,m] logarithms of features */
    double *top;     /* [Sk] the largest of these of a key */
    double *phi;     /* [Sk,m] exp(log_k - top) */
    double *v;       /* [Sk,Dv] */
    double most;     /* of all keys and features: the largest w k' with eps, the largest log_k
                        without */
    double *reach;   /* [Sk] with bounds: the largest sum of |w||k'| of a key */
    double *half;    /* [Sk] |k'|^2 / 2 */
    double longest;  /* the largest of reach */
    double *spread;  /* [Sk] with bounds: how wrong the logarithm of a feature may be */
};

/* One row. */
struct ref_performer_row {
    int64_t n;          /* keys that take part */
    double *x;          /* [Dk] q' */
    double *log_q;      /* [m] logarithms of features, less the largest of them, */
    double top;         /* which is this */
    double *phi;        /* [m] exp(log_q) */
    double *log_p;      /* [n] log of the sum of phi(q) phi(k) over features, less top */
    double log_sum;     /* log of the sum of exp(log_p) */
    double *p;          /* [n] weights */
    double *upper;      /* [n] what a computed weight is at most, and */
    double *moved;      /* [n] how far it is from p at most; both before they are divided */
    double reach, half; /* as those of a key */
    double *out;        /* [Dv] */
    double *columns;    /* [5 Dv] sums of the bound */
};

int ref_performer_compute(const struct ref_job *job);

/* bound.c: sets `spread` of all keys. */
void ref_performer_key_errors(const struct ref_performer *s);

/* bound.c: writes E of each column of a row that has keys to `error`. */
void ref_performer_bound(const struct ref_performer *s, const struct ref_performer_row *row,
                         double *error);

#endif
