/* SPDX-License-Identifier: Apache-2.0 */
/* mutations.h - a problem with one usual mistake in it. Its answer is that of a kernel with the
 * mistake. */
#ifndef ATTN_MUTATIONS_H
#define ATTN_MUTATIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "tensor/instance.h"

enum { ATTN_MUTATION_COPIES = 12 };

struct attn_mutation {
    struct attn_problem problem; /* its tensors are those below */
    struct attn_tensor tensors[ATTN_MAX_TENSORS + 1];
    void *copies[ATTN_MUTATION_COPIES]; /* operands made for it */
    int n_copies;
    bool twice;     /* the part left out was added twice: the answer is 2 x right - mutated */
    char what[128]; /* "scale 1 instead of 0.125"; follows "the answer of this case with" */
};

/* Writes what the mistake is. */
#define ATTN_SAY(m, ...) snprintf((m)->what, sizeof(m)->what, __VA_ARGS__)

/* A mutation that does not change anything yet. The problem and its data must outlive it. Free it.
 */
void attn_mutation_begin(struct attn_mutation *m, const struct attn_problem *problem);
void attn_mutation_free(struct attn_mutation *mutation);

/* The mutation's own tensor of a role, or NULL. */
struct attn_tensor *attn_mutated(struct attn_mutation *m, uint32_t role);
/* Removes a tensor; false: there is none. */
bool attn_mutated_drop(struct attn_mutation *m, uint32_t role);
/* Adds a tensor. */
struct attn_tensor *attn_mutated_add(struct attn_mutation *m, const struct attn_tensor *tensor);
/* Memory for a copy of `count` elements of `size` bytes. Freed with the mutation. NULL: too large.
 */
void *attn_mutated_room(struct attn_mutation *m, int64_t count, size_t size);
/* Replaces a tensor by factor * itself + plus; lengths stay within [0, most]. Bias, slopes and sink
 * become at least f32, so that no rounding hides the match. */
bool attn_mutated_remake(struct attn_mutation *m, uint32_t role, double factor, double plus,
                         double most);
/* Replaces a tensor by a dense one whose element at `at` is that of the old one at from(at). */
bool attn_mutated_gather(struct attn_mutation *m, uint32_t role, const int64_t *shape,
                         void (*from)(const struct attn_mutation *m, double argument,
                                      int64_t at[ATTN_MAX_RANK]),
                         double argument);

#endif
