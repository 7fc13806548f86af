/* SPDX-License-Identifier: Apache-2.0 */
/* gemm_template.h - y = x w^T + bias over the vector type of flash_template.h, which an instance
 * includes first.
 *
 * For each block of rows and columns of y, for each part of the inner extent, for each group of up
 * to MR rows: products, then y = bias + products, or y += products from the second part on. A y of
 * 16 bits is summed in scratch memory and rounded once. The order of the sums of an element depends
 * on the inner extent only, not on neighbouring rows nor on threads. */
#include "gemm.h"

#include "gemm_block.h"
#if FLASH_TILES
#include "gemm_tiles.h"
#else
#include "gemm_product.h"
#endif

/* Adds to row r of y what joins it last, and stores it unless it is in y already. */
static void gemm_finish_row(const struct attn_gemm *job, const struct gemm_block *block, int64_t r,
                            float *sums, int64_t step, float *add)
{
    const int64_t y = gemm_index(job, &job->y, r, block->o0);
    if (job->add.data) {
        gemm_read(job, &job->add, r, block->o0, block->columns, add);
        for (int64_t o = 0; o < block->columns; o++)
            sums[o * step] += add[o];
    }
    if (job->y.dtype != ATTN_F32 || sums != (float *)job->y.data + y)
        narrow(&job->y, y, job->y.stride[2], block->columns, sums, 1.0f);
}

/* Row r of y = bias + s, or y + s after the first part. */
static void gemm_store_row(const struct attn_gemm *job, const struct gemm_block *block, int64_t r,
                           const float *s, struct attn_gemm_scratch *scratch)
{
    bool in_place = job->y.dtype == ATTN_F32, first = block->e0 == 0;
    int64_t step = in_place ? job->y.stride[2] : 1, base_step = first ? 1 : step, o = 0;
    float *y = in_place ? (float *)job->y.data + gemm_index(job, &job->y, r, block->o0)
                        : scratch->y + (r - block->r0) * ATTN_GEMM_SUM_STRIDE;
    const float *base = first ? job->bias + block->o0 : y;
    if (step == 1)
        for (; o + VF_LANES <= block->columns; o += VF_LANES)
            vf_storeu(y + o, vf_add(vf_load(s + o), vf_loadu(base + o)));
    for (; o < block->columns; o++)
        y[o * step] = s[o] + base[o * base_step];
    if (block->last)
        gemm_finish_row(job, block, r, y, step, scratch->add);
}

/* One part of the inner extent. */
static void gemm_part(const struct attn_gemm *job, const struct gemm_block *block,
                      struct attn_gemm_scratch *scratch)
{
    const int64_t wide = attn_round_up(job->columns, FLASH_NR);
    const int64_t at = wide * block->e0 + block->o0 * block->depth;
    struct gemm_operands op = {.w = (const char *)job->packed +
                                    at * attn_element_bytes(job->layout.dtype),
                               .type = job->layout.dtype,
                               .depth = block->depth / GEMM_PAIR,
                               .panels = (block->columns + FLASH_NR - 1) / FLASH_NR,
                               .s = scratch->s};
    for (int64_t g = block->r0, count; g < block->r1; g += count) {
        const int64_t left = block->r1 - g, groups = (left + FLASH_MR - 1) / FLASH_MR;
        count = (left + groups - 1) /
                groups; /* the last two groups have about equal size: few rows wait for loads */
        if (FLASH_TILES)
            count = left < FLASH_MR ? left : FLASH_MR;
        gemm_rows(job, block, g, (int)count, scratch->x, &op);
        gemm_product((int)count, &op);
        for (int64_t n = 0; n < count; n++)
            gemm_store_row(job, block, g + n, scratch->s + n * LD, scratch);
    }
}

/* A block of y without weights: x itself. */
static void gemm_copy(const struct attn_gemm *job, const struct gemm_block *block,
                      struct attn_gemm_scratch *scratch)
{
    for (int64_t r = block->r0; r < block->r1; r++) {
        gemm_read(job, &job->x, r, block->o0, block->columns, scratch->s);
        gemm_finish_row(job, block, r, scratch->s, 1, scratch->add);
    }
}

/* A block of y, part after part. */
static void gemm_multiply(const struct attn_gemm *job, struct gemm_block *block,
                          struct attn_gemm_scratch *scratch)
{
    const int64_t inner = attn_round_up(job->inner, FLASH_STEP);
    const int64_t whole = attn_gemm_depth(inner, FLASH_STEP);
    for (block->e0 = 0; block->e0 < inner; block->e0 += whole) {
        block->depth = inner - block->e0 < whole ? inner - block->e0 : whole;
        block->last = block->e0 + block->depth == inner;
        gemm_part(job, block, scratch);
    }
}

static void run_gemm(const struct attn_gemm *job, const struct attn_gemm_part *part,
                     struct attn_gemm_scratch *scratch)
{
    const int64_t most = ATTN_GEMM_ROWS / FLASH_MR * FLASH_MR;
    struct gemm_block block;
    for (block.r0 = part->r0; block.r0 < part->r1; block.r0 += most) {
        block.r1 = part->r1 - block.r0 < most ? part->r1 : block.r0 + most;
        for (block.o0 = part->o0; block.o0 < part->o1; block.o0 += ATTN_GEMM_COLUMNS) {
            int64_t left = part->o1 - block.o0;
            block.columns = left < ATTN_GEMM_COLUMNS ? left : ATTN_GEMM_COLUMNS;
            if (job->packed)
                gemm_multiply(job, &block, scratch);
            else
                gemm_copy(job, &block, scratch);
        }
    }
}
