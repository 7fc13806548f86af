/* SPDX-License-Identifier: Apache-2.0 */
/* backward_pairs.h - gradients in plain f32 over tiles of pairs, flash style: scores are computed
 * again from q, k and LSE, a tile at a time. A block owns what it sums, so that nothing needs an
 * atomic addition.
 *
 *   x     the PAIR_ROWS rows that the block owns: queries of a head for dq, keys for dk and dv
 *   y     what it goes through, PAIR_KEYS rows at a time: keys for dq; for dk and dv queries, of
 *         all heads of the group
 *   s, dp [4 x 4] of a thread: q . k and dO . v
 *   W     [PAIR_KEYS x PAIR_ROWS] in shared memory: dZ, or p kappa for dv, or NOT_ALLOWED
 *   sums  of a warp's 8 rows of x, lane + 32 c is a column */
#ifndef ATTN_CUDA_BACKWARD_PAIRS_H
#define ATTN_CUDA_BACKWARD_PAIRS_H

#include "backward_row.h"
#include "pair_tile.h"

/* s = q k^T and dp = dO v^T of head h. The block has queries in x and keys in y, or the reverse. */
template <class T> struct backward_products {
    pair_matrix<T> q, k, dout, v;

    DEVICE backward_products(const attn_cuda_args &a, int b, int h)
        : q(head_of<T>(a.q, b, h, a.sq, false)),
          k(head_of<T>(a.k, b, h / (a.hq / a.hkv), a.sk, false)),
          dout(head_of<T>(a.dout, b, h, a.sq, false)),
          v(head_of<T>(a.v, b, h / (a.hq / a.hkv), a.sk, false))
    {
    }
};

template <class T> struct backward_pairs {
    static constexpr uint32_t W = PAIR_END, W_STEP = X_STEP;

    const attn_cuda_args &a;
    int lane, warp_row; /* warp_row: the first row of x of this warp, within the block */
    float s[4][4], dp[4][4] = {};
    float sums[WARP_ROWS][ROW_COLUMNS] = {};

    DEVICE explicit backward_pairs(const attn_cuda_args &args) : a(args)
    {
        lane = thread_index() % WARP;
        warp_row = thread_index() / WARP * WARP_ROWS;
    }

    DEVICE void multiply(const pair_matrix<T> &x, const pair_matrix<T> &dx, int first_x,
                         const pair_matrix<T> &y, const pair_matrix<T> &dy, int first_y,
                         bool wants_dp)
    {
        sum_pairs<T, false>(s, x, first_x, y, first_y, y, a.dk);
        if (wants_dp)
            sum_pairs<T, false>(dp, dx, first_x, dy, first_y, dy, a.dv);
    }

    /* W[y][x] = s */
    DEVICE void store_weights()
    {
#pragma unroll
        for (int c = 0; c < 4; c++)
            store_shared(
                W + (uint32_t)(key_of_thread() + c) * W_STEP + (uint32_t)row_of_thread() * 4,
                chunk{{bits_of(s[0][c]), bits_of(s[1][c]), bits_of(s[2][c]), bits_of(s[3][c])}});
    }

    /* sums += W^T y, for rows of y from `first` on. */
    DEVICE void add_products(const pair_matrix<T> &y, int first, int width)
    {
        const int count = y.rows - first < PAIR_KEYS ? y.rows - first : PAIR_KEYS;
        barrier(); /* W is complete */
#pragma unroll 1
        for (int n = 0; n < count; n++) {
            const uint32_t at = W + (uint32_t)n * W_STEP + (uint32_t)warp_row * 4;
            const chunk w[2] = {load_shared(at), load_shared(at + 16)};
#pragma unroll
            for (int c = 0; c < ROW_COLUMNS; c++) {
                if (c * WARP + lane >= width)
                    continue;
                const float value = y.at(first + n, c * WARP + lane);
#pragma unroll
                for (int r = 0; r < WARP_ROWS; r++)
                    if (w[r / 4].word[r % 4] != NOT_ALLOWED)
                        sums[r][c] = fmaf(value_of(w[r / 4].word[r % 4]), value, sums[r][c]);
            }
        }
    }

    /* Rows of head h from `first` on, below `end`. */
    DEVICE void store_sums(const attn_cuda_view &view, int b, int h, int first, int end, int width,
                           float factor)
    {
#pragma unroll
        for (int r = 0; r < WARP_ROWS; r++) {
            const int n = first + warp_row + r;
#pragma unroll
            for (int c = 0; c < ROW_COLUMNS; c++) {
                T rounded;
                narrow(sums[r][c] * factor, rounded);
                if (n < end && c * WARP + lane < width)
                    store((T *)view.data + place(view, b, h, n) +
                              (c * WARP + lane) * view.stride[3],
                          rounded);
            }
        }
    }

    /* Kernel: dq of PAIR_ROWS rows of a head, and what each adds to the gradient of its slope. */
    DEVICE static void queries(const attn_cuda_args &a)
    {
        backward_pairs tile(a);
        const int blocks = (a.sq + PAIR_ROWS - 1) / PAIR_ROWS;
        /* the last rows come first: under a causal mask they take longest */
        const int first = (blocks - 1 - block_x() % blocks) * PAIR_ROWS;
        const int h = block_x() / blocks % a.hq, b = block_x() / blocks / a.hq;
        const backward_products<T> of(a, b, h);
        backward_row rows[4];
        float slopes[4] = {};
        int lo = a.sk, hi = 0; /* keys that some row sees */
        for (int i = first; i < first + PAIR_ROWS && i < a.sq; i++) {
            const row r = make_row(a, b, h, i);
            lo = r.lo < r.hi && r.lo < lo ? r.lo : lo;
            hi = r.hi > hi ? r.hi : hi;
        }
#pragma unroll
        for (int r = 0; r < 4; r++)
            rows[r] = make_backward_row(a, b, h, first + row_of_thread() + r);
        for (int key = lo; key < hi; key += PAIR_KEYS) {
            tile.multiply(of.q, of.dout, first, of.k, of.v, key, true);
            tile.descend(b, rows, key, slopes);
            tile.store_weights();
            pair_matrix<T> seen = of.k;
            seen.rows = hi;
            tile.add_products(seen, key, a.dk);
        }
        if (a.grad_q.data)
            tile.store_sums(a.grad_q, b, h, first, a.sq, a.dk, a.scale);
        if (!a.slopes)
            return;
#pragma unroll
        for (int r = 0; r < 4; r++) {
            for (int step = 8; step > 0; step /= 2)
                slopes[r] += shuffle_xor(slopes[r], step);
            if (tile.lane % 16 == 0 && rows[r].keys.i < a.sq)
                store(a.slopes + row_number(a, b, h, rows[r].keys.i), slopes[r]);
        }
    }

    /* s becomes dZ of rows of x and keys of y. */
    DEVICE void descend(int b, const backward_row (&rows)[4], int key, float (&slopes)[4])
    {
#pragma unroll
        for (int r = 0; r < 4; r++)
#pragma unroll
            for (int c = 0; c < 4; c++) {
                const int j = key + key_of_thread() + c;
                if (a.slopes) {
                    const int distance = rows[r].keys.i + mask_offset(a, b) - j;
                    const float ds = backward_cell<T>(a, b, rows[r], j, s[r][c], dp[r][c], CELL_DS);
                    if (bits_of(ds) != NOT_ALLOWED)
                        slopes[r] =
                            fmaf(ds, (float)(distance < 0 ? -distance : distance), slopes[r]);
                }
                s[r][c] = backward_cell<T>(a, b, rows[r], j, s[r][c], dp[r][c], CELL_DZ);
            }
    }

    /* Do any of the keys from `key` on lie within sight of rows `first` .. `first` + PAIR_KEYS - 1.
     * Every warp finds the same. */
    DEVICE static bool meets(const attn_cuda_args &a, int b, int h, int first, int key)
    {
        bool sees = false;
#pragma unroll
        for (int n = 0; n < PAIR_KEYS; n += WARP) {
            const int i = first + n + thread_index() % WARP;
            const row r = i < a.sq ? make_row(a, b, h, i) : row{i, h, 0, 0};
            sees |= r.lo < key + PAIR_ROWS && r.hi > key;
        }
        return lanes_where(sees);
    }

    /* Kernel: dk (z = 0), or dv (the last z), of PAIR_ROWS keys of a key/value head. */
    DEVICE static void keys(const attn_cuda_args &a)
    {
        backward_pairs tile(a);
        const int blocks = (a.sk + PAIR_ROWS - 1) / PAIR_ROWS, group = a.hq / a.hkv;
        const int first = block_x() % blocks * PAIR_ROWS;
        const int head = block_x() / blocks % a.hkv, b = block_x() / blocks / a.hkv;
        const bool values = !a.grad_k.data || block_z() == 1;
#pragma unroll 1
        for (int h = head * group; h < head * group + (PLANTED(heads) ? 1 : group); h++) {
            const backward_products<T> of(a, b, h);
#pragma unroll 1
            for (int i = 0; i < a.sq; i += PAIR_KEYS) {
                if (!meets(a, b, h, i, first))
                    continue;
                tile.multiply(of.k, of.v, first, of.q, of.dout, i, !values);
                tile.ascend(b, h, i, first, values ? CELL_P : CELL_DZ);
                tile.store_weights();
                tile.add_products(head_of<T>(values ? a.dout : a.q, b, h, a.sq, false), i,
                                  values ? a.dv : a.dk);
            }
        }
        if (values)
            tile.store_sums(a.grad_v, b, head, first, a.sk, a.dv, 1);
        else
            tile.store_sums(a.grad_k, b, head, first, a.sk, a.dk, a.scale);
    }

    /* s becomes what is wanted of keys of x and rows of y. */
    DEVICE void ascend(int b, int h, int i, int key, cell_value wanted)
    {
#pragma unroll
        for (int c = 0; c < 4; c++) {
            const backward_row r = make_backward_row(a, b, h, i + key_of_thread() + c);
#pragma unroll
            for (int x = 0; x < 4; x++)
                s[x][c] =
                    backward_cell<T>(a, b, r, key + row_of_thread() + x, s[x][c], dp[x][c], wanted);
        }
    }
};

/* The gradient of the bias. A block owns a tile of its elements and goes through all cells that
 * share them, axis by axis. */
template <class T> struct backward_bias {
    /* Indices of an axis: one of the gradient, or all that the bias is broadcast to. */
    struct axis {
        int first, end;
    };

    DEVICE static axis cells_of(int extent, int at, int count, int all)
    {
        if (extent == 1)
            return axis{0, all};
        return axis{at, at + count < all ? at + count : all};
    }

    DEVICE static void add_cells(backward_pairs<T> &tile, float (&sums)[4][4], int b, int h, int i,
                                 int j)
    {
        const attn_cuda_args &a = tile.a;
        const backward_products<T> of(a, b, h);
        tile.multiply(of.q, of.dout, i, of.k, of.v, j, true);
#pragma unroll
        for (int r = 0; r < 4; r++) {
            const backward_row row = make_backward_row(a, b, h, i + row_of_thread() + r);
#pragma unroll
            for (int c = 0; c < 4; c++) {
                const float ds = backward_cell<T>(a, b, row, j + key_of_thread() + c, tile.s[r][c],
                                                  tile.dp[r][c], CELL_DS);
                if (bits_of(ds) != NOT_ALLOWED)
                    sums[r][c] += ds;
            }
        }
    }

    DEVICE static float weight_at(int x, int y)
    {
        const chunk four =
            load_shared(backward_pairs<T>::W + (uint32_t)y * backward_pairs<T>::W_STEP +
                        (uint32_t)(x / 4 * 16));
        /* an index that is not known would put the chunk on the stack */
        return value_of(x % 4 == 0   ? four.word[0]
                        : x % 4 == 1 ? four.word[1]
                        : x % 4 == 2 ? four.word[2]
                                     : four.word[3]);
    }

    /* The sum of the tile's rows, and of its keys, where these are broadcast, for element (r, c).
     */
    DEVICE static float gather(const attn_cuda_args &a, int r, int c)
    {
        const int rows = a.bias_extent[2] == 1 ? PAIR_ROWS : 1;
        const int keys = a.bias_extent[3] == 1 ? PAIR_KEYS : 1;
        float sum = 0;
        for (int x = r; x < r + rows; x++)
            for (int y = c; y < c + keys; y++)
                sum += weight_at(x, y);
        return sum;
    }

    /* Kernel. */
    DEVICE static void run(const attn_cuda_args &a)
    {
        backward_pairs<T> tile(a);
        const int row_blocks = (a.bias_extent[2] + PAIR_ROWS - 1) / PAIR_ROWS;
        const int key_blocks = (a.bias_extent[3] + PAIR_KEYS - 1) / PAIR_KEYS;
        const int block = block_x() / key_blocks;
        const int i = block % row_blocks * PAIR_ROWS, j = block_x() % key_blocks * PAIR_KEYS;
        const int h = block / row_blocks % a.bias_extent[1],
                  b = block / row_blocks / a.bias_extent[1];
        const axis batches = cells_of(a.bias_extent[0], b, 1, a.b);
        const axis heads = cells_of(a.bias_extent[1], h, 1, a.hq);
        const axis rows = cells_of(a.bias_extent[2], i, PAIR_ROWS, a.sq);
        const axis keys = cells_of(a.bias_extent[3], j, PAIR_KEYS, a.sk);
        float sums[4][4] = {};
        for (int eb = batches.first; eb < batches.end; eb++)
            for (int eh = heads.first; eh < heads.end; eh++)
                for (int ei = rows.first; ei < rows.end; ei += PAIR_ROWS)
#pragma unroll 1
                    for (int ej = keys.first; ej < keys.end; ej += PAIR_KEYS)
                        add_cells(tile, sums, eb, eh, ei, ej);
#pragma unroll
        for (int r = 0; r < 4; r++)
#pragma unroll
            for (int c = 0; c < 4; c++)
                tile.s[r][c] = sums[r][c];
        tile.store_weights();
        barrier(); /* W is complete */
        for (int n = thread_index(); n < PAIR_ROWS * PAIR_KEYS; n += PAIR_THREADS) {
            const int r = n / PAIR_KEYS, c = n % PAIR_KEYS;
            if (i + r < a.bias_extent[2] && j + c < a.bias_extent[3])
                store((float *)a.grad_bias.data + place(a.grad_bias, b, h, i + r) +
                          (j + c) * a.grad_bias.stride[3],
                      gather(a, r, c));
        }
    }
};

#endif
