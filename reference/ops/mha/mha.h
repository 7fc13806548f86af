/* SPDX-License-Identifier: Apache-2.0 */
/* mha.h - what the files of this operator share. */
#ifndef ATTN_REFERENCE_OPS_MHA_H
#define ATTN_REFERENCE_OPS_MHA_H

#include <math.h>

#include "reference/job.h"
#include "reference/op.h"

extern const struct ref_op ref_op_mha;

int ref_mha_compute(const struct ref_job *job);

/* y = x w^T + bias for `rows` rows, and the error of y from that of x. w is transposed so that sums
 * run along its columns. */
struct ref_projection {
    int64_t rows, in, out;
    const double *x, *x_error; /* [rows, in]; x_error NULL: exact */
    double *y, *y_error;       /* [rows, out]; y_error NULL: no bound */
    bool stored;               /* y is rounded to the type of projections */
    /* Working arrays, which ref_mha_project fills: */
    double *w, *wt; /* [out, in], [in, out] */
    double *bias;   /* [out] */
    double *sum_w;  /* [out]: sum of |w| */
    const struct ref_arithmetic *a;
};

/* project.c: projects with rows [first, first + out) of the tensor of role `weight`, and the same
 * entries of that of role `bias` (zeros if there is no such tensor). */
void ref_mha_project(const struct ref_job *job, uint32_t weight, uint32_t bias, int64_t first,
                     struct ref_projection *p);

/* spread.c, for generic fills: lambda times how far the errors of y spread, from those errors. */
void ref_mha_spread(const struct ref_arithmetic *a, const struct ref_projection *p, double *spread);

/* The same for keys, into k_spread_t and k_most_t. `spread` [rows, out] is room to work. */
void ref_mha_spread_keys(const struct ref_arithmetic *a, const struct ref_projection *p,
                         const struct ref_keys *keys, double *spread);

/* Errors of the heads on their way through W_o, on generic fills. */
struct ref_mha_joining {
    struct ref_joined joined; /* of the head at work */
    double *row;              /* [Dv]: room to load W_o */
    double *squares;          /* [rows, Eo]: sum of most^2 over the heads */
    double *stays;            /* [rows, Eo]: sum of stays most */
};

/* Is it worth it? Else errors of the heads are added up as they are. */
bool ref_mha_joins(const struct ref_job *job, const struct ref_keys *keys);

/* ATTN_OK or ATTN_OUT_OF_MEMORY; free it in either case. */
int ref_mha_joining_create(const struct ref_job *job, int64_t rows, struct ref_mha_joining *m);
void ref_mha_joining_free(struct ref_mha_joining *m);

/* Prepares head h, whose keys are loaded. Head 0 is the first. */
void ref_mha_joining_load(const struct ref_job *job, const struct ref_keys *keys, int64_t h,
                          int64_t rows, struct ref_mha_joining *m);

/* Adds row r of the head at work to the sums over the heads. */
void ref_mha_joining_add(struct ref_mha_joining *m, int64_t r);

/* Adds to y_error what errors of the heads become in the projection p by W_o, which was made as if
 * they had none. error [rows, in]: of the heads. Overwrites p->w; `square` [rows, out] is room to
 * work. */
void ref_mha_join(const struct ref_job *job, const struct ref_projection *p,
                  struct ref_mha_joining *m, const double *error, double *square);

/* Returns `error` if `size`, a bound on |x|, is at most `largest`. Else x may overflow, and the
 * result is +inf. A `size` of NaN gives +inf, too. */
static inline double ref_mha_error_within(double error, double size, double largest)
{
    return size <= largest ? error : INFINITY;
}

#endif
