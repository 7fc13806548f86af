/* SPDX-License-Identifier: Apache-2.0 */
/* recurrent.h - operators that go through their steps one after the other: wkv and linear_decay.
 * Threads share out blocks of columns of v. A block goes through all steps by itself. */
#ifndef ATTN_SIMD_RECURRENT_H
#define ATTN_SIMD_RECURRENT_H

#include "plan.h"

/* linear_decay: columns of a block, and steps at a time. */
enum { ATTN_DECAY_COLUMNS = 64, ATTN_DECAY_STEPS = 4 };

/* Columns [first, first + count) of v of one head. */
struct attn_recurrent_part {
    const struct attn_problem *problem;
    const struct attn_operands *operands;
    int64_t b, h, first, count;
    /* Zeros. wkv: none. linear_decay: the state [Dk,COLUMNS]; q, k and decays [STEPS,Dk] of a few
     * steps; their v and out [STEPS,COLUMNS]; the bonus [Dk]. Dk is rounded up to 16. */
    float *scratch;
};

/* As attn_plan_create, for these operators. */
int attn_recurrent_create(const struct attn_flash_isa *isa, const struct attn_problem *problem,
                          const struct attn_services *services, struct attn_plan **plan, char *why,
                          size_t size);

/* Computes a problem with all threads of its plan. */
void attn_recurrent_run(struct attn_plan *plan, const struct attn_operands *operands);

/* Columns of a block of this plan. */
int attn_recurrent_columns(const struct attn_plan *plan);

#endif
