/* SPDX-License-Identifier: Apache-2.0 */
/* flash_tile.h - flash attention on tensor cores. A block computes ROWS query rows of one key/value
 * head, in tiles of KEYS keys. README.md has a picture. NOTES.md says why the tiles have these
 * sizes.
 *
 *   rows   the query heads of a group, interleaved: row r is query r / group of head r % group
 *   s, p   [16*MT x KEYS] of a warp, in registers: the accumulators of q k^T become the A
 *          operand of p v, element for element
 *   o      [16*MT x WIDTH] of a warp, in registers
 *   lane   with g = lane/4 and t = lane%4: it holds rows g and g+8, columns 2t and 2t+1, of each
 *          16x8 accumulator */
#ifndef ATTN_CUDA_FLASH_TILE_H
#define ATTN_CUDA_FLASH_TILE_H

#include "chunks.h"
#include "flash_row.h"

/* T: f16 or bf16. WIDTH: columns in registers and shared memory, at least dk and dv; columns beyond
 * them are zero. MT: 16-row tiles per warp. MASKED: scores go through cell_score; otherwise there
 * are only len, causal and window, and a positive scale. */
template <class T, int WIDTH, int MT, int WARPS, int KEYS, bool MASKED> struct flash_tile {
    static constexpr int ROWS = 16 * MT * WARPS, THREADS = WARP * WARPS;
    static constexpr int CHUNKS = WIDTH / 8; /* of 16 bytes, in a row of shared memory */
    static constexpr uint32_t Q = 0, K = ROWS * WIDTH * 2, V = K + KEYS * WIDTH * 2,
                              INFO = V + KEYS * WIDTH * 2; /* struct row of each row */

    const attn_cuda_args &a;
    int b, head, first, rows, group; /* rows: rows of this key/value head, over all blocks */
    int warp, lane;
    int lo, hi, all_lo, all_hi; /* keys that some row sees; keys that all rows see */
    float o[MT][WIDTH / 8][4] = {}, s[MT][KEYS / 8][4];
    float maximum[MT][2], sum[MT][2];

    DEVICE explicit flash_tile(const attn_cuda_args &args) : a(args)
    {
        group = a.hq / a.hkv;
        rows = a.sq * group;
        const int blocks = (rows + ROWS - 1) / ROWS;
        /* the last rows come first: under a causal mask they take longest */
        first = (blocks - 1 - block_x() % blocks) * ROWS;
        head = block_x() / blocks % a.hkv;
        b = block_x() / blocks / a.hkv;
        warp = thread_index() / WARP;
        lane = thread_index() % WARP;
        for (int m = 0; m < MT; m++)
            for (int half = 0; half < 2; half++)
                maximum[m][half] = -INFINITY, sum[m][half] = 0;
    }

    DEVICE static uint32_t at(uint32_t tile, int row, int chunk_index)
    {
        return chunk_at<CHUNKS>(tile, row, chunk_index);
    }

    /* A block's row in this thread's accumulators. */
    DEVICE int local_row(int m, int half) const
    {
        return (warp * MT + m) * 16 + half * 8 + lane / 4;
    }

    DEVICE row info(int local) const
    {
        const chunk c = load_shared(INFO + (uint32_t)local * 16);
        return row{(int)c.word[0], (int)c.word[1], (int)c.word[2], (int)c.word[3]};
    }

    /* The keys that each row sees, and those that all rows see. Rows past the end see none and do
     * not count. */
    DEVICE void survey()
    {
        for (int local = thread_index(); local < ROWS; local += THREADS) {
            row r = {0, 0, 0, 0};
            if (first + local < rows)
                r = make_row(a, b, head * group + (first + local) % group, (first + local) / group);
            store_shared(INFO + (uint32_t)local * 16,
                         chunk{{(uint32_t)r.i, (uint32_t)r.h, (uint32_t)r.lo, (uint32_t)r.hi}});
        }
        barrier();
        lo = a.sk, hi = 0, all_lo = 0, all_hi = a.sk;
        const int present = rows - first < ROWS ? rows - first : ROWS;
        for (int local = 0; local < present; local++) {
            const row r = info(local);
            if (r.lo < r.hi) {
                lo = r.lo < lo ? r.lo : lo;
                hi = r.hi > hi ? r.hi : hi;
            }
            all_lo = r.lo > all_lo ? r.lo : all_lo;
            all_hi = r.hi < all_hi ? r.hi : all_hi;
        }
        const int start = block_z() * a.split_keys;
        lo = lo > start ? lo : start;
        hi = hi < start + a.split_keys ? hi : start + a.split_keys;
    }

    DEVICE void load_queries()
    {
        for (int n = thread_index(); n < ROWS * CHUNKS; n += THREADS) {
            const int local = n / CHUNKS, column = n % CHUNKS * 8;
            const bool present = first + local < rows;
            const int r = present ? first + local : 0;
            const T *from =
                (const T *)a.q.data + place(a.q, b, head * group + r % group, r / group);
            load_chunk(at(Q, local, n % CHUNKS), from, a.q.stride[3], column, a.dk,
                       a.flags & ATTN_CUDA_WIDE_Q, present);
        }
        copy_commit();
    }

    /* Loads KEYS rows of k or v. Keys that no row sees become zero, so that 0 * NaN stays out of
     * the product. */
    DEVICE void load_keys(uint32_t tile, const attn_cuda_view &view, int width, bool wide, int key)
    {
        for (int n = thread_index(); n < KEYS * CHUNKS; n += THREADS) {
            const int local = n / CHUNKS, j = key + local;
            const bool present = j >= lo && (j < hi || PLANTED(past_keys));
            const T *from = (const T *)view.data + place(view, b, head, present ? j : lo);
            load_chunk(at(tile, local, n % CHUNKS), from, view.stride[3], n % CHUNKS * 8, width,
                       wide, present);
        }
        copy_commit();
    }

    /* s = q k^T */
    DEVICE void multiply_queries()
    {
#pragma unroll
        for (int m = 0; m < MT; m++)
#pragma unroll
            for (int n = 0; n < KEYS / 8; n++)
                s[m][n][0] = s[m][n][1] = s[m][n][2] = s[m][n][3] = 0;
                /* not unrolled further: addresses would take the registers of o */
#pragma unroll 4
        for (int c = 0; c < WIDTH / 16; c++) {
            uint32_t q[MT][4];
#pragma unroll
            for (int m = 0; m < MT; m++)
                load_matrices(q[m], at(Q, (warp * MT + m) * 16 + lane % 16, c * 2 + lane / 16));
#pragma unroll
            for (int n = 0; n < KEYS / 16; n++) {
                /* keys 0-7 and 8-15 of this step, columns 0-7 and 8-15 of each */
                uint32_t k[4];
                load_matrices(k,
                              at(K, n * 16 + lane / 16 * 8 + (PLANTED(lane) ? lane / 2 : lane) % 8,
                                 c * 2 + lane / 8 % 2));
#pragma unroll
                for (int m = 0; m < MT; m++) {
                    multiply_add(T(), s[m][2 * n], q[m], k[0], k[1]);
                    multiply_add(T(), s[m][2 * n + 1], q[m], k[2], k[3]);
                }
            }
        }
    }

    DEVICE void mask_scores(int key)
    {
        if (!MASKED && key >= all_lo && key + KEYS <= all_hi)
            return; /* all rows see every key of this tile */
#pragma unroll
        for (int m = 0; m < MT; m++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const row r = info(local_row(m, half));
#pragma unroll
                for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
                    for (int e = 0; e < 2; e++) {
                        const int j = key + n * 8 + lane % 4 * 2 + e;
                        float &cell = s[m][n][half * 2 + e];
                        if (MASKED)
                            cell = j < hi ? cell_score<T>(a, b, r, j, cell) : -INFINITY;
                        else if (j < r.lo || j >= r.hi || j >= hi)
                            cell = -INFINITY;
                    }
            }
    }

    /* s becomes p = 2^(s * unit - maximum). Updates maximum, sum and o. */
    DEVICE void exponentiate(float unit)
    {
#pragma unroll
        for (int m = 0; m < MT; m++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                float top = s[m][0][half * 2];
#pragma unroll
                for (int n = 0; n < KEYS / 8; n++)
                    top = fmaxf(top, fmaxf(s[m][n][half * 2], s[m][n][half * 2 + 1]));
                top = fmaxf(top, shuffle_xor(top, 1));
                top = fmaxf(top, shuffle_xor(top, 2));
                /* rounded once per tile; the same number in every term of the row */
                const float largest = fmaxf(maximum[m][half], top * unit);
                const float shift = shift_of(largest);
                const float shrink = PLANTED(rescale) ? 1.0f : exp2_fast(maximum[m][half] - shift);
                float added = 0;
#pragma unroll
                for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
                    for (int e = half * 2; e < half * 2 + 2; e++) {
                        s[m][n][e] = exp2_fast(fmaf(s[m][n][e], unit, -shift));
                        added += s[m][n][e];
                    }
                maximum[m][half] = largest;
                sum[m][half] = sum[m][half] * shrink + added;
#pragma unroll
                for (int c = 0; c < WIDTH / 8; c++) {
                    o[m][c][half * 2] *= shrink;
                    o[m][c][half * 2 + 1] *= shrink;
                }
            }
    }

    /* o += p v */
    DEVICE void multiply_values()
    {
#pragma unroll
        for (int n = 0; n < KEYS / 16; n++) {
            uint32_t p[MT][4];
#pragma unroll
            for (int m = 0; m < MT; m++) {
                p[m][0] = pack(T(), s[m][2 * n][0], s[m][2 * n][1]);
                p[m][1] = pack(T(), s[m][2 * n][2], s[m][2 * n][3]);
                p[m][2] = pack(T(), s[m][2 * n + 1][0], s[m][2 * n + 1][1]);
                p[m][3] = pack(T(), s[m][2 * n + 1][2], s[m][2 * n + 1][3]);
            }
#pragma unroll
            for (int c = 0; c < WIDTH / 16; c++) {
                /* columns 0-7 and 8-15 of this step, keys 0-7 and 8-15 of each */
                uint32_t v[4];
                load_matrices_transposed(v, at(V, n * 16 + lane % 16, c * 2 + lane / 16));
#pragma unroll
                for (int m = 0; m < MT; m++) {
                    multiply_add(T(), o[m][2 * c], p[m], v[0], v[1]);
                    multiply_add(T(), o[m][2 * c + 1], p[m], v[2], v[3]);
                }
            }
        }
    }

    /* v of a tile is loaded while its scores are computed, and k of the next tile during p v. */
    DEVICE void attend()
    {
        const bool wide_k = a.flags & ATTN_CUDA_WIDE_K, wide_v = a.flags & ATTN_CUDA_WIDE_V;
        const float unit = MASKED ? LOG2E : a.scale * LOG2E;
        const int start = lo / KEYS * KEYS;
        if (lo >= hi)
            return; /* nothing is loaded for which nobody would wait */
        load_queries();
        load_keys(K, a.k, a.dk, wide_k, start);
        for (int key = start; key < hi; key += KEYS) {
            if (!PLANTED(copy_wait))
                copy_wait<0>();
            barrier(); /* k is loaded for all; nobody reads v of the previous tile any more */
            load_keys(V, a.v, a.dv, wide_v, key);
            multiply_queries();
            mask_scores(key);
            exponentiate(unit);
            copy_wait<0>();
            if (!PLANTED(barrier))
                barrier(); /* v is loaded for all; nobody reads this k any more */
            if (key + KEYS < hi)
                load_keys(K, a.k, a.dk, wide_k, key + KEYS);
            multiply_values();
        }
    }

    /* Stores a row's columns. False if one of them is not finite. */
    DEVICE bool store_row(int m, int half, const row &r, float factor)
    {
        T *out = (T *)a.out.data + place(a.out, b, r.h, r.i);
        float *partial = a.partial ? partial_row(a, block_z(), b, r.h, r.i) : nullptr;
        bool finite = true;
#pragma unroll
        for (int c = 0; c < WIDTH / 8; c++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                const int column = c * 8 + lane % 4 * 2 + e;
                const float value = o[m][c][half * 2 + e] * factor;
                if (column >= a.dv)
                    continue;
                finite = finite && fabsf(value) < INFINITY;
                T rounded;
                narrow(value, rounded);
                if (partial)
                    store(partial + 2 + column, value);
                else
                    store(out + column * a.out.stride[3], rounded);
            }
        if (partial && lane % 4 == 0) {
            store(partial, maximum[m][half]);
            store(partial + 1, sum[m][half]);
        }
        return finite;
    }

    /* Stores all rows. Computes a row again if 0 * NaN or 0 * Inf of a value that the row does not
     * see may have spoiled it. */
    DEVICE void finish()
    {
        uint32_t bad[MT][2];
#pragma unroll
        for (int m = 0; m < MT; m++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                float total = sum[m][half];
                total += shuffle_xor(total, 1);
                total += shuffle_xor(total, 2);
                sum[m][half] = total;
                bool finite = true;
                if (first + local_row(m, half) < rows) {
                    const row r = info(local_row(m, half));
                    finite = store_row(m, half, r,
                                       a.partial ? 1.0f
                                                 : finish_row(a, b, r.h, r.i, maximum[m][half],
                                                              total, lane % 4 == 0));
                }
                bad[m][half] = lanes_where(!finite && !PLANTED(repair));
            }
#pragma unroll
        for (int m = 0; m < MT; m++)
#pragma unroll
            for (int half = 0; half < 2; half++)
                repair((warp * MT + m) * 16 + half * 8, bad[m][half]);
    }

    /* `bad` has four bits per row, from row `local` of the block on. */
    DEVICE void repair(int local, uint32_t bad)
    {
        if (bad && !PLANTED(meeting))
            warp_barrier(); /* other lanes must have stored before this row is stored again */
        while (bad) {
            const int g = lowest_bit(bad) / 4;
            bad &= ~(0xfu << g * 4);
            const row r = info(local + g);
            flash_row<T>(a, b, r.h, r.i, block_z());
        }
    }

    DEVICE static void run(const attn_cuda_args &args)
    {
        flash_tile tile(args);
        tile.survey();
        tile.attend();
        tile.finish();
    }
};

#endif
