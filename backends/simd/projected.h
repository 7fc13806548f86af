/* SPDX-License-Identifier: Apache-2.0 */
/* projected.h - linformer: E k and F v of each key head go into buffers, then a plan for attention
 * takes the buffers for its keys and values. Threads share out some rows of E or F at a time.
 * Buffers have the type whose pairs the instance multiplies, else f32; queries of another type are
 * widened on the way. */
#ifndef ATTN_SIMD_PROJECTED_H
#define ATTN_SIMD_PROJECTED_H

#include "plan.h"

enum {
    ATTN_PROJECT_ROWS = 48, /* of a part */
    ATTN_PROJECT_KEYS =
        96, /* at a time: with the rows they fill the first-level cache at width 64 */
    /* The same for products of pairs. Keys are packed once for all rows of a part. */
    ATTN_PROJECT_PAIR_ROWS = 256,
    ATTN_PROJECT_PAIR_KEYS = 512,
    ATTN_PROJECT_PAIR_ROW =
        ATTN_PROJECT_PAIR_KEYS / 2 + 16 /* floats between two rows: not a power of two */
};

/* Rows [first, first + rows) of `to`, a buffer [B,H,rows,width]. */
struct attn_project_part {
    const struct attn_tensor *matrix; /* [Hkv,r,Sk]; NULL: the rows are those of `from`, widened */
    const struct attn_tensor *from, *to;
    int64_t b, h, first, rows, length; /* keys from `length` on are not read */
    float *scratch;
};

struct attn_projected {
    const struct attn_services *services;
    const struct attn_flash_isa *isa; /* of the projections; the heads may have another */
    const struct attn_problem *problem;
    struct attn_problem heads;     /* attention over r rows */
    struct attn_tensor tensors[5]; /* q, k, v, out, lse of `heads`; data of the buffers alone */
    int64_t rows;                  /* of a part */
    int64_t scratch;               /* floats of one thread */
    float *memory;                 /* scratch of all threads, then the buffers */
};

/* As attn_plan_create, for linformer. The plan has its `projected` set; attn_projected_destroy
 * frees it. */
int attn_projected_create(const struct attn_flash_isa *isa, const struct attn_problem *problem,
                          const struct attn_services *services, struct attn_plan **plan, char *why,
                          size_t size);
void attn_projected_destroy(struct attn_plan *plan);

/* Attaches the operands of the heads to `job`. */
void attn_projected_bind(const struct attn_plan *plan, const struct attn_operands *given,
                         struct attn_flash *job);

/* Computes a job of the plan with all its threads. */
void attn_projected_run(struct attn_plan *plan, const struct attn_operands *given,
                        const struct attn_flash *job);

#endif
