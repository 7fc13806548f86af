/* SPDX-License-Identifier: Apache-2.0 */
/* pair_tile.h - a block combines rows of x with rows of y. Each pair is a sum over their columns:
 * of x y (projections, bilinear scores) or of w tanh(x + y) (additive scores). Plain f32.
 *
 *   X, Y  PAIR_DEPTH columns of PAIR_ROWS and PAIR_KEYS rows in shared memory, transposed: one load
 *         of 16 bytes is four rows. Each column has 16 bytes more than its rows. These bytes spread
 *         stores over the banks; in X they hold w.
 *   s     [4 x 4] of a thread: rows from row_of_thread() on, keys from key_of_thread() on. A warp
 *         has 8 rows and all keys, so a softmax stays within the warp. */
#ifndef ATTN_CUDA_PAIR_TILE_H
#define ATTN_CUDA_PAIR_TILE_H

#include "flash_row.h"
#include "instances.h"

enum {
    PAIR_ROWS = ATTN_CUDA_PAIR_ROWS,
    PAIR_KEYS = ATTN_CUDA_PAIR_KEYS,
    PAIR_DEPTH = ATTN_CUDA_PAIR_DEPTH,
    PAIR_THREADS = ATTN_CUDA_PAIR_THREADS,
    WARP_ROWS = 8,
    X_STEP = (PAIR_ROWS + 4) * 4, /* bytes from column to column */
    Y_STEP = (PAIR_KEYS + 4) * 4,
    PAIR_X = 0,
    PAIR_W = PAIR_X + PAIR_ROWS * 4,
    PAIR_Y = PAIR_X + PAIR_DEPTH * X_STEP,
    PAIR_END = PAIR_Y + PAIR_DEPTH * Y_STEP
};

DEVICE int row_of_thread()
{
    return thread_index() / WARP * WARP_ROWS + thread_index() % WARP / 16 * 4;
}

DEVICE int key_of_thread()
{
    return thread_index() % 16 * 4;
}

/* Elements are f32 if `wide`, else T. */
template <class T> struct pair_matrix {
    const void *data;
    int64_t row_step, step;
    int rows;
    bool wide;

    DEVICE float at(int row, int column) const
    {
        const int64_t element = row * row_step + column * step;
        return wide ? load((const float *)data + element)
                    : to_float(load((const T *)data + element));
    }
};

/* Head h of batch b of an operand, as a matrix. */
template <class T>
DEVICE pair_matrix<T> head_of(const attn_cuda_view &view, int b, int h, int rows, bool wide)
{
    const int64_t start = place(view, b, h, 0);
    const void *data = wide ? (const void *)((const float *)view.data + start)
                            : (const void *)((const T *)view.data + start);
    return pair_matrix<T>{data, view.stride[2], view.stride[3], rows, wide};
}

/* Loads `count` rows from `first` on and `deep` columns from `column` on. Missing rows are zero.
 * Neighbouring lanes read neighbouring columns. */
template <class T>
DEVICE void fill_columns(uint32_t to, int count, const pair_matrix<T> &m, int first, int column,
                         int deep)
{
#pragma unroll 1 /* otherwise the addresses of all loads take registers */
    for (int n = thread_index(); n < count / 4 * PAIR_DEPTH; n += PAIR_THREADS) {
        const int d = n % PAIR_DEPTH, row = n / PAIR_DEPTH * 4;
        chunk four = {};
#pragma unroll
        for (int e = 0; e < 4; e++)
            if (d < deep && first + row + e < m.rows)
                four.word[e] = bits_of(m.at(first + row + e, column + d));
        store_shared(to + (uint32_t)((d * (count + 4) + row) * 4), four);
    }
}

/* s = the sums over `depth` columns, for rows from first_x and first_y on. ADDITIVE reads w. All
 * threads of the block must come here together. */
template <class T, bool ADDITIVE>
DEVICE void sum_pairs(float (&s)[4][4], const pair_matrix<T> &x, int first_x,
                      const pair_matrix<T> &y, int first_y, const pair_matrix<T> &w, int depth)
{
    const uint32_t my_x = PAIR_X + (uint32_t)row_of_thread() * 4;
    const uint32_t my_y = PAIR_Y + (uint32_t)key_of_thread() * 4;
#pragma unroll
    for (int r = 0; r < 4; r++)
#pragma unroll
        for (int c = 0; c < 4; c++)
            s[r][c] = 0;
    for (int column = 0; column < depth; column += PAIR_DEPTH) {
        const bool whole = depth - column >= PAIR_DEPTH || PLANTED(past_depth);
        const int deep = whole ? PAIR_DEPTH : depth - column;
        barrier(); /* nobody reads the previous columns any more */
        fill_columns(PAIR_X, PAIR_ROWS, x, first_x, column, deep);
        fill_columns(PAIR_Y, PAIR_KEYS, y, first_y, column, deep);
        if (ADDITIVE && thread_index() < deep)
            store_shared(PAIR_W + (uint32_t)thread_index() * X_STEP,
                         chunk{{bits_of(w.at(0, column + thread_index())), 0, 0, 0}});
        if (!PLANTED(unfilled))
            barrier(); /* they are loaded for all */
#pragma unroll 1       /* 16 pairs are enough work at a time */
        for (uint32_t d = 0; d < (uint32_t)deep; d++) {
            const chunk xs = load_shared(my_x + d * X_STEP), ys = load_shared(my_y + d * Y_STEP);
            const float weight =
                ADDITIVE ? value_of(load_shared(PAIR_W + d * X_STEP).word[0]) : 0.0f;
#pragma unroll
            for (int r = 0; r < 4; r++)
#pragma unroll
                for (int c = 0; c < 4; c++) {
                    const float left = value_of(xs.word[r]), right = value_of(ys.word[c]);
                    s[r][c] = ADDITIVE ? fmaf(weight, tanhf(left + right), s[r][c])
                                       : fmaf(left, right, s[r][c]);
                }
        }
    }
}

#endif
