/* SPDX-License-Identifier: Apache-2.0 */
/* approximation.h - how far an approximation of softmax attention is from softmax attention: a
 * property of a problem, computed in double from formulas alone. No backend takes part. */
#ifndef ATTN_REFERENCE_APPROXIMATION_H
#define ATTN_REFERENCE_APPROXIMATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "reference/reference.h"

/* Rows of OUT that are looked at, at most. */
#define REF_APPROXIMATION_ROWS 256

/* Over the rows that were looked at. "Exact" is softmax attention of the same q, k, v, scale and
 * mask; of rows of zeros no ratio is taken. Weights are those that multiply the rows of v. */
struct ref_approximation {
    int64_t rows;
    double rel_fro; /* Frobenius norm of the difference over that of the exact rows */
    double max_row; /* largest Euclidean norm of a row's difference over that of its exact row */
    double cosine_min, cosine_median; /* of a row and its exact row */
    double tv_mean, tv_max; /* half the sum of |difference| of a row's weights: total variation */
    double mass_kept;       /* exact weight on keys to which the formula gives any; mean */
    double negative_mass;   /* sum of a row's negative weights, >= 0; mean */
    double flops_ratio;     /* FLOPs by the convention of the operator's OP.md over those of exact
                               attention */
    double bytes_ratio;     /* bytes of operands and out, each once; the same */
};

/* Is a problem an approximation of softmax attention: an operator with REF_APPROXIMATES, or
 * op=attention through a window with global tokens (Longformer), without anything else that exact
 * attention of the same q, k, v has not. */
bool ref_approximates(const struct attn_problem *problem);

/* Compares on rows that a request asks of output 0, evenly chosen of them if there are more than
 * REF_APPROXIMATION_ROWS. An operator with shared queries and keys (no operand k) has keys q/|q|.
 * ATTN_OK; ATTN_UNSUPPORTED if the problem approximates nothing, or with the reason of
 * ref_compute; ATTN_OUT_OF_MEMORY. */
int ref_approximation(const struct attn_problem *problem, const struct ref_request *request,
                      struct ref_approximation *result, char *why, size_t size);

#endif
