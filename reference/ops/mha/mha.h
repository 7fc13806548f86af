/* SPDX-License-Identifier: Apache-2.0 */
/* mha.h - what the files of this operator share. */
#ifndef ATTN_REFERENCE_OPS_MHA_H
#define ATTN_REFERENCE_OPS_MHA_H

#include <math.h>

#include "reference/job.h"
#include "reference/op.h"

extern const struct ref_op ref_op_mha;

int ref_mha_compute(const struct ref_job *job);

/* exact.c: the types that a projection goes through, as one: unit roundoff of the coarsest, least
 * number of the one with the shortest range, largest number; and the rounding of factors. */
struct ref_exactness {
    double u, least, most, u_in;
};
struct ref_exactness ref_exactness_of(const struct ref_job *job, bool stored);

/* Is a sum of whole multiples of `unit`, whose absolute values add up to `size`, exact in any
 * order? `unit` is a power of two. */
bool ref_exact_sum(const struct ref_exactness *exactness, double size, double unit);

/* The largest power of two of which `count` values, `step` apart, are whole multiples; +inf if all
 * are 0. 0: there is none that makes sums with all of them exact, or reading rounds one of them. */
double ref_exact_unit(const struct ref_exactness *exactness, const double *value, int64_t step,
                      int64_t count);

/* exact.c: the weights that are not 0, where they are few: weights [start[c], start[c + 1]) are
 * those of column c of y. start NULL: they are not few. */
struct ref_few {
    int64_t *start, *index;
    double *weight;
};

/* y = x w^T + bias for `rows` rows, and the error of y from that of x. w is transposed so that sums
 * run along its columns. */
struct ref_projection {
    int64_t rows, in, out;
    const double *x, *x_error; /* [rows, in]; x_error NULL: exact, unless `inexact` */
    bool inexact;              /* x has errors, which ref_mha_join adds */
    double *y, *y_error;       /* [rows, out]; y_error NULL: no bound */
    bool stored;               /* y is rounded to the type of projections */
    bool folded;               /* w and bias may hold the scale of the scores */
    /* Working arrays, which ref_mha_project fills: */
    double *w, *wt; /* [out, in], [in, out] */
    double *bias;   /* [out] */
    double *sum_w;  /* [out]: sum of |w| */
    double *unit_w; /* [out]: ref_exact_unit of w, where w is not few; NULL: no error is wanted */
    const struct ref_arithmetic *a;
    struct ref_exactness exactness;
    struct ref_few few;
};

/* False: the weights that are not 0 are many, or there is no memory; then all are used. */
bool ref_few_create(struct ref_few *few, const double *w, int64_t out, int64_t in);
void ref_few_free(struct ref_few *few);
/* Does weight 0 times each of these x give 0? */
bool ref_few_usable(const struct ref_few *few, const double *x, const double *x_error, int64_t in);
/* Row r of y, and its errors, the rounding of its storage included. */
void ref_few_project(const struct ref_projection *p, int64_t r);

/* exact.c: relative error of a product that a folded scale makes of an exact one. */
double ref_mha_fold(const struct ref_projection *p);

/* project.c: adds the rounding of the storage to the error of entry `at` of y. */
void ref_mha_store(const struct ref_projection *p, int64_t at);

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
