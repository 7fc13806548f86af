/* SPDX-License-Identifier: Apache-2.0 */
/* weight.h - a weight function as data: what stands in place of the softmax.
 *
 * A weight function is one file of reference/weights and one line in the table of known.c. The
 * weight of a key is f of its score alone. So nothing divides it, and no maximum is taken off. No
 * code branches on the number of a weight function. */
#ifndef ATTN_REFERENCE_WEIGHT_H
#define ATTN_REFERENCE_WEIGHT_H

#include <stdint.h>

#include "attnbench/backend.h"

struct ref_arithmetic;
struct ref_row_bound;
struct ref_softmax;
struct ref_keys;
struct ref_scratch;
struct ref_block;

struct ref_weight {
    int64_t weight_fn; /* enum attn_weight_fn */
    const char *name;  /* word of weight_fn= */

    /* f(s). s is not -inf. NaN gives NaN. */
    double (*value)(double s);
    /* How far f may be off because the score s is off by up to ds. Includes the rounding of f's
     * own argument. */
    double (*spread)(const struct ref_arithmetic *a, double s, double ds);
    /* Relative error of f at the computed score, beside e_f. */
    double (*relative)(const struct ref_arithmetic *a, double s, double ds);
};

/* All weight functions but softmax, in the order of their numbers; ended by NULL. */
extern const struct ref_weight *const ref_weights_known[];

/* A weight function by number. NULL: softmax, or there is none. */
const struct ref_weight *ref_weight_find(int64_t weight_fn);

/* The weight function of a problem. NULL: softmax. */
const struct ref_weight *ref_weight_of(const struct attn_problem *problem);

/* bound_weights.c: growth, upper and store of every allowed key, as ref_bound_row sets them, but of
 * weights that nothing divides. Reads logit, wrong and p of the scratch; logit is then the
 * logarithm of p. Sets chain, product, lost, dropout, peak and overflows of *bound. */
void ref_bound_weights(const struct ref_arithmetic *a, const struct ref_softmax *row,
                       const struct ref_weight *weight, struct ref_scratch *scratch,
                       struct ref_row_bound *bound);

/* bound_weights.c, after ref_bound_weights: E of each column of out. */
void ref_bound_weighed(const struct ref_arithmetic *a, const struct ref_softmax *row,
                       const struct ref_row_bound *bound, const struct ref_keys *keys,
                       struct ref_scratch *scratch, const double *out, double *error);

/* gate.c: multiplies row i of out by the gate of the block's head, and makes E of the product.
 * error NULL: no bound. */
void ref_gate_row(const struct ref_block *block, int64_t i, double *out, double *error);

#endif
