/* SPDX-License-Identifier: Apache-2.0 */
/* mistakes.h - the tables of usual mistakes, and a way through them. Private to this folder. */
#ifndef ATTN_MISTAKES_H
#define ATTN_MISTAKES_H

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

static const double attn_ln2 = 0.69314718055994530942;

/* A tensor, or a bit of the flags, left out: in mistakes_scores.c, said of masks as well. */
bool attn_mistake_without(struct attn_mutation *m, double role);
bool attn_mistake_without_flag(struct attn_mutation *m, double bit);

/* Where in the tables one is; zero: at their beginning. */
struct attn_mistake_place {
    size_t table, mistake, argument;
};

/* Makes the next mutation that applies to a problem with data, and moves the place behind it;
 * false: there are no more. True: free it. The problem's data must outlive it. */
bool attn_mistake_next(const struct attn_problem *problem, struct attn_mistake_place *place,
                       struct attn_mutation *mutation);
/* Keys [begin, end) lost, for a mistake that stands in no table. */
bool attn_mistake_lose(const struct attn_problem *problem, int64_t begin, int64_t end,
                       struct attn_mutation *mutation);

#endif
