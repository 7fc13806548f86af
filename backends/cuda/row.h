/* SPDX-License-Identifier: Apache-2.0 */
/* row.h - one query row: the keys that it sees, the steps of a score, and the end of a row. */
#ifndef ATTN_CUDA_ROW_H
#define ATTN_CUDA_ROW_H

#include <math.h>

#include "args.h"
#include "attnbench/rows.h"
#include "device.h"

#define LOG2E 1.4426950408889634f
#define LN2   0.6931471805599453f

/* Query i of head h. Keys lo .. hi-1 pass len, causal and window. */
struct row {
    int i, h, lo, hi;
};

DEVICE int clamp(int value, int low, int high)
{
    return value < low ? low : value > high ? high : value;
}

DEVICE int64_t place(const attn_cuda_view &view, int a, int b, int c)
{
    return a * view.stride[0] + b * view.stride[1] + c * view.stride[2];
}

DEVICE int mask_offset(const attn_cuda_args &a, int b)
{
    if (!(a.flags & ATTN_CUDA_OFF_BR))
        return a.off;
    return (a.len.data ? load((const int32_t *)a.len.data + b * a.len.stride[0]) : a.sk) - a.sq;
}

DEVICE row make_row(const attn_cuda_args &a, int b, int h, int i)
{
    int lo = 0, hi = a.sk;
    if (a.len.data) {
        const int64_t at =
            b * a.len.stride[0] + (a.flags & ATTN_CUDA_LEN_2D ? i * a.len.stride[1] : 0);
        hi = clamp(load((const int32_t *)a.len.data + at), 0, hi);
    }
    const int diagonal = i + mask_offset(a, b);
    if (a.flags & ATTN_CUDA_CAUSAL)
        hi = clamp(diagonal + (PLANTED(diagonal) ? 2 : 1), 0, hi);
    if (a.flags & ATTN_CUDA_WINDOW) {
        if (a.window_left >= 0)
            lo = clamp(diagonal - a.window_left, 0, hi);
        if (a.window_right >= 0)
            hi = clamp(diagonal + a.window_right + 1, 0, hi);
    }
    return lo < hi ? row{i, h, lo, hi} : row{i, h, 0, 0};
}

/* The score of a cell in natural units, or -inf if the cell is not allowed. A bias of -inf forbids
 * a cell even if the product is NaN. */
template <class T>
DEVICE float cell_score(const attn_cuda_args &a, int b, const row &r, int j, float product)
{
    if (j < r.lo || j >= r.hi)
        return -INFINITY;
    if (a.mask.data &&
        !load((const uint8_t *)a.mask.data + place(a.mask, b, r.h, r.i) + j * a.mask.stride[3]))
        return -INFINITY;
    float s = product * a.scale;
    if (a.softcap > 0)
        s = a.softcap * tanhf(s / a.softcap);
    if (a.bias.data) {
        const int64_t at = place(a.bias, b, r.h, r.i) + j * a.bias.stride[3];
        const float bias = a.flags & ATTN_CUDA_BIAS_F32
                               ? load((const float *)a.bias.data + at)
                               : to_float(load((const T *)a.bias.data + at));
        s = bias == -INFINITY ? -INFINITY : s + bias;
    }
    if (a.alibi.data) {
        const int distance = r.i + mask_offset(a, b) - j;
        s -= load((const float *)a.alibi.data + r.h * a.alibi.stride[0]) *
             (float)(distance < 0 ? -distance : distance);
    }
    return s;
}

/* Does dropout keep this cell. */
DEVICE bool keeps(const attn_cuda_args &a, int b, const row &r, int j)
{
    if (!(a.flags & ATTN_CUDA_DROPOUT) || j >= a.sk)
        return true;
    if (a.keep.data)
        return load((const uint8_t *)a.keep.data + place(a.keep, b, r.h, r.i) +
                    j * a.keep.stride[3]) != 0;
    const uint64_t row_index =
        ((uint64_t)b * (uint32_t)a.hq + (uint32_t)r.h) * (uint32_t)a.sq + (uint32_t)r.i;
    return attn_dropout_word(a.seed, row_index * (uint32_t)a.sk + (uint32_t)j) >> 8 >= a.keep_from;
}

/* The maximum that is subtracted. It is 0 if no key was seen, so that -inf minus it is -inf. */
DEVICE float shift_of(float maximum)
{
    return maximum == -INFINITY ? 0.0f : maximum;
}

/* The factor of the columns of a finished row. Stores lse. `maximum` is in log2 units. The sum is 0
 * only for an empty row, because the largest score adds 1. */
DEVICE float finish_row(const attn_cuda_args &a, int b, int h, int i, float maximum, float sum,
                        bool stores_lse)
{
    float largest = maximum, total = sum, factor = 1;
    if (a.sink.data) {
        const float sink = load((const float *)a.sink.data + h * a.sink.stride[0]) * LOG2E;
        largest = fmaxf(maximum, sink);
        factor = exp2_fast(maximum - shift_of(largest));
        total = sum * factor + exp2_fast(sink - shift_of(largest));
    }
    if (stores_lse && a.lse.data)
        store((float *)a.lse.data + place(a.lse, b, h, i),
              total == 0 ? -INFINITY : (largest + log2f(total)) * LN2);
    return total == 0 ? 0.0f : factor / total;
}

/* The unmerged result of a row: maximum, sum, dv columns. */
DEVICE float *partial_row(const attn_cuda_args &a, int split, int b, int h, int i)
{
    const int64_t index = (((int64_t)split * a.b + b) * a.hq + h) * a.sq + i;
    return a.partial + index * (a.dv + 2);
}

#endif
