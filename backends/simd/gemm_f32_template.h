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

/* `count` <= MR rows of x from r on, from e on: in place, or `depth` columns copied to `copy`. */
static void gemm_rows(const struct attn_gemm *job, int64_t r, int count, int64_t e, int64_t depth,
                      float *copy, const float **to)
{
    int64_t step = job->x.stride[2];
    for (int n = 0; n < count; n++) {
        const float *from = gemm_row(job, &job->x, r + n) + e * step;
        to[n] = step == 1 ? from : copy + n * ATTN_GEMM_DEPTH;
        for (int64_t c = 0; step != 1 && c < depth; c++)
            copy[n * ATTN_GEMM_DEPTH + c] = from[c * step];
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
    float *copy = scratch, *s = scratch + ATTN_GEMM_X;
    for (int64_t r0 = part->r0; r0 < part->r1; r0 += most) {
        int64_t r1 = part->r1 - r0 < most ? part->r1 : r0 + most;
        for (int64_t e0 = 0; e0 < job->inner; e0 += whole) {
            int64_t depth = job->inner - e0 < whole ? job->inner - e0 : whole;
            bool first = e0 == 0, last = e0 + depth == job->inner;
            for (int64_t o0 = part->o0; o0 < part->o1; o0 += ATTN_GEMM_COLUMNS) {
                int64_t left = part->o1 - o0;
                int64_t columns = left < ATTN_GEMM_COLUMNS ? left : ATTN_GEMM_COLUMNS;
                struct span span = {.k = job->packed + wide * e0 + o0 * depth,
                                    .dk = depth,
                                    .to = attn_round_up(columns, VF_LANES),
                                    .s = s};
                for (int64_t g = r0; g < r1; g += FLASH_MR) {
                    int count = (int)(r1 - g < FLASH_MR ? r1 - g : FLASH_MR);
                    gemm_rows(job, g, count, e0, depth, copy, span.q);
                    score_product(count, &span);
                    for (int r = 0; r < count; r++)
                        gemm_store_row(job, s + r * LD, g + r, o0, columns, first, last);
                }
            }
        }
    }
}
