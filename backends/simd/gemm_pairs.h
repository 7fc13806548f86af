/* SPDX-License-Identifier: Apache-2.0 */
/* gemm_pairs.h - the product of gemm_template.h on pairs of bf16, which lie where floats would
 * (flash_pairs_pack.h): that of scores again, over half as many of them. Rows of x whose pairs lie
 * whole and aligned are read in place. An odd inner extent is filled up with a zero on both
 * sides. */
#include "gemm_block.h"

#define GEMM_PAIR 2

/* A part of a block of weights, [columns/NR][depth/2][NR] pairs. */
struct gemm_weights {
    const float *pairs;
};

static struct gemm_weights gemm_weights(const struct attn_gemm *job, const struct gemm_block *block,
                                        struct attn_gemm_scratch *scratch)
{
    const int64_t wide = attn_round_up(job->columns, FLASH_NR);
    (void)scratch;
    return (struct gemm_weights){(const float *)job->packed +
                                 (wide * block->e0 + block->o0 * block->depth) / 2};
}

/* `count` <= MR rows of x from r on, columns of the part. */
static void gemm_rows(const struct attn_gemm *job, const struct gemm_block *block, int64_t r,
                      int count, struct attn_gemm_scratch *scratch, const float **to)
{
    const int64_t step = job->x.stride[2], left = job->inner - block->e0;
    for (int n = 0; n < count; n++) {
        float *copy = scratch->x + n * ATTN_GEMM_DEPTH;
        const uint16_t *from =
            (const uint16_t *)job->x.data + gemm_index(job, &job->x, r + n, block->e0);
        bool in_place = step == 1 && block->depth <= left && (uintptr_t)from % 4 == 0;
        uint16_t *elements = (uint16_t *)(void *)copy;
        for (int64_t e = 0; !in_place && e < block->depth; e++)
            elements[e] = e < left ? from[e * step] : 0;
        to[n] = in_place ? (const float *)(const void *)from : copy;
    }
}

/* s[n] = x[n] w^T over the part. */
static void gemm_product(int count, const float *const *x, const struct gemm_weights *w,
                         const struct gemm_block *block, float *s)
{
    struct span span = {.k = w->pairs,
                        .dk = block->depth / 2,
                        .to = attn_round_up(block->columns, VF_LANES),
                        .s = s};
    for (int n = 0; n < count; n++)
        span.q[n] = x[n];
    score_product(count, &span);
}
