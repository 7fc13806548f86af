/* SPDX-License-Identifier: Apache-2.0 */
/* gemm.c - see gemm.h; the product itself is in gemm_f32_template.h. */
#include "gemm.h"

int64_t attn_gemm_packed(int64_t columns, int64_t inner, int nr)
{
    int64_t floats;
    if (columns > INT64_MAX - nr || inner == INT64_MAX ||
        __builtin_mul_overflow(attn_round_up(columns, nr), inner + 1, &floats))
        return -1;
    return floats;
}

void attn_gemm_pack(const struct attn_tensor *w, const struct attn_tensor *bias, int nr, float *to)
{
    const int64_t columns = w->shape[0], inner = w->shape[1], whole = attn_gemm_depth(inner);
    for (int64_t e0 = 0; e0 < inner; e0 += whole) {
        int64_t depth = inner - e0 < whole ? inner - e0 : whole;
        for (int64_t o0 = 0; o0 < columns; o0 += nr, to += depth * nr)
            for (int64_t o = o0; o < o0 + nr; o++) {
                const float *row = (const float *)w->data + o * w->stride[0] + e0 * w->stride[1];
                for (int64_t e = 0; e < depth; e++)
                    to[e * nr + o - o0] = o < columns ? row[e * w->stride[1]] : 0.0f;
            }
    }
    for (int64_t o = 0; o < attn_round_up(columns, nr); o++)
        to[o] = bias && o < columns ? ((const float *)bias->data)[o * bias->stride[0]] : 0.0f;
}

/* Where the share of a thread begins when `extent` is cut in units. */
static int64_t cut(int64_t extent, int64_t unit, int thread, int threads)
{
    int64_t at = (extent + unit - 1) / unit * thread / threads * unit;
    return at < extent ? at : extent;
}

struct attn_gemm_part attn_gemm_share(const struct attn_gemm *job, const struct attn_flash_isa *isa,
                                      int thread, int threads)
{
    struct attn_gemm_part part = {0, job->rows, 0, job->columns};
    if (job->rows / isa->mr >= job->columns / isa->nr) {
        part.r0 = cut(job->rows, isa->mr, thread, threads);
        part.r1 = cut(job->rows, isa->mr, thread + 1, threads);
    } else {
        part.o0 = cut(job->columns, isa->nr, thread, threads);
        part.o1 = cut(job->columns, isa->nr, thread + 1, threads);
    }
    return part;
}
