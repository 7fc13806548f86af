/* SPDX-License-Identifier: Apache-2.0 */
/* recurrent.h - operators that have a state instead of scores: wkv, linear_decay and performer,
 * and chunked and lsh, which go through their chunks. Threads share out blocks of columns of v. A
 * block goes through all steps by itself. performer and lsh have one block a head. */
#ifndef ATTN_SIMD_RECURRENT_H
#define ATTN_SIMD_RECURRENT_H

#include "plan.h"

/* linear_decay: most columns of a block, and steps at a time, a multiple of a micro-kernel's rows.
 * Decays and weights of the steps are made once a block, so it is wide. */
enum { ATTN_DECAY_COLUMNS = 256, ATTN_DECAY_STEPS = 12 };

/* linear_decay: floats of a row of q, k and decay, and of the state, v and out; columns of a block.
 * Rows of the state are a cache line longer than they need: at powers of two they would fall into
 * the same cache sets. */
struct attn_decay_sizes {
    int64_t rows, row, columns;
};

static inline struct attn_decay_sizes attn_decay_sizes_of(const struct attn_problem *p)
{
    const int64_t columns = attn_columns_of(p, ATTN_DECAY_COLUMNS);
    return (struct attn_decay_sizes){
        .rows = attn_round_up(p->dk, 16),
        .row = columns + 16,
        .columns = columns,
    };
}

/* Columns [first, first + count) of v of one head. */
struct attn_recurrent_part {
    const struct attn_problem *problem;
    const struct attn_operands *operands;
    int64_t b, h, first, count;
    /* wkv: none. performer: attn_performer_room. lsh: attn_lsh_room. chunked: attn_chunked_room,
     * zeros. linear_decay, zeros: see decay_template.h. */
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
