/* SPDX-License-Identifier: Apache-2.0 */
/* gemm.c - see gemm.h. The product itself is in gemm_template.h. */
#include "gemm.h"

/* Bytes of rows * columns elements, rounded up to 64; -1 on overflow. */
static int64_t bytes_of(int64_t rows, int64_t columns, int64_t size)
{
    int64_t bytes;
    if (__builtin_mul_overflow(rows, columns, &bytes) ||
        __builtin_mul_overflow(bytes, size, &bytes) || bytes > INT64_MAX - 63)
        return -1;
    return attn_round_up(bytes, 64);
}

int64_t attn_gemm_packed(const struct attn_gemm_layout *layout, int64_t columns, int64_t inner)
{
    if (columns > INT64_MAX - layout->nr || inner > INT64_MAX - layout->step)
        return -1;
    return bytes_of(attn_round_up(columns, layout->nr), attn_round_up(inner, layout->step),
                    attn_element_bytes(layout->dtype));
}

int64_t attn_gemm_biases(const struct attn_gemm_layout *layout, int64_t columns)
{
    if (columns > INT64_MAX - layout->nr)
        return -1;
    return bytes_of(1, attn_round_up(columns, layout->nr), sizeof(float));
}

/* One column of a panel: `depth` elements of w from row `o` and inner index `e0` on. */
static void pack_column(const struct attn_gemm_layout *layout, const struct attn_tensor *w,
                        int64_t o, int64_t e0, int64_t depth, char *to)
{
    const int64_t size = attn_element_bytes(layout->dtype), pair = layout->pair;
    const int64_t there = o < w->shape[0] ? w->shape[1] - e0 : 0;
    const char *from =
        there > 0 ? (const char *)w->data + (o * w->stride[0] + e0 * w->stride[1]) * size : NULL;
    for (int64_t e = 0; e < depth; e++) {
        char *place = to + (e / pair * layout->nr * pair + e % pair) * size;
        if (e >= there)
            memset(place, 0, (size_t)size);
        else if (size == 4)
            memcpy(place, from + e * w->stride[1] * 4, 4);
        else
            memcpy(place, from + e * w->stride[1] * 2, 2);
    }
}

void attn_gemm_pack(const struct attn_gemm_layout *layout, const struct attn_tensor *w, void *to)
{
    const int64_t wide = attn_round_up(w->shape[0], layout->nr), pair = layout->pair;
    const int64_t inner = attn_round_up(w->shape[1], layout->step),
                  whole = attn_gemm_depth(inner, layout->step);
    const int64_t size = attn_element_bytes(layout->dtype);
    char *panel = to;
    for (int64_t e0 = 0; e0 < inner; e0 += whole) {
        int64_t depth = inner - e0 < whole ? inner - e0 : whole;
        for (int64_t o0 = 0; o0 < wide; o0 += layout->nr, panel += depth * layout->nr * size)
            for (int64_t o = 0; o < layout->nr; o++)
                pack_column(layout, w, o0 + o, e0, depth, panel + o * pair * size);
    }
}

void attn_gemm_pack_bias(const struct attn_gemm_layout *layout, const struct attn_tensor *bias,
                         int64_t columns, float *to)
{
    for (int64_t o = 0; o < attn_round_up(columns, layout->nr); o++)
        to[o] = bias->dtype && o < columns
                    ? attn_element_read(bias->dtype, bias->data, o * bias->stride[0])
                    : 0.0f;
}

/* Where the share of a thread begins if `extent` is cut in units. */
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
