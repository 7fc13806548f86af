/* SPDX-License-Identifier: Apache-2.0 */
/* op_shared.h - rows of operand tables that several operators have. */
#ifndef ATTN_REFERENCE_OP_SHARED_H
#define ATTN_REFERENCE_OP_SHARED_H

#include "reference/op.h"

extern const struct ref_operand ref_operands_score[]; /* parameters of scores */
extern const struct ref_operand ref_operands_mask[];  /* masks, biases, sink, dropout */

#endif
