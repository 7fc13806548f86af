/* SPDX-License-Identifier: Apache-2.0 */
/* operators.h - operators beyond plain attention and multi-head attention, at the sizes of models:
 * the kernel of `naive`, whose answer is replaced in one part by that of a mistake. */
#ifndef ATTN_ROGUE_OPERATORS_H
#define ATTN_ROGUE_OPERATORS_H

#include <stdbool.h>

#include "attnbench/problem.h"

enum { ROGUE_TENSORS = 32 };

/* Memory of a plan. */
struct rogue_operator {
    const struct attn_problem *problem;
    void *workspace; /* of the kernel */
    char *other;     /* a second out */
    char *copy;      /* an operand that is changed */
    size_t workspace_bytes, other_bytes, copy_bytes;
};

/* Is it for this file? Attention is, with global tokens, a window in steps or disentangled scores.
 */
bool rogue_is_operator(const struct attn_problem *problem);
int rogue_operator_supports(const struct attn_problem *problem, char *why, size_t size);
/* Sets the problem and the bytes that `run` needs. */
void rogue_operator_measure(const struct attn_problem *problem, struct rogue_operator *o);
void rogue_operator_declare(struct attn_numerics *numerics);
/* The answer, with the bug of this name in it. */
void rogue_operator_run(const struct rogue_operator *o, const struct attn_tensor *tensors,
                        const char *bug);

#endif
