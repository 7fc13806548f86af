/* SPDX-License-Identifier: Apache-2.0 */
/* mutations.h - a problem with one usual mistake in it: what a kernel computes that makes it. */
#ifndef ATTN_MUTATIONS_H
#define ATTN_MUTATIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "tensor/instance.h"

enum { ATTN_MUTATION_COPIES = 4 };

struct attn_mutation {
    struct attn_problem problem; /* its tensors are those below */
    struct attn_tensor tensors[ATTN_MAX_TENSORS + 1];
    void *copies[ATTN_MUTATION_COPIES]; /* operands made for it */
    int n_copies;
    bool twice;     /* what the mutation leaves out was added twice: 2 x right - mutated */
    char what[128]; /* "scale 1 instead of 0.125": the answer of this case with ... */
};

/* Where in the table of mistakes one is; zero: at its beginning. */
struct attn_mutation_place {
    size_t table, mistake, argument;
};

/* Makes the next mutation that applies to a problem with data, and moves the place behind it;
 * false: there are no more. True: free it. The problem's data must outlive it. */
bool attn_mutation_next(const struct attn_problem *problem, struct attn_mutation_place *place,
                        struct attn_mutation *mutation);
/* Keys [begin, end) lost, for a mistake that stands in no table. */
bool attn_mutation_lose(const struct attn_problem *problem, int64_t begin, int64_t end,
                        struct attn_mutation *mutation);
void attn_mutation_free(struct attn_mutation *mutation);

#endif
