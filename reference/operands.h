/* SPDX-License-Identifier: Apache-2.0 */
/* operands.h - the tensors of a problem by role, and their elements as doubles. */
#ifndef ATTN_REFERENCE_OPERANDS_H
#define ATTN_REFERENCE_OPERANDS_H

#include <stdint.h>

#include "attnbench/backend.h"
#include "reference/op.h"

struct ref_operands {
    const struct attn_problem *problem;
    const struct attn_tensor *by_role[REF_ROLES]; /* NULL: absent and not replaced */
};

/* Finds the tensors by role, and replaces absent ones as the operator's table says. Nothing is
 * replaced if the operator is not known. The problem must outlive the result. */
void ref_operands_init(struct ref_operands *operands, const struct attn_problem *problem);

/* One element of a tensor; `at` has one index per axis. */
double ref_load(const struct attn_tensor *tensor, const int64_t *at);

/* Reads `count` elements along the last axis into `out`. `at` is the index of the first. */
void ref_load_vector(const struct attn_tensor *tensor, const int64_t *at, int64_t count,
                     double *out);

/* Row i of a boolean mask: returns the byte of key 0. *step is the distance from key to key. */
const uint8_t *ref_mask_row(const struct attn_tensor *mask, int64_t b, int64_t h, int64_t i,
                            int64_t *step);

/* Keys [*begin, *end) that query i of batch b may see, by len, causal and window. */
void ref_key_range(const struct ref_operands *operands, int64_t b, int64_t i, int64_t *begin,
                   int64_t *end);

/* The offset that causal, window and ALiBi share, in batch b. */
int64_t ref_offset(const struct ref_operands *operands, int64_t b);

#endif
