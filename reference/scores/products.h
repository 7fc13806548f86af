/* SPDX-License-Identifier: Apache-2.0 */
/* products.h - what scores share: sums over the columns of keys, and their errors. Private to this
 * folder. */
#ifndef ATTN_REFERENCE_SCORES_PRODUCTS_H
#define ATTN_REFERENCE_SCORES_PRODUCTS_H

#include "reference/job.h"
#include "reference/score.h"

/* Keys that a thread loads at a time. */
#define REF_LOAD_KEYS 256

/* s_j = t.k_j for keys [begin, end). */
void ref_score_dot(const struct ref_keys *keys, const double *t, int64_t begin, int64_t end,
                   double *s);

/* sum_j += sum_c |t_c k_cj| for the keys of a span. k is kt or kt_error. */
void ref_score_columns(const struct ref_score_span *span, const double *t, const double *k,
                       double *sum);

/* Errors of s = t.k with t = q or q^T M, for `length` operations per term. `abs_t` and `t_error`
 * bound |t| and its error. Both are in scratch, and are overwritten. Adds to flush. */
void ref_score_dot_errors(const struct ref_score_span *span, double *abs_t, double *t_error,
                          double length);

/* Adds what underflows in partial sums lose: one per product, for `products` products, times what
 * the rest of the sum makes of it (`growth`). If subnormals are flushed, operands and results of
 * partial sums are flushed like those of the accumulation. */
void ref_score_flush_partial(const struct ref_score_span *span, double products, double growth);

/* Rows of |w| (|k| + e), the absolute terms of w k for keys [begin, end), into `size`. The part
 * that comes from e, the error of projected keys, goes into `off`. */
void ref_score_sizes(const struct ref_keys *keys, const double *w, int64_t begin, int64_t end,
                     double *size, double *off);

/* Raises most_j to x_j if x_j is larger. NaN stays. */
void ref_score_raise(double *most, const double *x, int64_t n);

/* The Euclidean length of row `at` of a tensor. */
double ref_score_length(const struct attn_tensor *tensor, const int64_t *at, int64_t width);

/* Sets ds of a norm, and adds what partial sums lose. The sums of the norm have `products` products
 * and grow by `growth`. */
void ref_score_norm_partial(const struct ref_arithmetic *arithmetic, double growth, double products,
                            struct ref_score_norm *norm);

static inline double ref_score_error_of(const double *array, int64_t index)
{
    return array ? array[index] : 0.0;
}

extern const struct ref_score ref_score_scaled_dot, ref_score_plain_dot, ref_score_bilinear,
    ref_score_gaussian, ref_score_additive, ref_score_disentangled;

#endif
