/* SPDX-License-Identifier: Apache-2.0 */
/* backward_tile.h - gradients on tensor cores. A block owns OWNED rows of x and goes through y,
 * STEP rows at a time:
 *
 *   of dq         x, dx = q, dO    y, dy = k, v      adds dS k
 *   of dk and dv  x, dx = k, v     y, dy = q, dO     adds dS^T q and p^T dO
 *
 *   rows   the query heads of a group, interleaved, as in flash_tile.h: row n is query n / group of
 *          head n % group. So the blocks of keys add up the heads of a group by themselves.
 *   s, dp  [16 x STEP] of a warp, in registers: x y^T and dx dy^T. They become p and dS. Rounded,
 *          they are the A operands of the products with dy and y, element for element.
 *   sums   [16 x WIDTH] of a warp, in registers */
#ifndef ATTN_CUDA_BACKWARD_TILE_H
#define ATTN_CUDA_BACKWARD_TILE_H

#include "backward_row.h"
#include "chunks.h"

/* One row of x by itself, in plain f32 FMA, by a warp: dq of a row, or dk and dv of a key. It reads
 * no value of a cell that is not allowed, so it repairs the 0 * NaN of the tensor cores. */
template <class T, bool KEYS>
DEVICE_CALL void backward_alone(const attn_cuda_args &a, int b, int head, int n)
{
    const int lane = thread_index() % WARP, group = a.hq / a.hkv;
    const int end = KEYS ? a.sq * group : a.sk;
    float sums[ROW_COLUMNS] = {}, values[ROW_COLUMNS] = {};
    for (int first = 0; first < end; first += WARP) {
        const int other = first + lane, query = KEYS ? other : n;
        const int h = head * group + query % group, i = query / group;
        const int j = KEYS ? n : other;
        float ds = value_of(NOT_ALLOWED), p = 0;
        const backward_row r = make_backward_row(a, b, h, i);
        if (cell_allowed<T>(a, b, r.keys, j)) {
            const T *q = (const T *)a.q.data + place(a.q, b, h, i);
            const T *k = (const T *)a.k.data + place(a.k, b, head, j);
            const T *dout = (const T *)a.dout.data + place(a.dout, b, h, i);
            const T *v = (const T *)a.v.data + place(a.v, b, head, j);
            float product = 0, dp = 0;
            for (int c = 0; c < a.dk; c++)
                product = fmaf(to_float(load(q + c * a.q.stride[3])),
                               to_float(load(k + c * a.k.stride[3])), product);
            for (int c = 0; c < a.dv; c++)
                dp = fmaf(to_float(load(dout + c * a.dout.stride[3])),
                          to_float(load(v + c * a.v.stride[3])), dp);
            ds = backward_cell<T>(a, b, r, j, product, dp, CELL_DZ);
            p = backward_cell<T>(a, b, r, j, product, dp, CELL_P);
        }
        for (uint32_t seen = lanes_where(bits_of(ds) != NOT_ALLOWED); seen; seen &= seen - 1) {
            const int at = lowest_bit(seen), y = first + at;
            const float weight = shuffle(ds, at), by = shuffle(p, at);
            const int yh = head * group + y % group;
            const T *row = KEYS ? (const T *)a.q.data + place(a.q, b, yh, y / group)
                                : (const T *)a.k.data + place(a.k, b, head, y);
            const int64_t step = KEYS ? a.q.stride[3] : a.k.stride[3];
            const T *dout = (const T *)a.dout.data + (KEYS ? place(a.dout, b, yh, y / group) : 0);
#pragma unroll
            for (int c = 0; c < ROW_COLUMNS; c++) {
                const int column = c * WARP + lane;
                if (column < a.dk)
                    sums[c] = fmaf(weight, to_float(load(row + column * step)), sums[c]);
                if (KEYS && column < a.dv)
                    values[c] =
                        fmaf(by, to_float(load(dout + column * a.dout.stride[3])), values[c]);
            }
        }
    }
    const attn_cuda_view &by_score = KEYS ? a.grad_k : a.grad_q;
    const int h = KEYS ? head : head * group + n % group, row = KEYS ? n : n / group;
    T rounded;
#pragma unroll
    for (int c = 0; c < ROW_COLUMNS; c++) {
        const int column = c * WARP + lane;
        if (column < a.dk && by_score.data) {
            narrow(sums[c] * a.scale, rounded);
            store((T *)by_score.data + place(by_score, b, h, row) + column * by_score.stride[3],
                  rounded);
        }
        if (KEYS && column < a.dv && a.grad_v.data) {
            narrow(values[c], rounded);
            store((T *)a.grad_v.data + place(a.grad_v, b, h, row) + column * a.grad_v.stride[3],
                  rounded);
        }
    }
}

/* T: f16 or bf16. WIDTH: columns in registers and shared memory, at least dk and dv; columns beyond
 * them are zero. KEYS: the block owns keys. Masks are len, causal and window alone. */
template <class T, int WIDTH, int STEP, bool KEYS> struct backward_tile {
    static constexpr int WARPS = ATTN_CUDA_BACKWARD_WARPS, OWNED = 16 * WARPS;
    static constexpr int THREADS = WARP * WARPS, CHUNKS = WIDTH / 8, ROW_BYTES = WIDTH * 2;
    static constexpr int ROWS = KEYS ? STEP : OWNED; /* query rows that are known at a time */
    /* y, dy and, if they are queries, what is known of them are there twice. */
    static constexpr uint32_t X = 0, DX = OWNED * ROW_BYTES, Y = 2 * OWNED * ROW_BYTES,
                              HALF = STEP * ROW_BYTES, INFO = Y + 4 * HALF;

    const attn_cuda_args &a;
    int b, head, first, rows, group; /* rows: query rows of this key/value head */
    int warp, lane, lo, hi;          /* lo, hi: keys that some row of x sees, if x are queries */
    float s[STEP / 8][4], dp[STEP / 8][4];
    float sums[WIDTH / 8][4] = {}, values[KEYS ? WIDTH / 8 : 1][4] = {};

    /* What a cell needs of its query row. */
    struct known {
        int lo, hi;
        float lse, delta;
    };

    DEVICE explicit backward_tile(const attn_cuda_args &args) : a(args)
    {
        group = a.hq / a.hkv;
        rows = a.sq * group;
        const int blocks = ((KEYS ? a.sk : rows) + OWNED - 1) / OWNED;
        const int block = block_x() % blocks;
        /* the blocks that take longest under a causal mask come first */
        first = (KEYS ? block : blocks - 1 - block) * OWNED;
        head = block_x() / blocks % a.hkv;
        b = block_x() / blocks / a.hkv;
        warp = thread_index() / WARP;
        lane = thread_index() % WARP;
        lo = 0, hi = a.sk;
    }

    DEVICE static uint32_t at(uint32_t tile, int row, int chunk_index)
    {
        return chunk_at<CHUNKS>(tile, row, chunk_index);
    }

    DEVICE known info(int buffer, int local) const
    {
        const chunk c = load_shared(INFO + (uint32_t)(buffer * ROWS + local) * 16);
        return known{(int)c.word[0], (int)c.word[1], value_of(c.word[2]), value_of(c.word[3])};
    }

    /* Query rows from `from` on. Rows past the end see no key. */
    DEVICE void learn_rows(int buffer, int from)
    {
        for (int local = thread_index(); local < ROWS; local += THREADS) {
            const int n = from + local;
            backward_row r = {{0, 0, 0, 0}, 0, 0};
            if (n < rows)
                r = make_backward_row(a, b, head * group + n % group, n / group);
            store_shared(INFO + (uint32_t)(buffer * ROWS + local) * 16,
                         chunk{{(uint32_t)r.keys.lo, (uint32_t)r.keys.hi, bits_of(r.lse),
                                bits_of(r.delta)}});
        }
        barrier();
    }

    /* Rows of q or dO. Rows that see none of the keys at hand become zero: what they hold
     * stays out of the products. */
    DEVICE void load_queries(uint32_t tile, const attn_cuda_view &view, int width, bool wide,
                             int buffer, int from)
    {
        for (int n = thread_index(); n < ROWS * CHUNKS; n += THREADS) {
            const int local = n / CHUNKS, index = from + local;
            const known r = info(buffer, local);
            const bool present =
                KEYS ? r.lo < first + OWNED && r.hi > first && r.lo < r.hi : r.lo < r.hi;
            const int at_row = present ? index : 0;
            const T *row = (const T *)view.data +
                           place(view, b, head * group + at_row % group, at_row / group);
            load_chunk(at(tile, local, n % CHUNKS), row, view.stride[3], n % CHUNKS * 8, width,
                       wide, present);
        }
    }

    /* Rows of k or v. Keys that no row of the block sees become zero. */
    DEVICE void load_keys(uint32_t tile, const attn_cuda_view &view, int width, bool wide, int from)
    {
        for (int n = thread_index(); n < (KEYS ? OWNED : STEP) * CHUNKS; n += THREADS) {
            const int local = n / CHUNKS, j = from + local;
            const bool present = j >= lo && (j < hi || PLANTED(past_keys));
            const T *row = (const T *)view.data + place(view, b, head, present ? j : lo);
            load_chunk(at(tile, local, n % CHUNKS), row, view.stride[3], n % CHUNKS * 8, width,
                       wide, present);
        }
    }

    DEVICE void load_owned()
    {
        if (KEYS) {
            load_keys(X, a.k, a.dk, a.flags & ATTN_CUDA_WIDE_K, first);
            load_keys(DX, a.v, a.dv, a.flags & ATTN_CUDA_WIDE_V, first);
        } else {
            load_queries(X, a.q, a.dk, a.flags & ATTN_CUDA_WIDE_Q, 0, first);
            load_queries(DX, a.dout, a.dv, a.flags & ATTN_CUDA_WIDE_DOUT, 0, first);
        }
    }

    DEVICE void load_step(int buffer, int from)
    {
        const uint32_t y = Y + (uint32_t)buffer * 2 * HALF;
        if (KEYS) {
            learn_rows(buffer, from);
            load_queries(y, a.q, a.dk, a.flags & ATTN_CUDA_WIDE_Q, buffer, from);
            load_queries(y + HALF, a.dout, a.dv, a.flags & ATTN_CUDA_WIDE_DOUT, buffer, from);
        } else {
            load_keys(y, a.k, a.dk, a.flags & ATTN_CUDA_WIDE_K, from);
            load_keys(y + HALF, a.v, a.dv, a.flags & ATTN_CUDA_WIDE_V, from);
        }
    }

    /* s = x y^T and dp = dx dy^T */
    DEVICE void multiply_owned(uint32_t y)
    {
#pragma unroll
        for (int n = 0; n < STEP / 8; n++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                s[n][e] = dp[n][e] = 0;
                /* not unrolled further: addresses would take the registers of the sums */
#pragma unroll 2
        for (int c = 0; c < WIDTH / 16; c++) {
            uint32_t x[4], dx[4];
            load_matrices(x, at(X, warp * 16 + lane % 16, c * 2 + lane / 16));
            load_matrices(dx, at(DX, warp * 16 + lane % 16, c * 2 + lane / 16));
#pragma unroll
            for (int n = 0; n < STEP / 16; n++) {
                /* rows 0-7 and 8-15 of this step, columns 0-7 and 8-15 of each */
                const int row = n * 16 + lane / 16 * 8 + lane % 8, column = c * 2 + lane / 8 % 2;
                uint32_t other[4];
                load_matrices(other, at(y, row, column));
                multiply_add(T(), s[2 * n], x, other[0], other[1]);
                multiply_add(T(), s[2 * n + 1], x, other[2], other[3]);
                load_matrices(other, at(y + HALF, row, column));
                multiply_add(T(), dp[2 * n], dx, other[0], other[1]);
                multiply_add(T(), dp[2 * n + 1], dx, other[2], other[3]);
            }
        }
    }

    DEVICE void weigh(const known &r, int j, float unit, float &score, float &ds) const
    {
        const bool allowed = j >= r.lo && j < r.hi;
        const float p = exp2_fast(fmaf(score, unit, -r.lse));
        score = allowed ? p : 0.0f;
        ds = allowed ? p * (ds - r.delta) : 0.0f;
    }

    /* s becomes p, dp becomes dS. */
    DEVICE void descend(int buffer, int from)
    {
        const float unit = a.scale * LOG2E;
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int owned = warp * 16 + half * 8 + lane / 4;
            const known own = KEYS ? known{0, 0, 0, 0} : info(0, owned);
#pragma unroll
            for (int n = 0; n < STEP / 8; n++)
#pragma unroll
                for (int e = 0; e < 2; e++) {
                    const int other = n * 8 + lane % 4 * 2 + e;
                    const known r = KEYS ? info(buffer, other) : own;
                    weigh(r, KEYS ? first + owned : from + other, unit, s[n][half * 2 + e],
                          dp[n][half * 2 + e]);
                }
        }
    }

    /* w as the A operand: 16 owned rows, rows 16 n to 16 n + 15 of y */
    DEVICE static void pack_weights(uint32_t (&to)[4], const float (&w)[STEP / 8][4], int n)
    {
        to[0] = pack(T(), w[2 * n][0], w[2 * n][1]);
        to[1] = pack(T(), w[2 * n][2], w[2 * n][3]);
        to[2] = pack(T(), w[2 * n + 1][0], w[2 * n + 1][1]);
        to[3] = pack(T(), w[2 * n + 1][2], w[2 * n + 1][3]);
    }

    /* sums += dS y, values += p dy */
    DEVICE void add_products(uint32_t y)
    {
#pragma unroll
        for (int n = 0; n < STEP / 16; n++) {
            uint32_t ds[4], p[4];
            pack_weights(ds, dp, n);
            pack_weights(p, s, n);
#pragma unroll
            for (int c = 0; c < WIDTH / 16; c++) {
                /* columns 0-7 and 8-15 of this step, rows 0-7 and 8-15 of each */
                uint32_t other[4];
                load_matrices_transposed(other, at(y, n * 16 + lane % 16, c * 2 + lane / 16));
                multiply_add(T(), sums[2 * c], ds, other[0], other[1]);
                multiply_add(T(), sums[2 * c + 1], ds, other[2], other[3]);
                if (KEYS) {
                    load_matrices_transposed(other,
                                             at(y + HALF, n * 16 + lane % 16, c * 2 + lane / 16));
                    multiply_add(T(), values[2 * c], p, other[0], other[1]);
                    multiply_add(T(), values[2 * c + 1], p, other[2], other[3]);
                }
            }
        }
    }

    /* Does a row of y from `from` on see an owned key. Every warp finds the same. */
    DEVICE bool meets(int from) const
    {
        bool sees = false;
#pragma unroll
        for (int n = 0; n < STEP; n += WARP) {
            const int row = from + n + lane;
            if (row < rows) {
                const ::row r = make_row(a, b, head * group + row % group, row / group);
                sees |= r.lo < first + OWNED && r.hi > first && r.lo < r.hi;
            }
        }
        return lanes_where(sees);
    }

    /* The first step from `from` on that has something to add; `end` or more if there is none. */
    DEVICE int next_step(int from, int end) const
    {
        while (KEYS && from < end && !meets(from))
            from += STEP;
        return from;
    }

    /* The keys that the owned rows see. */
    DEVICE void survey()
    {
        learn_rows(0, first);
        lo = a.sk, hi = 0;
        for (int local = 0; local < ROWS; local++) {
            const known r = info(0, local);
            lo = r.lo < r.hi && r.lo < lo ? r.lo : lo;
            hi = r.hi > hi ? r.hi : hi;
        }
    }

    /* The next step is loaded while one is computed. */
    DEVICE void descend_all()
    {
        if (!KEYS)
            survey();
        const int end = KEYS ? rows : hi;
        int from = next_step(KEYS ? 0 : lo / STEP * STEP, end), buffer = 0;
        if (from >= end)
            return; /* nothing is loaded for which nobody would wait */
        load_owned();
        load_step(0, from);
        copy_commit();
        while (from < end) {
            const int next = next_step(from + STEP, end);
            const uint32_t y = Y + (uint32_t)buffer * 2 * HALF;
            if (next < end)
                load_step(buffer ^ 1, next);
            copy_commit();
            if (!PLANTED(copy_wait))
                copy_wait<1>();
            barrier(); /* this step is loaded for all */
            multiply_owned(y);
            descend(buffer, from);
            add_products(y);
            if (!PLANTED(barrier))
                barrier(); /* nobody reads this step any more */
            from = next;
            buffer ^= 1;
        }
    }

    /* Stores a row of the block. False if a value is not finite. */
    DEVICE bool store_row(const attn_cuda_view &view, const float (&from)[WIDTH / 8][4], int half,
                          int h, int n, int width, float factor)
    {
        bool finite = true;
        if (!view.data)
            return true;
        T *to = (T *)view.data + place(view, b, h, n);
#pragma unroll
        for (int c = 0; c < WIDTH / 8; c++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                const int column = c * 8 + lane % 4 * 2 + e;
                const float value = from[c][half * 2 + e] * factor;
                if (column >= width)
                    continue;
                finite = finite && fabsf(value) < INFINITY;
                T rounded;
                narrow(value, rounded);
                store(to + column * view.stride[3], rounded);
            }
        return finite;
    }

    DEVICE bool store_owned(int half, int n)
    {
        if constexpr (KEYS) {
            const bool finite = store_row(a.grad_k, sums, half, head, n, a.dk, a.scale);
            return store_row(a.grad_v, values, half, head, n, a.dv, 1) && finite;
        } else {
            return store_row(a.grad_q, sums, half, head * group + n % group, n / group, a.dk,
                             a.scale);
        }
    }

    /* Stores all rows. Computes one again if 0 * NaN or 0 * Inf of what it does not see may have
     * spoiled it, or if a weight has left the range of its type. */
    DEVICE void finish()
    {
        uint32_t bad[2];
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int n = first + warp * 16 + half * 8 + lane / 4;
            const bool finite = n >= (KEYS ? a.sk : rows) || store_owned(half, n);
            bad[half] = lanes_where(!finite && !PLANTED(repair));
        }
        if ((bad[0] | bad[1]) && !PLANTED(meeting))
            warp_barrier(); /* other lanes must have stored before a row is stored again */
#pragma unroll
        for (int half = 0; half < 2; half++)
            while (bad[half]) {
                const int g = lowest_bit(bad[half]) / 4;
                bad[half] &= ~(0xfu << g * 4);
                backward_alone<T, KEYS>(a, b, head, first + warp * 16 + half * 8 + g);
            }
    }

    DEVICE static void run(const attn_cuda_args &args)
    {
        backward_tile tile(args);
        tile.descend_all();
        tile.finish();
    }
};

#endif
