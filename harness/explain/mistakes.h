/* SPDX-License-Identifier: Apache-2.0 */
/* mistakes.h - what the tables of mistakes share. Private to this folder. */
#ifndef ATTN_MISTAKES_H
#define ATTN_MISTAKES_H

#include <stdio.h>

#include "explain/mutations.h"

/* Makes the mistake in a mutation that is a copy of the problem as yet, and says it; false: it does
 * not apply. Once for each argument. */
struct attn_mistake {
    bool (*change)(struct attn_mutation *mutation, double argument);
    size_t n;
    double arguments[11];
};

/* The likelier first; the last one has no `change`. */
extern const struct attn_mistake attn_mistakes_keys[], attn_mistakes_scores[],
    attn_mistakes_operands[];

#define ATTN_SAY(m, ...) snprintf((m)->what, sizeof(m)->what, __VA_ARGS__)

static const double attn_ln2 = 0.69314718055994530942;

/* A mutation that changes nothing as yet. */
void attn_mutation_begin(struct attn_mutation *m, const struct attn_problem *problem);

/* The mutation's own tensor of a role, or NULL. */
struct attn_tensor *attn_mutated(struct attn_mutation *m, uint32_t role);
/* Takes a tensor out; false: there is none. */
bool attn_mutated_drop(struct attn_mutation *m, uint32_t role);
/* Puts one in. */
struct attn_tensor *attn_mutated_add(struct attn_mutation *m, const struct attn_tensor *tensor);
/* Memory for a copy of `count` elements of `size` bytes, freed with the mutation; NULL: too large.
 */
void *attn_mutated_room(struct attn_mutation *m, int64_t count, size_t size);
/* Replaces a tensor by factor * itself + plus, lengths within [0, most]. Bias, slopes and sink
 * become f32 at least, so that no rounding hides the match. */
bool attn_mutated_remake(struct attn_mutation *m, uint32_t role, double factor, double plus,
                         double most);
/* Replaces a tensor by a dense one whose element at `at` is that of the old one at from(at). */
bool attn_mutated_gather(struct attn_mutation *m, uint32_t role, const int64_t *shape,
                         void (*from)(const struct attn_mutation *m, double argument,
                                      int64_t at[ATTN_MAX_RANK]),
                         double argument);

/* A tensor, or a bit of the flags, left out: in mistakes_scores.c, said of masks as well. */
bool attn_mistake_without(struct attn_mutation *m, double role);
bool attn_mistake_without_flag(struct attn_mutation *m, double bit);

#endif
