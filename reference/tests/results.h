/* SPDX-License-Identifier: Apache-2.0 */
/* results.h - all results of the reference for a small problem. */
#ifndef ATTN_REFERENCE_TESTS_RESULTS_H
#define ATTN_REFERENCE_TESTS_RESULTS_H

#include <stdint.h>

#include "reference/reference.h"
#include "reference/tests/made.h"

#define RESULTS_CELLS 4096

struct results {
    double out[RESULTS_CELLS], out_bound[RESULTS_CELLS];
    double lse[RESULTS_CELLS], lse_bound[RESULTS_CELLS];
    double weights[RESULTS_CELLS], weights_bound[RESULTS_CELLS], scores[3][RESULTS_CELLS];
    int64_t allowed[RESULTS_CELLS];
};

/* A plain backend in f32. */
extern const struct attn_numerics results_f32;

/* Computes some rows, or all of them. A refusal fails the test. */
void results_compute_rows(struct made *m, const struct attn_numerics *numerics,
                          const struct ref_units *rows, int threads, struct results *r);
void results_compute(struct made *m, const struct attn_numerics *numerics, struct results *r);

/* Asserts that a and b are equal up to a few roundings of double. */
void results_assert_near(double a, double b);

/* Sets all elements of a dense tensor. */
void results_set_all(struct attn_tensor *t, const double *values);

#endif
