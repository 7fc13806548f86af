/* SPDX-License-Identifier: Apache-2.0 */
/* gemm_floats.h - the product of gemm_template.h on floats: that of scores, with rows of x for
 * queries and rows of w for keys, whose micro-kernel it shares. Rows of x of other types or strides
 * are converted a group at a time, again for each block of columns; 16-bit weights once for each
 * block of rows or, for few rows, as the product reads them. */
#include "gemm_block.h"

#define GEMM_PAIR 1

/* Up to so many rows 16-bit weights are widened in registers, by each group of rows anew, and need
 * no second way through the cache. */
#define GEMM_FEW_ROWS 12

/* A part of a block of weights, [columns/NR][depth][NR]. */
struct gemm_weights {
    const float *wide;      /* or NULL */
    const uint16_t *narrow; /* if not wide */
    uint32_t dtype;         /* of the narrow ones */
};

static struct gemm_weights gemm_weights(const struct attn_gemm *job, const struct gemm_block *block,
                                        struct attn_gemm_scratch *scratch)
{
    const struct attn_view packed = {.data = job->packed, .dtype = job->layout.dtype};
    const int64_t wide = attn_round_up(job->columns, FLASH_NR);
    const int64_t at = wide * block->e0 + block->o0 * block->depth;
    struct gemm_weights w = {.wide = scratch->w, .dtype = packed.dtype};
    if (packed.dtype == ATTN_F32)
        w.wide = (const float *)packed.data + at;
    else if (block->r1 - block->r0 <= GEMM_FEW_ROWS)
        w = (struct gemm_weights){.narrow = (const uint16_t *)packed.data + at,
                                  .dtype = packed.dtype};
    else
        widen(&packed, at, 1, block->depth * attn_round_up(block->columns, FLASH_NR), scratch->w);
    return w;
}

/* `count` <= MR rows of x from r on, columns of the part. */
static void gemm_rows(const struct attn_gemm *job, const struct gemm_block *block, int64_t r,
                      int count, struct attn_gemm_scratch *scratch, const float **to)
{
    bool in_place = job->x.stride[2] == 1 && job->x.dtype == ATTN_F32;
    for (int n = 0; n < count; n++) {
        float *copy = scratch->x + n * ATTN_GEMM_DEPTH;
        to[n] = copy;
        if (in_place)
            to[n] = (const float *)job->x.data + gemm_index(job, &job->x, r + n, block->e0);
        else
            gemm_read(job, &job->x, r + n, block->e0, block->depth, copy);
    }
}

/* score_tile of a whole panel of 16-bit weights: the same sums, in the same order. */
FLASH_INLINE void narrow_tile(const int mr, const uint32_t type, const float *const *x,
                              const uint16_t *w, int64_t depth, float *s)
{
    vf sum[FLASH_MR][FLASH_NV];
#pragma GCC unroll 16
    for (int r = 0; r < mr; r++)
#pragma GCC unroll 4
        for (int n = 0; n < FLASH_NV; n++)
            sum[r][n] = vf_set1(0.0f);
    for (int64_t e = 0; e < depth; e++) {
        vf weight[FLASH_NV];
#pragma GCC unroll 4
        for (int n = 0; n < FLASH_NV; n++)
            weight[n] = load_as(type, w, e * FLASH_NR + n * VF_LANES);
#pragma GCC unroll 16
        for (int r = 0; r < mr; r++) {
            vf one = vf_set1(x[r][e]);
#pragma GCC unroll 4
            for (int n = 0; n < FLASH_NV; n++)
                sum[r][n] = vf_fma(one, weight[n], sum[r][n]);
        }
    }
#pragma GCC unroll 16
    for (int r = 0; r < mr; r++)
#pragma GCC unroll 4
        for (int n = 0; n < FLASH_NV; n++)
            vf_store(s + r * LD + n * VF_LANES, sum[r][n]);
}

FLASH_INLINE void narrow_panels(const int mr, const uint32_t type, const float *const *x,
                                const uint16_t *w, const struct gemm_block *block, float *s)
{
    for (int64_t o = 0; o < block->columns; o += FLASH_NR)
        narrow_tile(mr, type, x, w + o * block->depth, block->depth, s + o);
}

FLASH_INLINE void narrow_rows(int count, const uint32_t type, const float *const *x,
                              const uint16_t *w, const struct gemm_block *block, float *s)
{
    switch (count) {
    case 6:
        narrow_panels(6, type, x, w, block, s);
        break;
    case 5:
        narrow_panels(5, type, x, w, block, s);
        break;
    case 4:
        narrow_panels(4, type, x, w, block, s);
        break;
    case 3:
        narrow_panels(3, type, x, w, block, s);
        break;
    case 2:
        narrow_panels(2, type, x, w, block, s);
        break;
    default:
        narrow_panels(1, type, x, w, block, s);
    }
}

FLASH_APART void narrow_product(int count, const float *const *x, const struct gemm_weights *w,
                                const struct gemm_block *block, float *s)
{
    if (w->dtype == ATTN_F16)
        narrow_rows(count, ATTN_F16, x, w->narrow, block, s);
    else
        narrow_rows(count, ATTN_BF16, x, w->narrow, block, s);
}

/* s[n] = x[n] w^T over the part. */
static void gemm_product(int count, const float *const *x, const struct gemm_weights *w,
                         const struct gemm_block *block, float *s)
{
    struct span span = {
        .k = w->wide, .dk = block->depth, .to = attn_round_up(block->columns, VF_LANES), .s = s};
    for (int n = 0; n < count; n++)
        span.q[n] = x[n];
    if (w->wide)
        score_product(count, &span);
    else
        narrow_product(count, x, w, block, s);
}
