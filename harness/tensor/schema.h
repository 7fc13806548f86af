/* SPDX-License-Identifier: Apache-2.0 */
/* schema.h - the tensors of an operator for instances and packs: operands, outputs, and answers
 * that only packs have. Made from the operator's tables (reference/op.h). */
#ifndef ATTN_SCHEMA_H
#define ATTN_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "case/operator.h"

struct attn_schema {
    uint32_t role; /* 0: only packs have it */
    const char *name;
    const char *shape; /* axis letters */
    const char *one;   /* axes that may have extent 1 in a pack, and are then broadcast */
    uint8_t type;      /* enum ref_type */
    uint8_t flags;     /* REF_NEEDED ... */
    uint32_t fallback; /* the role that is used if this one is absent; 0: none */
    bool output;       /* in a pack: an expected answer */
};

/* Row n of an operator: operands in the order of its tables, outputs, answers that only packs have.
 * False beyond the last. */
bool attn_schema_at(const struct ref_op *op, size_t n, struct attn_schema *row);

/* The row of a name; false: the operator has none. */
bool attn_schema_named(const struct ref_op *op, const char *name, struct attn_schema *row);

/* Names of all tensors that some operator has. Returns the number of names written. Names of one
 * purpose are together, in the order of the operators. */
size_t attn_schema_names(const char *names[], size_t max);

/* "q", "k", "w_o", "score_w_v", ... */
const char *attn_role_name(uint32_t role);

/* Does view=broadcast share this input among the batches? It shares keys, values, and the inputs
 * that these are made from. */
bool attn_schema_is_shared(const struct attn_schema *row);

/* May a backend copy or transform an input of this role in `bind`: weights, biases of projections,
 * score parameters. All others may change between two runs of a binding. */
bool attn_role_is_packed(uint32_t role);

#endif
