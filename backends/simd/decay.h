/* SPDX-License-Identifier: Apache-2.0 */
/* decay.h - linear attention with decay over vectors of columns of v. Threads share out blocks of
 * columns of heads. A block goes through all steps, a few at a time, so that a row of the state is
 * loaded and stored once for these. */
#ifndef ATTN_SIMD_DECAY_H
#define ATTN_SIMD_DECAY_H

#include "plan.h"

/* Columns of a block, and steps at a time. */
enum { ATTN_DECAY_COLUMNS = 64, ATTN_DECAY_STEPS = 4 };

/* Columns [first, first + count) of v of one head. */
struct attn_decay_part {
    const struct attn_problem *problem;
    const struct attn_operands *operands;
    int64_t b, h, first, count;
    float *scratch; /* attn_decay_scratch floats */
};

/* Floats of scratch of one thread: the state [Dk,COLUMNS]; q, k and decays [STEPS,Dk] of a few
 * steps; their v and out [STEPS,COLUMNS]; the bonus [Dk]. Dk is rounded up to 16. */
static inline int64_t attn_decay_scratch(int64_t dk)
{
    const int64_t rows = attn_round_up(dk, 16);
    return rows * ATTN_DECAY_COLUMNS + 3 * ATTN_DECAY_STEPS * rows +
           2 * ATTN_DECAY_STEPS * ATTN_DECAY_COLUMNS + rows;
}

/* As attn_plan_create, for linear_decay. */
int attn_decay_create(const struct attn_flash_isa *isa, const struct attn_problem *problem,
                      const struct attn_services *services, struct attn_plan **plan, char *why,
                      size_t size);

/* Computes a problem with all threads of its plan. */
void attn_decay_run(struct attn_plan *plan, const struct attn_operands *operands);

#endif
