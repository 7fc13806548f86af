/* SPDX-License-Identifier: Apache-2.0 */
/* mistakes.h - the tables of usual mistakes, and an iterator over them. Private to this folder. */
#ifndef ATTN_MISTAKES_H
#define ATTN_MISTAKES_H

#include "explain/mutations.h"

/* `change` makes the mistake in a mutation that is still a copy of the problem, and says what it
 * is. False: it does not apply. It is called once for each argument. */
struct attn_mistake {
    bool (*change)(struct attn_mutation *mutation, double argument);
    size_t n;
    double arguments[11];
};

/* The likelier mistakes first. The last entry has no `change`. */
extern const struct attn_mistake attn_mistakes_keys[], attn_mistakes_scores[],
    attn_mistakes_places[], attn_mistakes_gradients[], attn_mistakes_operators[],
    attn_mistakes_state[], attn_mistakes_operands[];

static const double attn_ln2 = 0.69314718055994530942;

/* A tensor, or a bit of the flags, left out. In mistakes_scores.c; masks use them, too. */
bool attn_mistake_without(struct attn_mutation *m, double role);
bool attn_mistake_without_flag(struct attn_mutation *m, double bit);

/* The axis of the first of these letters in an operand's shape; -1: there is no such tensor or
 * axis. In mistakes_operators.c. */
int attn_mistake_axis(struct attn_mutation *m, uint32_t role, const char *letters);

/* A place in the tables; zero: their beginning. */
struct attn_mistake_place {
    size_t table, mistake, argument;
};

/* Makes the next mutation that applies to a problem with data, and moves the place behind it. True:
 * free the mutation; the problem's data must outlive it. False: there are no more. */
bool attn_mistake_next(const struct attn_problem *problem, struct attn_mistake_place *place,
                       struct attn_mutation *mutation);
/* Keys [begin, end) lost: a mistake that is in no table. */
bool attn_mistake_lose(const struct attn_problem *problem, int64_t begin, int64_t end,
                       struct attn_mutation *mutation);

#endif
