/* SPDX-License-Identifier: Apache-2.0 */
/* flash_row.h - a warp computes a row in plain f32 FMA, and the merge of split keys.
 *
 * It computes all of the operator that this backend has. It reads no value of a key that is not
 * allowed, so it also repairs the 0 * NaN of the tensor cores. Scores: one lane per key. Output:
 * one lane per column. */
#ifndef ATTN_CUDA_FLASH_ROW_H
#define ATTN_CUDA_FLASH_ROW_H

#include "row.h"

enum { WARP = 32, ROW_COLUMNS = 256 / WARP /* columns of out a lane holds */ };

DEVICE float warp_max(float value)
{
    for (int step = WARP / 2; step > 0; step /= 2)
        value = fmaxf(value, shuffle_xor(value, step));
    return value;
}

DEVICE float warp_sum(float value)
{
    for (int step = WARP / 2; step > 0; step /= 2)
        value += shuffle_xor(value, step);
    return value;
}

template <class T> DEVICE float key_score(const attn_cuda_args &a, int b, const row &r, int j)
{
    if (j >= r.hi)
        return -INFINITY;
    const T *q = (const T *)a.q.data + place(a.q, b, r.h, r.i);
    const T *k = (const T *)a.k.data + place(a.k, b, r.h / (a.hq / a.hkv), j);
    float product = 0;
    for (int c = 0; c < a.dk; c++) {
        const float qc = to_float(load(q + c * a.q.stride[3]));
        const float kc = to_float(load(k + c * a.k.stride[3]));
        const bool gaussian = a.flags & ATTN_CUDA_GAUSSIAN;
        product = gaussian ? fmaf(-0.5f * (qc - kc), qc - kc, product) : fmaf(qc, kc, product);
    }
    return cell_score<T>(a, b, r, j, product);
}

/* The weights of a finished row, before dropout. */
template <class T>
DEVICE void store_weights(const attn_cuda_args &a, int b, const row &r, float shift, float factor)
{
    T *weights = (T *)a.weights.data + place(a.weights, b, r.h, r.i);
    for (int j = thread_index() % WARP; j < a.sk; j += WARP) {
        const float s = key_score<T>(a, b, r, j) * LOG2E;
        T p;
        narrow(s == -INFINITY ? 0.0f : exp2_fast(s - shift) * factor, p);
        store(weights + j * a.weights.stride[3], p);
    }
}

/* Row i of head h over the keys of one split. */
template <class T>
DEVICE_CALL void flash_row(const attn_cuda_args &a, int b, int h, int i, int split)
{
    const int lane = thread_index() % WARP;
    row r = make_row(a, b, h, i);
    const int first = split * a.split_keys;
    r.lo = r.lo > first ? r.lo : first;
    r.hi = r.hi < first + a.split_keys ? r.hi : first + a.split_keys;
    float columns[ROW_COLUMNS] = {}, maximum = -INFINITY, sum = 0;

    for (int j = r.lo; j < r.hi; j += WARP) {
        const float s = key_score<T>(a, b, r, j + lane) * LOG2E;
        const float largest = fmaxf(maximum, warp_max(s)), shift = shift_of(largest);
        const float shrink = exp2_fast(maximum - shift), p = exp2_fast(s - shift);
        const bool kept = keeps(a, b, r, j + lane);
        maximum = largest;
        sum = sum * shrink + p;
        for (int c = 0; c < ROW_COLUMNS; c++)
            columns[c] *= shrink;
        for (uint32_t seen = lanes_where(s != -INFINITY && kept); seen; seen &= seen - 1) {
            const int key = lowest_bit(seen);
            const float weight = shuffle(p, key) * a.keep_by;
            const T *v = (const T *)a.v.data + place(a.v, b, h / (a.hq / a.hkv), j + key);
#pragma unroll
            for (int c = 0; c < ROW_COLUMNS; c++)
                if (c * WARP + lane < a.dv)
                    columns[c] = fmaf(weight, to_float(load(v + (c * WARP + lane) * a.v.stride[3])),
                                      columns[c]);
        }
    }

    sum = warp_sum(sum);
    float *partial = a.partial ? partial_row(a, split, b, h, i) : nullptr;
    if (partial && lane == 0) {
        store(partial, maximum);
        store(partial + 1, sum);
    }
    const float factor = partial ? 1.0f : finish_row(a, b, h, i, maximum, sum, lane == 0);
    if (a.weights.data)
        store_weights<T>(a, b, r, shift_of(maximum), factor);
    T *out = (T *)a.out.data + place(a.out, b, h, i);
#pragma unroll
    for (int c = 0; c < ROW_COLUMNS; c++) {
        const int column = c * WARP + lane;
        T value;
        narrow(columns[c] * factor, value);
        if (column < a.dv && partial)
            store(partial + 2 + column, columns[c]);
        else if (column < a.dv)
            store(out + column * a.out.stride[3], value);
    }
}

/* The row (b, h, i) of a warp; neighbouring warps have neighbouring rows. False: no such row. */
DEVICE bool row_of_warp(const attn_cuda_args &a, int warps, int &b, int &h, int &i)
{
    const int64_t index = (int64_t)block_x() * warps + thread_index() / WARP;
    i = (int)(index % a.sq);
    h = (int)(index / a.sq % a.hq);
    b = (int)(index / a.sq / a.hq);
    return b < a.b;
}

/* Kernel: `warps` rows per block, one split per z. */
template <class T, int warps> DEVICE void flash_rows(const attn_cuda_args &a)
{
    int b, h, i;
    if (row_of_warp(a, warps, b, h, i))
        flash_row<T>(a, b, h, i, block_z());
}

/* Kernel: merges the splits of `warps` rows per block. */
template <class T, int warps> DEVICE void merge_rows(const attn_cuda_args &a)
{
    int b, h, i;
    if (!row_of_warp(a, warps, b, h, i))
        return;
    const int lane = thread_index() % WARP;
    float maximum = -INFINITY, sum = 0;
    for (int z = 0; z < a.splits; z++)
        maximum = fmaxf(maximum, load(partial_row(a, z, b, h, i)));
    const float shift = shift_of(maximum);
    for (int z = 0; z < a.splits; z++) {
        const float *partial = partial_row(a, z, b, h, i);
        sum += load(partial + 1) * exp2_fast(load(partial) - shift);
    }
    const float factor = finish_row(a, b, h, i, maximum, sum, lane == 0);
    T *out = (T *)a.out.data + place(a.out, b, h, i);
    for (int column = lane; column < a.dv; column += WARP) {
        float whole = 0;
        for (int z = 0; z < a.splits; z++) {
            const float *partial = partial_row(a, z, b, h, i);
            whole = fmaf(exp2_fast(load(partial) - shift), load(partial + 2 + column), whole);
        }
        T value;
        narrow(whole * factor, value);
        store(out + column * a.out.stride[3], value);
    }
}

#endif
