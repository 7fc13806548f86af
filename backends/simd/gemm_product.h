/* SPDX-License-Identifier: Apache-2.0 */
/* gemm_product.h - part of gemm_template.h: products of rows of x with panels of packed weights.
 * The micro-kernel is like that of scores (flash_kernel_f32.h). It also reads weights of 16 bits
 * and widens them in registers. This costs next to nothing with six rows, and half as much memory
 * is read, which counts with few rows. */
/* s[r][0 .. panels * NR) = x[r] w^T over `depth` floats or pairs. mr, panels and type are constants
 * after inlining. The order of the sums of a column depends on none of the three. */
FLASH_INLINE void gemm_tile(const int mr, const int panels, const uint32_t type,
                            const float *const *x, const void *w, int64_t depth, float *s)
{
    vf sum[FLASH_MR][2 * FLASH_NV];
    const int nv = panels * FLASH_NV;
#pragma GCC unroll 16
    for (int r = 0; r < mr; r++)
#pragma GCC unroll 8
        for (int n = 0; n < nv; n++)
            sum[r][n] = vf_set1(0.0f);
    for (int64_t e = 0; e < depth; e++) {
        vf weight[2 * FLASH_NV];
#pragma GCC unroll 8
        for (int n = 0; n < nv; n++)
            weight[n] =
                load_as(type, w, (n / FLASH_NV * depth + e) * FLASH_NR + n % FLASH_NV * VF_LANES);
#pragma GCC unroll 16
        for (int r = 0; r < mr; r++) {
            vf one = vf_set1(x[r][e]);
#pragma GCC unroll 8
            for (int n = 0; n < nv; n++)
                sum[r][n] = join(DOT, one, weight[n], sum[r][n]);
        }
    }
#pragma GCC unroll 16
    for (int r = 0; r < mr; r++)
#pragma GCC unroll 8
        for (int n = 0; n < nv; n++)
            vf_store(s + r * LD + n * VF_LANES, sum[r][n]);
}

/* Some rows of x, and the panels of a block. */
struct gemm_operands {
    const float *x[FLASH_MR];
    const void *w; /* [panels][depth][NR] of `type`, or of pairs */
    uint32_t type;
    int64_t depth, panels;
    float *s; /* [rows][LD] */
};

/* Row r of x, columns of a part, as floats: in place, or in `copy`. */
static const float *gemm_floats(const struct attn_gemm *job, const struct gemm_block *block,
                                int64_t r, float *copy)
{
    if (job->x.stride[2] == 1 && job->x.dtype == ATTN_F32)
        return (const float *)job->x.data + gemm_index(job, &job->x, r, block->e0);
    gemm_read(job, &job->x, r, block->e0, block->depth, copy);
    return copy;
}

/* `count` <= MR rows of x from r on, as the product reads them. */
static void gemm_rows(const struct attn_gemm *job, const struct gemm_block *block, int64_t r,
                      int count, float *copy, struct gemm_operands *op)
{
    for (int n = 0; n < count; n++, copy += ATTN_GEMM_DEPTH)
        op->x[n] = FLASH_PAIRS ? gemm_pairs(job, block, r + n, copy)
                               : gemm_floats(job, block, r + n, copy);
}

/* A single row takes two panels at a time: the sums of one panel would wait for themselves. */
FLASH_INLINE void gemm_panels(const int mr, const uint32_t type, const struct gemm_operands *op)
{
    const int64_t size = type == ATTN_F32 ? 4 : 2, step = op->depth * FLASH_NR * size;
    const char *w = op->w;
    int64_t p = 0;
    for (; mr == 1 && p + 2 <= op->panels; p += 2)
        gemm_tile(mr, 2, type, op->x, w + p * step, op->depth, op->s + p * FLASH_NR);
    for (; p < op->panels; p++)
        gemm_tile(mr, 1, type, op->x, w + p * step, op->depth, op->s + p * FLASH_NR);
}

FLASH_INLINE void gemm_count(int count, const uint32_t type, const struct gemm_operands *op)
{
    switch (count) {
    case 6:
        gemm_panels(6, type, op);
        break;
    case 5:
        gemm_panels(5, type, op);
        break;
    case 4:
        gemm_panels(4, type, op);
        break;
    case 3:
        gemm_panels(3, type, op);
        break;
    case 2:
        gemm_panels(2, type, op);
        break;
    default:
        gemm_panels(1, type, op);
    }
}

/* Products of `count` <= MR rows. */
FLASH_APART void gemm_product(int count, const struct gemm_operands *op)
{
    if (FLASH_PAIRS || op->type == ATTN_F32)
        gemm_count(count, ATTN_F32, op);
    else if (op->type == ATTN_F16)
        gemm_count(count, ATTN_F16, op);
    else
        gemm_count(count, ATTN_BF16, op);
}
