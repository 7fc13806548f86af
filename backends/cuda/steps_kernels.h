/* SPDX-License-Identifier: Apache-2.0 */
/* steps_kernels.h - the kernels around cuBLAS's products: the softmax between them, repair of rows
 * that the second product spoils, and dense copies of operands. */
#ifndef ATTN_CUDA_STEPS_KERNELS_H
#define ATTN_CUDA_STEPS_KERNELS_H

#include "flash_row.h"
#include "steps.h"

/* Combines a value of each warp, 16 bytes apart from `at` on, in the order of warps. */
template <class Combine>
DEVICE float over_warps(float value, int warps, uint32_t at, Combine combine)
{
    if (warps == 1)
        return value;
    if (thread_index() % WARP == 0)
        store_shared(at + (uint32_t)(thread_index() / WARP) * 16, chunk{{bits_of(value)}});
    barrier();
    float whole = value_of(load_shared(at).word[0]);
    for (int w = 1; w < warps; w++)
        whole = combine(whole, value_of(load_shared(at + (uint32_t)w * 16).word[0]));
    return whole;
}

/* Kernel: turns one row of scores into weights. Each thread reads only what it has stored itself.
 * Cells outside the row's keys are only written, because a product may have left NaN there. */
template <class T> DEVICE void softmax_row(const attn_cuda_softmax &s)
{
    const attn_cuda_args &a = s.args;
    const int index = block_x(), thread = thread_index(), threads = s.warps * WARP;
    const int i = index % a.sq, h = index / a.sq % a.hq, b = index / a.sq / a.hq;
    const row r = make_row(a, b, h, i);
    const int first = r.lo - r.lo % threads + thread;
    float *scores = s.scores + (int64_t)index * a.sk;
    T *p = (T *)s.p + (int64_t)index * a.sk;

    /* pass 1: finished scores and their maximum */
    float maximum = -INFINITY, sum = 0;
    for (int j = first; j < r.hi; j += threads) {
        const float score = cell_score<T>(a, b, r, j, load(scores + j)) * LOG2E;
        maximum = fmaxf(maximum, score);
        store(scores + j, score);
    }
    maximum =
        over_warps(warp_max(maximum), s.warps, 0, [](float x, float y) { return fmaxf(x, y); });

    /* pass 2: the sum */
    const float shift = shift_of(maximum);
    for (int j = first; j < r.hi; j += threads)
        sum += exp2_fast(load(scores + j) - shift);
    sum = over_warps(warp_sum(sum), s.warps, (uint32_t)s.warps * 16,
                     [](float x, float y) { return x + y; });
    const float factor = finish_row(a, b, h, i, maximum, sum, thread == 0);

    /* pass 3: the weights */
    T *weights = a.weights.data ? (T *)a.weights.data + place(a.weights, b, h, i) : nullptr;
    const int end = PLANTED(edge) ? r.hi : a.sk;
    for (int j = thread; j < end; j += threads) {
        const float score = j < r.lo || j >= r.hi ? -INFINITY : load(scores + j);
        const float weight = score == -INFINITY ? 0.0f : exp2_fast(score - shift) * factor;
        T value;
        narrow(weight, value);
        if (weights)
            store(weights + j * a.weights.stride[3], value);
        if (a.flags & ATTN_CUDA_DROPOUT)
            narrow(keeps(a, b, r, j) ? weight * a.keep_by : 0.0f, value);
        store(p + j, value);
    }
}

/* Kernel: `warps` rows per block, one per warp. A key that a row does not see has weight 0, and
 * 0 * NaN is NaN. A row with a value that is not finite is computed again, only from the keys that
 * it sees. Without keys there was no product, and all rows are computed here. */
template <class T, int warps> DEVICE void repair_rows(const attn_cuda_args &a)
{
    int b, h, i;
    if (!row_of_warp(a, warps, b, h, i))
        return;
    const T *out = (const T *)a.out.data + place(a.out, b, h, i);
    bool spoilt = a.sk == 0;
    for (int column = thread_index() % WARP; column < a.dv; column += WARP)
        spoilt |= !(fabsf(to_float(load(out + column * a.out.stride[3]))) < INFINITY);
    if (lanes_where(spoilt))
        flash_row<T>(a, b, h, i, 0);
}

/* Kernel: see attn_cuda_lay. */
template <class T> DEVICE void lay_row(const attn_cuda_lay &l)
{
    enum { LAST = ATTN_CUDA_AXES - 1 };
    int64_t rest = block_x(), to = 0, from = 0, plus = 0;
    bool kept = true;
    for (int axis = LAST - 1; axis >= 0; axis--) {
        const int64_t at = rest % l.extent[axis];
        rest /= l.extent[axis];
        to += at * l.to_stride[axis];
        from += at * l.from_stride[axis];
        plus += at * l.plus_stride[axis];
        if (axis == 1 && l.keep)
            kept = load(l.keep + at * l.keep_stride) != 0;
    }
    for (int64_t c = thread_index(); c < l.extent[LAST]; c += l.threads) {
        float value =
            kept ? to_float(load((const T *)l.from + from + c * l.from_stride[LAST])) : 0.0f;
        if (l.plus)
            value += to_float(load((const T *)l.plus + plus + c * l.plus_stride[LAST]));
        T narrowed;
        narrow(value, narrowed);
        store((T *)l.to + to + c * l.to_stride[LAST], narrowed);
    }
}

/* The entry points of one type. */
#define ATTN_CUDA_STEP_KERNELS(type, name)                                                         \
    extern "C" __global__ void softmax_##name(const __grid_constant__ attn_cuda_softmax s)         \
    {                                                                                              \
        softmax_row<type>(s);                                                                      \
    }                                                                                              \
    extern "C" __global__ void repair_##name(const __grid_constant__ attn_cuda_args a)             \
    {                                                                                              \
        repair_rows<type, ATTN_CUDA_ROW_WARPS>(a);                                                 \
    }                                                                                              \
    extern "C" __global__ void lay_##name(const __grid_constant__ attn_cuda_lay l)                 \
    {                                                                                              \
        lay_row<type>(l);                                                                          \
    }

#endif
