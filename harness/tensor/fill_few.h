/* SPDX-License-Identifier: Apache-2.0 */
/* fill_few.h - fill=few_queries: a few queries for all rows, so that every row can be judged at any
 * length (reference/every.h). */
#ifndef ATTN_FILL_FEW_H
#define ATTN_FILL_FEW_H

#include "tensor/types.h"

/* Overwrites q, k, v and M; q alone where rows with the same query have the same answer. Returns 0,
 * or -1 with the reason (no memory). */
int attn_fill_few_queries(struct attn_instance *instance, int threads, char *why, size_t size);

/* Does it write every element of an operand? */
bool attn_fill_few_writes(const struct attn_case *c, uint32_t role);

/* Distinct queries of a head: fewer where that would cost more than a few seconds. */
int64_t attn_fill_few_count(const struct attn_problem *problem);

#endif
