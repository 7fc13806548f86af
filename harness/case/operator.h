/* SPDX-License-Identifier: Apache-2.0 */
/* operator.h - a case and the tables of its operator (reference/op.h): which keys it takes, which
 * tensors it has, and how large they are. */
#ifndef ATTN_CASE_OPERATOR_H
#define ATTN_CASE_OPERATOR_H

#include <stdbool.h>
#include <stdint.h>

#include "case/case.h"
#include "reference/op.h"
#include "reference/score.h"

#define ATTN_DEFAULT_OP    "attention"  /* the operator of a line without op= */
#define ATTN_DEFAULT_SCORE "scaled_dot" /* and its score without score= */

/* The operator and the score of a case; never NULL for a case that was parsed. An operator without
 * scores has one all the same, which means nothing. */
const struct ref_op *attn_case_op(const struct attn_case *c);
const struct ref_score *attn_case_score(const struct attn_case *c);

/* Has a score parameters of its own. */
bool attn_score_has_params(const struct ref_score *score);

/* Does an operator take a key that not every operator takes; does it need a key that others do
 * not. */
bool attn_op_takes(const struct ref_op *op, const char *key);
bool attn_op_needs(const struct ref_op *op, const char *key);

/* How an operand is drawn: its first `rank` axes; bit a of `one`: axis a has extent 1 and is
 * broadcast. */
struct attn_drawn {
    uint32_t rank;
    unsigned one;
};

/* Does a case draw this operand of its operator at random. A pack brings its own tensors: what its
 * case would draw is what the pack's line and sizes tell of them. */
bool attn_case_draws(const struct attn_case *c, const struct ref_operand *operand,
                     struct attn_drawn *drawn);

/* Is an output of its operator asked for. */
bool attn_case_gives(const struct attn_case *c, const struct ref_output *output);

/* The extents of a case by letter, and the roles that it has. False: a product does not fit. */
bool attn_case_shape(const struct attn_case *c, struct ref_shape *shape);

/* The element type of what a case draws or gives, from enum ref_type. */
uint32_t attn_type_drawn(const struct attn_case *c, uint8_t type);

/* Cells of a case with nothing masked: batches, query heads, queries, keys. */
int64_t attn_case_cells(const struct attn_case *c);

/* The parameter of a key; NULL: the operator has none of that name. */
const struct ref_param *attn_op_param(const struct ref_op *op, const char *key);

/* Parameter `param` of the operator of a case: as it is given, or its default. */
double attn_case_param(const struct attn_case *c, const struct ref_param *param);
bool attn_case_has_param(const struct attn_case *c, const struct ref_param *param); /* given */

/* Gives a parameter. 0, or -1: no memory. */
int attn_case_set_param(struct attn_case *c, const struct ref_param *param, double value);

/* The word of a value of a parameter, as a case line spells it. */
void attn_param_text(const struct ref_param *param, double value, char *text, size_t size);

#endif
