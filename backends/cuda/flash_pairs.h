/* SPDX-License-Identifier: Apache-2.0 */
/* flash_pairs.h - flash attention in plain f32 over tiles of pairs. A block computes PAIR_ROWS rows
 * of a query head. Additive and bilinear scores use projections of q and k in workspace. Dot
 * products of f32 use q and k themselves.
 *
 *   projected   q: W_q q [B,Hq,Sq,Dh], or q^T M [B,Hq,Sq,Dk]. k, additive only: W_k k [B,Hq,Sk,Dh],
 *               because each query head has its own W_k. They are f32, except that q^T M has type T
 *               for the tensor cores. The host puts these views in the place of q and k.
 *   p           [PAIR_KEYS x PAIR_ROWS] in shared memory: weights, or FORBIDDEN
 *   o           of a warp's 8 rows, lane + 32 c is a column */
#ifndef ATTN_CUDA_FLASH_PAIRS_H
#define ATTN_CUDA_FLASH_PAIRS_H

#include "pair_tile.h"

/* Stands for the weight of a cell that takes no part, so that 0 * NaN of v cannot arise. */
#define FORBIDDEN (-1.0f)

/* Kernel: multiplies PAIR_ROWS rows of q (z = 0) or of k (z = 1) by all rows of their matrix. */
template <class T> DEVICE void project_rows(const attn_cuda_args &a)
{
    const bool additive = a.flags & ATTN_CUDA_ADDITIVE, keys = block_z();
    const int rows = keys ? a.sk : a.sq, blocks = (rows + PAIR_ROWS - 1) / PAIR_ROWS;
    if (block_x() >= blocks * a.hq * a.b)
        return; /* q and k share one grid */
    const int first = block_x() % blocks * PAIR_ROWS, h = block_x() / blocks % a.hq;
    const int b = block_x() / blocks / a.hq, width = additive ? a.dh : a.dk;
    const pair_matrix<T> x =
        head_of<T>(keys ? a.k : a.q, b, keys ? h / (a.hq / a.hkv) : h, rows, false);
    const attn_cuda_view &by = keys ? a.score_k : a.score_q;
    const T *matrix = (const T *)by.data + h * by.stride[0];
    const pair_matrix<T> y = {matrix, by.stride[additive ? 1 : 2], by.stride[additive ? 2 : 1],
                              width, false};
    void *to = keys ? a.projected_k : a.projected_q;

    for (int column = 0; column < width; column += PAIR_KEYS) {
        float s[4][4];
        sum_pairs<T, false>(s, x, first, y, column, y, keys ? a.dk : a.dq);
#pragma unroll
        for (int r = 0; r < 4; r++)
#pragma unroll
            for (int c = 0; c < 4; c++) {
                const int i = first + row_of_thread() + r, at = column + key_of_thread() + c;
                const int64_t element = (((int64_t)b * a.hq + h) * rows + i) * width + at;
                T rounded;
                narrow(s[r][c], rounded);
                if (i >= rows || at >= width)
                    continue;
                if (a.flags & ATTN_CUDA_ROUND_Q)
                    store((T *)to + element, rounded);
                else
                    store((float *)to + element, s[r][c]);
            }
    }
}

template <class T> struct flash_pairs {
    static constexpr uint32_t P = PAIR_END, P_STEP = X_STEP;

    const attn_cuda_args &a;
    int b, h, first, lane, warp_row, lo, hi; /* lo, hi: keys that some row sees */
    row rows[4];                             /* of s */
    float s[4][4], maximum[4], sum[4], factor[4];
    float o[WARP_ROWS][ROW_COLUMNS] = {};

    DEVICE explicit flash_pairs(const attn_cuda_args &args) : a(args)
    {
        const int blocks = (a.sq + PAIR_ROWS - 1) / PAIR_ROWS;
        /* the last rows come first: under a causal mask they take longest */
        first = (blocks - 1 - block_x() % blocks) * PAIR_ROWS;
        h = block_x() / blocks % a.hq;
        b = block_x() / blocks / a.hq;
        lane = thread_index() % WARP;
        warp_row = first + thread_index() / WARP * WARP_ROWS;
        lo = a.sk, hi = 0;
        for (int i = first; i < first + PAIR_ROWS && i < a.sq; i++) {
            const row r = make_row(a, b, h, i);
            if (r.lo < r.hi) {
                lo = r.lo < lo ? r.lo : lo;
                hi = r.hi > hi ? r.hi : hi;
            }
        }
        const int start = block_z() * a.split_keys;
        lo = lo > start ? lo : start;
        hi = hi < start + a.split_keys ? hi : start + a.split_keys;
#pragma unroll
        for (int r = 0; r < 4; r++) {
            const int i = first + row_of_thread() + r;
            rows[r] = i < a.sq ? make_row(a, b, h, i) : row{i, h, 0, 0};
            maximum[r] = -INFINITY, sum[r] = 0, factor[r] = 0;
        }
    }

    /* One cell. It is a call, because 16 inline copies would take too many registers. The sum of
     * tanh takes much longer than a call. */
    DEVICE_CALL static float cell(const attn_cuda_args &a, int b, row r, int j, float product)
    {
        return cell_score<T>(a, b, r, j, product) * LOG2E;
    }
    DEVICE_CALL static bool kept(const attn_cuda_args &a, int b, row r, int j)
    {
        return keeps(a, b, r, j);
    }

    /* s = scores of keys from `key` on, in log2 units, and -inf from `end` on */
    DEVICE void score(int key, int end)
    {
        const bool additive = a.flags & ATTN_CUDA_ADDITIVE;
        const pair_matrix<T> x = head_of<T>(a.q, b, h, a.sq, true);
        const pair_matrix<T> y =
            head_of<T>(a.k, b, additive ? h : h / (a.hq / a.hkv), end, additive);
        const T *vector = (const T *)a.score_v.data + h * a.score_v.stride[0];
        const pair_matrix<T> w = {vector, 0, a.score_v.stride[1], 1, false};
        if (additive)
            sum_pairs<T, true>(s, x, first, y, key, w, a.dh);
        else
            sum_pairs<T, false>(s, x, first, y, key, w, a.dk);
#pragma unroll
        for (int r = 0; r < 4; r++)
#pragma unroll
            for (int c = 0; c < 4; c++) {
                const int j = key + key_of_thread() + c;
                s[r][c] = j < end ? cell(a, b, rows[r], j, s[r][c]) : -INFINITY;
            }
    }

    /* A row's value from the thread that has it: `values[r % 4]` of that half of the warp. */
    DEVICE static float of_row(const float (&values)[4], int r)
    {
        return shuffle(values[r % 4], r / 4 * 16);
    }

    /* s becomes p in shared memory. Updates maximum, sum and o. */
    DEVICE void exponentiate(int key)
    {
        const bool drops = a.flags & ATTN_CUDA_DROPOUT;
        float shrink[4];
#pragma unroll
        for (int r = 0; r < 4; r++) {
            float top = fmaxf(fmaxf(s[r][0], s[r][1]), fmaxf(s[r][2], s[r][3]));
            for (int step = 8; step > 0; step /= 2)
                top = fmaxf(top, shuffle_xor(top, step));
            const float largest = fmaxf(maximum[r], top), shift = shift_of(largest);
            shrink[r] = exp2_fast(maximum[r] - shift);
            maximum[r] = largest;
            sum[r] *= shrink[r];
#pragma unroll
            for (int c = 0; c < 4; c++) {
                const float p = exp2_fast(s[r][c] - shift);
                const bool takes_part = s[r][c] != -INFINITY &&
                                        (!drops || kept(a, b, rows[r], key + key_of_thread() + c));
                sum[r] += p;
                s[r][c] = takes_part ? p * a.keep_by : FORBIDDEN;
            }
        }
#pragma unroll
        for (int c = 0; c < 4; c++)
            store_shared(
                P + (uint32_t)(key_of_thread() + c) * P_STEP + (uint32_t)row_of_thread() * 4,
                chunk{{bits_of(s[0][c]), bits_of(s[1][c]), bits_of(s[2][c]), bits_of(s[3][c])}});
#pragma unroll
        for (int r = 0; r < WARP_ROWS; r++) {
            const float by = of_row(shrink, r);
#pragma unroll
            for (int c = 0; c < ROW_COLUMNS; c++)
                o[r][c] *= by;
        }
    }

    /* o += p v */
    DEVICE void multiply_values(int key)
    {
        const int count = hi - key < PAIR_KEYS ? hi - key : PAIR_KEYS;
        barrier(); /* p is complete */
#pragma unroll 1
        for (int j = 0; j < count; j++) {
            const uint32_t at = P + (uint32_t)j * P_STEP + (uint32_t)(warp_row - first) * 4;
            const chunk p[2] = {load_shared(at), load_shared(at + 16)};
            const T *v = (const T *)a.v.data + place(a.v, b, h / (a.hq / a.hkv), key + j);
#pragma unroll
            for (int c = 0; c < ROW_COLUMNS; c++) {
                if (c * WARP + lane >= a.dv)
                    continue;
                const float value = to_float(load(v + (c * WARP + lane) * a.v.stride[3]));
#pragma unroll
                for (int r = 0; r < WARP_ROWS; r++) {
                    const float weight = value_of(p[r / 4].word[r % 4]);
                    if (weight != FORBIDDEN)
                        o[r][c] = fmaf(weight, value, o[r][c]);
                }
            }
        }
    }

    DEVICE void store_row(int i, int r, float by)
    {
        T *out = (T *)a.out.data + place(a.out, b, h, i);
        float *partial = a.partial ? partial_row(a, block_z(), b, h, i) : nullptr;
#pragma unroll
        for (int c = 0; c < ROW_COLUMNS; c++) {
            const int column = c * WARP + lane;
            T rounded;
            narrow(o[r][c] * by, rounded);
            if (column < a.dv && partial)
                store(partial + 2 + column, o[r][c]);
            else if (column < a.dv)
                store(out + column * a.out.stride[3], rounded);
        }
    }

    DEVICE void finish()
    {
        const bool leads = lane % 16 == 0;
#pragma unroll
        for (int r = 0; r < 4; r++) {
            for (int step = 8; step > 0; step /= 2)
                sum[r] += shuffle_xor(sum[r], step);
            const int i = rows[r].i;
            if (i < a.sq && a.partial && leads) {
                float *partial = partial_row(a, block_z(), b, h, i);
                store(partial, maximum[r]);
                store(partial + 1, sum[r]);
            } else if (i < a.sq && !a.partial)
                factor[r] = finish_row(a, b, h, i, maximum[r], sum[r], leads);
        }
#pragma unroll
        for (int r = 0; r < WARP_ROWS; r++) {
            const float by = of_row(factor, r);
            if (warp_row + r < a.sq)
                store_row(warp_row + r, r, by);
        }
    }

    /* The weights of finished rows, before dropout. */
    DEVICE void store_weights(int key)
    {
#pragma unroll
        for (int r = 0; r < 4; r++)
#pragma unroll
            for (int c = 0; c < 4; c++) {
                const int i = rows[r].i, j = key + key_of_thread() + c;
                const float p = exp2_fast(s[r][c] - shift_of(maximum[r])) * factor[r];
                T rounded;
                narrow(s[r][c] == -INFINITY ? 0.0f : p, rounded);
                if (i < a.sq && j < a.sk)
                    store((T *)a.weights.data + place(a.weights, b, h, i) + j * a.weights.stride[3],
                          rounded);
            }
    }

    /* One sweep over the keys that are seen. If weights are asked for, a second sweep over all
     * keys, because the sum of a row is known only after the first. */
    DEVICE static void run(const attn_cuda_args &args)
    {
        flash_pairs tile(args);
        const int sweeps = args.weights.data ? 2 : 1;
#pragma unroll 1
        for (int sweep = 0; sweep < sweeps; sweep++) {
            const int end = sweep == 0 ? tile.hi : args.sk;
#pragma unroll 1
            for (int key = sweep == 0 ? tile.lo : 0; key < end; key += PAIR_KEYS) {
                tile.score(key, end);
                if (sweep == 0) {
                    tile.exponentiate(key);
                    tile.multiply_values(key);
                } else
                    tile.store_weights(key);
            }
            if (sweep == 0)
                tile.finish();
        }
    }
};

#endif
