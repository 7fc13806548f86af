/* SPDX-License-Identifier: Apache-2.0 */
/* operands.h - the tensors of a problem by role, and elements of them as doubles. */
#ifndef ATTN_REFERENCE_OPERANDS_H
#define ATTN_REFERENCE_OPERANDS_H

#include <stdint.h>

#include "attnbench/backend.h"
#include "reference/op.h"

struct ref_operands {
    const struct attn_problem *problem;
    const struct attn_tensor *by_role[REF_ROLES]; /* NULL: absent, and nothing stands in */
};

/* Resolves the tensors, and those that stand in for absent ones by the operator's table; the
 * problem must outlive the result. A problem of no known operator has no such table. */
void ref_operands_init(struct ref_operands *operands, const struct attn_problem *problem);

/* One element of a tensor, at as many indices as it has axes. */
double ref_load(const struct attn_tensor *tensor, const int64_t *at);

/* `count` elements along the last axis, with the index of the first given in `at`. */
void ref_load_vector(const struct attn_tensor *tensor, const int64_t *at, int64_t count,
                     double *out);

/* A boolean mask is read along the keys: the byte of key 0, and how far apart they are. */
const uint8_t *ref_mask_row(const struct attn_tensor *mask, int64_t b, int64_t h, int64_t i,
                            int64_t *step);

/* First key that query i of batch b may see, and one past the last, by len, causal and window. */
void ref_key_range(const struct ref_operands *operands, int64_t b, int64_t i, int64_t *begin,
                   int64_t *end);

/* The offset that causal, window and ALiBi share, in batch b. */
int64_t ref_offset(const struct ref_operands *operands, int64_t b);

#endif
