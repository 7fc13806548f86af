/* SPDX-License-Identifier: Apache-2.0 */
/* op_shared.h - what several operators share: rows of operand tables, costs. */
#ifndef ATTN_REFERENCE_OP_SHARED_H
#define ATTN_REFERENCE_OP_SHARED_H

#include "reference/op.h"

extern const struct ref_operand ref_operands_score[]; /* parameters of scores */
extern const struct ref_operand ref_operands_mask[];  /* masks, biases, sink, dropout */

/* Approximate multiply-adds of steps 1 to 7 of struct attn_problem for one query of one head, with
 * the bound. */
double ref_head_cost(const struct attn_problem *problem);

#endif
