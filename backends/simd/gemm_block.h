/* SPDX-License-Identifier: Apache-2.0 */
/* gemm_block.h - part of gemm_template.h: a block of y, and the rows of x that make it. */

/* Elements of the inner extent in 32 bits: one float, or a pair of bf16 (flash_pack_pairs.h). */
#define GEMM_PAIR (FLASH_PAIRS ? 2 : 1)

struct gemm_block {
    int64_t r0, r1, o0, columns; /* of y */
    int64_t e0, depth;           /* a part of the inner extent */
    bool last;                   /* the last of the parts */
};

/* Index of element [r][column] of x, y or add. */
static int64_t gemm_index(const struct attn_gemm *job, const struct attn_tensor *view, int64_t r,
                          int64_t column)
{
    return r / job->batch_rows * view->stride[0] + r % job->batch_rows * view->stride[1] +
           column * view->stride[2];
}

/* `count` elements of a row from `column` on as floats, and zeros up to a whole vector. */
static void gemm_read(const struct attn_gemm *job, const struct attn_tensor *view, int64_t r,
                      int64_t column, int64_t count, float *to)
{
    widen(view, gemm_index(job, view, r, column), view->stride[2], count, to);
}

/* Row r of x, columns of a part, as pairs: in place if they are whole and aligned, else in `copy`.
 * Zeros complete the inner extent. */
static const float *gemm_pairs(const struct attn_gemm *job, const struct gemm_block *block,
                               int64_t r, float *copy)
{
    const int64_t step = job->x.stride[2], left = job->inner - block->e0;
    const uint16_t *from = (const uint16_t *)job->x.data + gemm_index(job, &job->x, r, block->e0);
    if (step == 1 && block->depth <= left && (uintptr_t)from % sizeof(float) == 0)
        return (const float *)(const void *)from;
    uint16_t *to = (uint16_t *)(void *)copy;
    for (int64_t e = 0; e < block->depth; e++)
        to[e] = e < left ? from[e * step] : 0;
    return copy;
}
