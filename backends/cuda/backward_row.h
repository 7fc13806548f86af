/* SPDX-License-Identifier: Apache-2.0 */
/* backward_row.h - gradients: what one cell and one row give, and sums over the rows of a head. The
 * letters are those of reference/ops/attention_backward/OP.md. */
#ifndef ATTN_CUDA_BACKWARD_ROW_H
#define ATTN_CUDA_BACKWARD_ROW_H

#include "flash_row.h"

/* What a cell is wanted for: dS (dbias), dZ (dq and dk), or p kappa (dv). */
enum cell_value { CELL_DS, CELL_DZ, CELL_P };

/* The bits of -0 stand for a cell that is not allowed, so that 0 * NaN cannot arise. No allowed
 * cell has them. */
#define NOT_ALLOWED 0x80000000u

/* A query row, with lse in log2 units. */
struct backward_row {
    row keys;
    float lse, delta;
};

DEVICE int64_t row_number(const attn_cuda_args &a, int b, int h, int i)
{
    return ((int64_t)b * a.hq + h) * a.sq + i;
}

/* Row i of head h. A row past the end sees no key. */
DEVICE backward_row make_backward_row(const attn_cuda_args &a, int b, int h, int i)
{
    if (i >= a.sq)
        return backward_row{{i, h, 0, 0}, 0, 0};
    return backward_row{make_row(a, b, h, i),
                        load((const float *)a.lse.data + place(a.lse, b, h, i)) * LOG2E,
                        load(a.delta + row_number(a, b, h, i))};
}

template <class T> DEVICE bool cell_allowed(const attn_cuda_args &a, int b, const row &r, int j)
{
    if (j < r.lo || j >= r.hi)
        return false;
    if (a.mask.data &&
        !load((const uint8_t *)a.mask.data + place(a.mask, b, r.h, r.i) + j * a.mask.stride[3]))
        return false;
    if (!a.bias.data)
        return true;
    const int64_t at = place(a.bias, b, r.h, r.i) + j * a.bias.stride[3];
    return (a.flags & ATTN_CUDA_BIAS_F32
                ? load((const float *)a.bias.data + at)
                : to_float(load((const T *)a.bias.data + at))) != -INFINITY;
}

/* A cell, from its products q . k and dO . v. It is a call, because 16 inline copies would take too
 * many registers. */
template <class T>
DEVICE_CALL float backward_cell(const attn_cuda_args &a, int b, backward_row r, int j,
                                float product, float dp, cell_value wanted)
{
    if (!cell_allowed<T>(a, b, r.keys, j) && !PLANTED(forbidden))
        return value_of(NOT_ALLOWED);
    const float s = cell_score<T>(a, b, r.keys, j, product);
    const float p = exp2_fast(fmaf(s, LOG2E, -r.lse));
    const bool kept = keeps(a, b, r.keys, j);
    /* + 0 makes -0 a 0 */
    if (wanted == CELL_P)
        return p * (kept ? a.keep_by : 0.0f) + 0.0f;
    /* v of a key that was dropped takes no part */
    float ds = p * ((kept ? dp * a.keep_by : 0.0f) - r.delta);
    if (wanted == CELL_DZ && a.softcap > 0) {
        const float t = tanhf(product * a.scale / a.softcap);
        ds *= 1 - t * t;
    }
    return ds + 0.0f;
}

/* Does the row see a key. Its lanes look at 32 keys at a time. */
template <class T> DEVICE bool sees_keys(const attn_cuda_args &a, int b, const row &r)
{
    for (int j = r.lo; j < r.hi; j += WARP)
        if (lanes_where(cell_allowed<T>(a, b, r, j + thread_index() % WARP)))
            return true;
    return false;
}

/* Kernel: delta of `warps` rows per block. Only dsink needs to know of rows that see no key,
 * whatever dO and out hold there; elsewhere their cells are not allowed. */
template <class T, int warps> DEVICE void delta_rows(const attn_cuda_args &a)
{
    int b, h, i;
    if (!row_of_warp(a, warps, b, h, i))
        return;
    const int lane = thread_index() % WARP;
    const T *out = (const T *)a.out.data + place(a.out, b, h, i);
    const T *dout = (const T *)a.dout.data + place(a.dout, b, h, i);
    float delta = 0;
    if (!a.grad_sink.data || sees_keys<T>(a, b, make_row(a, b, h, i)))
        for (int c = lane; c < a.dv; c += WARP)
            delta = fmaf(to_float(load(dout + c * a.dout.stride[3])),
                         to_float(load(out + c * a.out.stride[3])), delta);
    delta = PLANTED(delta) ? 0.0f : warp_sum(delta);
    if (a.dlse.data)
        delta -= load((const float *)a.dlse.data + place(a.dlse, b, h, i));
    if (lane == 0)
        store(a.delta + row_number(a, b, h, i), delta);
}

/* Kernel: dsink and dalibi of a head, from its rows. One warp; the order of the sum is fixed. */
DEVICE void total_rows(const attn_cuda_args &a)
{
    const int h = block_x(), lane = thread_index();
    const float sink =
        a.sink.data ? load((const float *)a.sink.data + h * a.sink.stride[0]) * LOG2E : 0.0f;
    float by_sink = 0, by_slope = 0;
    for (int b = 0; b < a.b; b++)
        for (int i = lane; i < a.sq; i += WARP) {
            const int64_t at = row_number(a, b, h, i);
            if (a.grad_sink.data) {
                const float lse = load((const float *)a.lse.data + place(a.lse, b, h, i));
                if (lse != -INFINITY)
                    by_sink -= exp2_fast(fmaf(-lse, LOG2E, sink)) * load(a.delta + at);
            }
            if (a.slopes)
                by_slope -= load(a.slopes + at);
        }
    by_sink = warp_sum(by_sink);
    by_slope = warp_sum(by_slope);
    if (lane == 0 && a.grad_sink.data)
        store((float *)a.grad_sink.data + h * a.grad_sink.stride[0], by_sink);
    if (lane == 0 && a.slopes)
        store((float *)a.grad_alibi.data + h * a.grad_alibi.stride[0], by_slope);
}

#endif
