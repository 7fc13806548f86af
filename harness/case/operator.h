/* SPDX-License-Identifier: Apache-2.0 */
/* operator.h - a case and the tables of its operator (reference/op.h): the keys that it accepts,
 * the tensors that it has, and their sizes. */
#ifndef ATTN_CASE_OPERATOR_H
#define ATTN_CASE_OPERATOR_H

#include <stdbool.h>
#include <stdint.h>

#include "case/case.h"
#include "reference/op.h"
#include "reference/score.h"

#define ATTN_DEFAULT_OP    "attention"  /* the operator of a line without op= */
#define ATTN_DEFAULT_SCORE "scaled_dot" /* and its score without score= */

/* The operator and the score of a case; never NULL for a parsed case. A case of an operator without
 * scores has a score, too, but it means nothing. */
const struct ref_op *attn_case_op(const struct attn_case *c);
const struct ref_score *attn_case_score(const struct attn_case *c);

/* Does a score have parameters of its own? */
bool attn_score_has_params(const struct ref_score *score);

/* Has a case parameters that params= makes shared, or one per head? */
bool attn_case_has_params(const struct attn_case *c);

/* Does an operator accept a key that not every operator accepts? Does it need a key that others do
 * not need? */
bool attn_op_takes(const struct ref_op *op, const char *key);
bool attn_op_needs(const struct ref_op *op, const char *key);
/* Does an operator make a fill by itself? */
bool attn_op_fills(const struct ref_op *op, const char *fill);
/* Does it take the q and k that attention has under a fill? */
bool attn_op_crafts(const struct ref_op *op, const char *fill);

/* How an operand is drawn: its first `rank` axes; bit a of `one`: axis a has extent 1 and is
 * broadcast. */
struct attn_drawn {
    uint32_t rank;
    unsigned one;
};

/* Does a case draw this operand of its operator at random? A pack brings its own tensors: for it
 * the answer says what the pack's line and sizes tell about them. */
bool attn_case_draws(const struct attn_case *c, const struct ref_operand *operand,
                     struct attn_drawn *drawn);

/* Does the case ask for an output of its operator? */
bool attn_case_gives(const struct attn_case *c, const struct ref_output *output);

/* The extents of a case by letter, and the roles that it has. False: a product does not fit. */
bool attn_case_shape(const struct attn_case *c, struct ref_shape *shape);

/* The size of a case that a letter stands for; NULL: none does. */
int64_t *attn_case_extent(struct attn_case *c, char letter);

/* The element type of an operand or output of a case, from enum ref_type. */
uint32_t attn_type_drawn(const struct attn_case *c, uint8_t type);

/* Cells of a case with nothing masked: batches times query heads times queries times keys. */
int64_t attn_case_cells(const struct attn_case *c);

/* The parameter of a key; NULL: the operator has none of that name. */
const struct ref_param *attn_op_param(const struct ref_op *op, const char *key);

/* The value of a parameter by its key; 0: the operator of the case has none of that name. */
double attn_case_value(const struct attn_case *c, const char *key);

/* The default scale of a case. dk must be known if the scale depends on it. */
double attn_case_scale(const struct attn_case *c);

/* Parameter `param` of the operator of a case: as given, or its default. */
double attn_case_param(const struct attn_case *c, const struct ref_param *param);
bool attn_case_has_param(const struct attn_case *c, const struct ref_param *param); /* given */

/* Gives a parameter. 0, or -1: no memory. */
int attn_case_set_param(struct attn_case *c, const struct ref_param *param, double value);

/* Sets the fields and flags of a problem that parameters say. */
void attn_case_set_fields(const struct attn_case *c, struct attn_problem *problem);

/* Sets everything of a problem but its tensors. The problem has no flags and tensors before. */
void attn_case_set_problem(const struct attn_case *c, struct attn_problem *problem);

/* Does the reference take the case? All sizes must be known; a pack's are in its file. If not,
 * writes why into (why, size). */
bool attn_case_is_problem(const struct attn_case *c, char *why, size_t size);

/* Is out of the case the mean of v by a softmax (ref_is_softmax)? attn_case_weighs: are the weights
 * made by another function? */
bool attn_case_is_softmax(const struct attn_case *c);
bool attn_case_weighs(const struct attn_case *c);

/* The word of a value of a parameter, as a case line spells it. */
void attn_param_text(const struct ref_param *param, double value, char *text, size_t size);

#endif
