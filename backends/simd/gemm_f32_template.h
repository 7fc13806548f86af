/* SPDX-License-Identifier: Apache-2.0 */
/* gemm_f32_template.h - y = x w^T + bias over the vector type of flash_f32_template.h, which an
 * instance includes first: a projection is the product of scores, with rows of x for queries and
 * rows of w for keys, and shares its packing and its micro-kernel.
 *
 * For each block of rows, for each part of the inner extent: pack x; for each block of columns, for
 * each group of MR rows: products, then y = bias + products, or y += products from the second part
 * on. What an element of y is made of, and in which order, depends on nothing but the inner extent:
 * not on the row's neighbours nor on the thread. */
#include "gemm.h"

static float *gemm_row(const struct attn_gemm *job, const struct attn_view *view, int64_t r)
{
    return (float *)view->data + r / job->batch_rows * view->stride[0] +
           r % job->batch_rows * view->stride[1];
}

/* Rows [r0, r0 + rows) of x, inner [e0, e0 + depth), as [rows/MR][depth][MR]. */
static void gemm_pack_x(const struct attn_gemm *job, int64_t r0, int64_t rows, int64_t e0,
                        int64_t depth, float *to)
{
    int64_t step = job->x.stride[2];
    for (int64_t g = 0; g < rows; g += FLASH_MR, to += FLASH_MR * depth) {
        const float *from[FLASH_MR];
        int64_t count = rows - g < FLASH_MR ? rows - g : FLASH_MR, e = 0;
        for (int64_t r = 0; r < count; r++)
            from[r] = gemm_row(job, &job->x, r0 + g + r) + e0 * step;
        if (count == FLASH_MR && step == 1)
            e = pack_q_group(from, depth, 1.0f, to);
        for (; e < depth; e++)
            for (int64_t r = 0; r < count; r++)
                to[e * FLASH_MR + r] = from[r][e * step];
    }
}

/* y[r][o0..] = bias + s, or y + s after the first part; at the last one, what is to be added. */
static void gemm_store_row(const struct attn_gemm *job, const float *s, int64_t r, int64_t o0,
                           int64_t columns, bool first, bool last)
{
    int64_t step = job->y.stride[2], base_step = first ? 1 : step, o = 0;
    const float *bias = job->packed + attn_round_up(job->columns, FLASH_NR) * job->inner;
    float *y = gemm_row(job, &job->y, r) + o0 * step;
    const float *base = first ? bias + o0 : y;
    if (step == 1)
        for (; o + VF_LANES <= columns; o += VF_LANES)
            vf_storeu(y + o, vf_add(vf_load(s + o), vf_loadu(base + o)));
    for (; o < columns; o++)
        y[o * step] = s[o] + base[o * base_step];
    if (!last || !job->add.data)
        return;
    const float *add = gemm_row(job, &job->add, r) + o0 * job->add.stride[2];
    for (o = 0; o < columns; o++)
        y[o * step] += add[o * job->add.stride[2]];
}

static void run_gemm(const struct attn_gemm *job, const struct attn_gemm_part *part, float *scratch)
{
    const int64_t wide = attn_round_up(job->columns, FLASH_NR), whole = attn_gemm_depth(job->inner);
    const int64_t most = ATTN_GEMM_ROWS / FLASH_MR * FLASH_MR;
    float *x = scratch, *s = scratch + ATTN_GEMM_X;
    for (int64_t r0 = part->r0; r0 < part->r1; r0 += most) {
        int64_t rows = part->r1 - r0 < most ? part->r1 - r0 : most;
        for (int64_t e0 = 0; e0 < job->inner; e0 += whole) {
            int64_t depth = job->inner - e0 < whole ? job->inner - e0 : whole;
            bool first = e0 == 0, last = e0 + depth == job->inner;
            gemm_pack_x(job, r0, rows, e0, depth, x);
            for (int64_t o0 = part->o0; o0 < part->o1; o0 += ATTN_GEMM_COLUMNS) {
                int64_t left = part->o1 - o0;
                int64_t columns = left < ATTN_GEMM_COLUMNS ? left : ATTN_GEMM_COLUMNS;
                int64_t panels = (columns + FLASH_NR - 1) / FLASH_NR;
                const float *w = job->packed + wide * e0 + o0 * depth;
                for (int64_t g = 0; g < rows; g += FLASH_MR) {
                    int count = (int)(rows - g < FLASH_MR ? rows - g : FLASH_MR);
                    score_product(count, x + g * depth, w, depth, 0, panels, s);
                    for (int r = 0; r < count; r++)
                        gemm_store_row(job, s + r * LD, r0 + g + r, o0, columns, first, last);
                }
            }
        }
    }
}
