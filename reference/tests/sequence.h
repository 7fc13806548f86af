/* SPDX-License-Identifier: Apache-2.0 */
/* sequence.h - small problems of one dense sequence, for the tests of recurrences. */
#ifndef ATTN_REFERENCE_TESTS_SEQUENCE_H
#define ATTN_REFERENCE_TESTS_SEQUENCE_H

#include "reference/reference.h"

/* A problem whose tensors lie in arrays of double; `floats` has room for all inputs as f32. */
struct sequence {
    struct attn_problem problem;
    struct attn_tensor tensors[12];
    float *floats;
};

/* Numbers like N(0,1): the sum of twelve uniform ones. */
double sequence_normal(uint64_t seed, uint64_t index);

/* An operator's problem of one head, without tensors. */
void sequence_begin(struct sequence *s, uint32_t op, uint32_t dtype, int64_t steps, int64_t dk,
                    int64_t dv, float *floats);

/* Adds an input. Under f32 `data` is rounded, and the tensor is a copy. */
void sequence_add(struct sequence *s, uint32_t role, double *data, const int64_t *shape,
                  uint32_t rank);

/* Adds an output that nobody reads. */
void sequence_ask(struct sequence *s, uint32_t role, const int64_t *shape, uint32_t rank);

/* All units of all outputs; fails the test if the reference refuses the problem. */
void sequence_compute(const struct sequence *s, const struct attn_numerics *numerics,
                      enum ref_fill_kind fill, struct ref_result *result);

/* f32 sums, and exp within 2 ulp. */
extern const struct attn_numerics sequence_f32;

/* As a type stores it. */
double sequence_rounded(uint32_t dtype, double x);

/* Sorts numbers, the smallest first. */
void sequence_sort(double *x, size_t count);

/* Fails unless |a - b| is at most tolerance (1 + |b|). */
void sequence_near(double a, double b, double tolerance);

#endif
