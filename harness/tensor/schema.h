/* SPDX-License-Identifier: Apache-2.0 */
/* schema.h - the tensors of an operator as instances and packs see them: its operands, its outputs,
 * and what only packs know. Made of the operator's tables (reference/op.h). */
#ifndef ATTN_SCHEMA_H
#define ATTN_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "case/operator.h"

struct attn_schema {
    uint32_t role; /* 0: known to packs alone */
    const char *name;
    const char *shape; /* axis letters */
    const char *one;   /* axes that may have extent 1 in a pack, and are then broadcast */
    uint8_t type;      /* enum ref_type */
    uint8_t flags;     /* REF_NEEDED ... */
    uint32_t fallback; /* the role that stands in where this one is absent; 0: none */
    bool output;       /* in a pack: an expected answer */
};

/* Row n of an operator: operands in the order of its tables, outputs, answers that only packs have.
 * False beyond the last. */
bool attn_schema_at(const struct ref_op *op, size_t n, struct attn_schema *row);

/* The row of a name; false: the operator has none. */
bool attn_schema_named(const struct ref_op *op, const char *name, struct attn_schema *row);

/* Names of all tensors that some operator has; returns how many are written. Those of one purpose
 * stand together, in the order of the operators. */
size_t attn_schema_names(const char *names[], size_t max);

/* "q", "k", "w_o", "score_w_v", ... */
const char *attn_role_name(uint32_t role);

/* Is this an input that view=broadcast shares among the batches: keys, values, and what they are
 * made of. */
bool attn_schema_is_shared(const struct attn_schema *row);

#endif
