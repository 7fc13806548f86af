/* SPDX-License-Identifier: Apache-2.0 */
/* flash_hopper.h - flash attention by the warpgroups of sm_90a. A block computes ROWS queries of
 * one head, in tiles of KEYS keys; it knows len, causal and window, and a positive scale.
 *
 *   groups  warpgroups 0 .. GROUPS-1 multiply, 64 rows each. One thread of the last one issues all
 *           copies and waits with them for free stages.
 *   tiles   in shared memory, as parts of 64 columns: a part has a row of 128 bytes per query or
 *           key, swizzled by the copy as the products expect it
 *   s, p    [64 x KEYS] of a group, in registers: the accumulators of q k^T become the A operand of
 *           p v, element for element
 *   o       [64 x WIDTH] of a group, in registers
 *   lane    with g = lane/4 and t = lane%4: it holds rows g and g+8 of its warp's 16, and columns
 *           8n + 2t and 8n + 2t+1, at 4n .. 4n+3
 *
 * The scores of a tile are computed while p v of the tile before is, and while the other groups are
 * at their softmax: the groups take turns to issue products. */
#ifndef ATTN_CUDA_FLASH_HOPPER_H
#define ATTN_CUDA_FLASH_HOPPER_H

#include "device_hopper.h"
#include "flash_row.h"
#include "instances.h"

enum {
    GROUP = 128,        /* threads of a warpgroup */
    GROUP_ROWS = 64,    /* rows of a product */
    PART = 64,          /* columns of a part of a tile */
    PART_ROW = 128,     /* bytes */
    FIRST_TURN = 1,     /* barriers by number: turns of the groups */
    SECTION = 24 << 20, /* bytes of k and v that blocks read at a time: half of the L2 cache */
};

/* STAGES: tiles of k in shared memory, and of v. */
template <class T, int WIDTH, int GROUPS, int KEYS, int STAGES> struct flash_hopper {
    static constexpr int ROWS = GROUP_ROWS * GROUPS, PARTS = WIDTH / PART;
    static constexpr uint32_t Q_PART = ROWS * PART_ROW, KEY_PART = KEYS * PART_ROW,
                              KEY_TILE = KEY_PART * PARTS, Q = 0, K = Q_PART * PARTS,
                              V = K + STAGES * KEY_TILE, PHASES = V + STAGES * KEY_TILE;
    /* phases: q is there; of each stage: k is there, v is there, k is free, v is free */
    static constexpr uint32_t Q_FULL = PHASES, K_FULL = PHASES + 8, V_FULL = K_FULL + STAGES * 8,
                              K_FREE = V_FULL + STAGES * 8, V_FREE = K_FREE + STAGES * 8;

    const attn_cuda_hopper_args &maps;
    const attn_cuda_args &a;
    uint32_t base; /* of shared memory, in whole units of swizzle */
    int lane;
    int b, head, first; /* first: of the rows */
    int lo, tiles;      /* of keys, from the first that some row sees */

    DEVICE explicit flash_hopper(const attn_cuda_hopper_args &args) : maps(args), a(args.a)
    {
        base = (shared_base() + 1023) / 1024 * 1024 - shared_base();
        lane = thread_index() % WARP;
        place_block();
        survey_block();
    }

    /* Of the lanes of a warp. */
    DEVICE static int largest(int value)
    {
        for (int step = WARP / 2; step > 0; step /= 2) {
            const int other = (int)bits_of(shuffle_xor(value_of((uint32_t)value), step));
            value = other > value ? other : value;
        }
        return value;
    }

    /* Heads whose k and v stay in the L2 cache together are a section. Sections follow one another,
     * and have the same number of heads. In each the last rows of all heads come first: under a
     * causal mask they take longest. */
    DEVICE void place_block()
    {
        const int blocks = (a.sq + ROWS - 1) / ROWS, heads = a.b * a.hq;
        const int64_t bytes = (int64_t)a.sk * WIDTH * 4 * a.hkv / a.hq * heads;
        const int sections = bytes / SECTION < heads ? (int)(bytes / SECTION) + 1 : heads;
        const int most = (heads + sections - 1) / sections;
        const int before = block_x() / (blocks * most) * most, rest = block_x() % (blocks * most);
        const int width = heads - before < most ? heads - before : most;
        first = (blocks - 1 - rest / width) * ROWS;
        head = (before + rest % width) % a.hq;
        b = (before + rest % width) / a.hq;
    }

    DEVICE void survey_block()
    {
        int hi = 0;
        lo = a.sk;
        for (int i = first + lane; i < first + ROWS && i < a.sq; i += WARP) {
            const row r = make_row(a, b, head, i);
            if (r.lo < r.hi) {
                lo = r.lo < lo ? r.lo : lo;
                hi = r.hi > hi ? r.hi : hi;
            }
        }
        lo = -largest(-lo);
        hi = largest(hi);
        tiles = hi > lo ? (hi - lo + KEYS - 1) / KEYS : 0;
    }

    /* The parity of the phase of a tile, in its stage. */
    DEVICE static uint32_t parity_of(uint32_t tile)
    {
        return tile / STAGES & 1;
    }

    /* ---- copies ---- */

    DEVICE void load(uint32_t to, const attn_cuda_map &map, uint32_t part_bytes, int row, int h,
                     uint32_t full)
    {
        phase_expect(base + full, part_bytes * PARTS);
#pragma unroll
        for (int part = 0; part < PARTS; part++)
            copy_box(base + to + (uint32_t)part * part_bytes, map, part * PART, row, h, b,
                     base + full);
    }

    /* One thread. k runs one tile ahead of v, as the products do. */
    DEVICE void produce()
    {
        const int h = head / (a.hq / a.hkv);
        if (tiles == 0)
            return;
        load(Q, maps.q, Q_PART, first, head, Q_FULL);
#pragma unroll 1
        for (int n = 0; n <= tiles; n++) {
            if (n < tiles) {
                const uint32_t tile = (uint32_t)n, stage = tile % STAGES;
                phase_wait(base + K_FREE + stage * 8, parity_of(tile) ^ 1);
                load(K + stage * KEY_TILE, maps.k, KEY_PART, lo + n * KEYS, h, K_FULL + stage * 8);
            }
            if (n > 0) {
                const uint32_t tile = (uint32_t)n - 1, stage = tile % STAGES;
                phase_wait(base + V_FREE + stage * 8,
                           parity_of(tile) ^ (PLANTED(hopper_parity) ? 0 : 1));
                load(V + stage * KEY_TILE, maps.v, KEY_PART, lo + (n - 1) * KEYS, h,
                     V_FULL + stage * 8);
            }
        }
    }

    /* ---- products ---- */

    struct rows {
        int group;          /* of warps */
        int lo[2], hi[2];   /* keys that this thread's two rows see */
        int all_lo, all_hi; /* that all rows of the warp see */
        float o[WIDTH / 2], s[KEYS / 2];
        uint32_t p[KEYS / 4];
        float maximum[2], sum[2], shrink[2];
    };

    DEVICE int row_of(const rows &r, int half) const
    {
        return first + r.group * GROUP_ROWS + thread_index() % GROUP / WARP * 16 + half * 8 +
               lane / 4;
    }

    DEVICE void survey(rows &r)
    {
        r.all_lo = 0, r.all_hi = a.sk;
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int i = row_of(r, half);
            row seen = {0, 0, 0, 0};
            if (i < a.sq) {
                seen = make_row(a, b, head, i);
                r.all_lo = seen.lo > r.all_lo ? seen.lo : r.all_lo;
                r.all_hi = seen.hi < r.all_hi ? seen.hi : r.all_hi;
            }
            r.lo[half] = seen.lo, r.hi[half] = seen.hi;
            r.maximum[half] = -INFINITY, r.sum[half] = 0;
        }
        r.all_lo = largest(r.all_lo);
        r.all_hi = -largest(-r.all_hi);
#pragma unroll
        for (int n = 0; n < WIDTH / 2; n++)
            r.o[n] = 0;
    }

    /* s = q k^T of a stage */
    DEVICE void start_scores(rows &r, uint32_t stage)
    {
        const uint32_t q = base + Q + (uint32_t)r.group * GROUP_ROWS * PART_ROW,
                       k = base + K + stage * KEY_TILE;
#pragma unroll
        for (int c = 0; c < WIDTH / 16; c++) {
            const uint32_t part = PLANTED(hopper_part) ? 0 : (uint32_t)c / 4,
                           column = (uint32_t)c % 4 * 32;
            multiply_shared(T(), r.s, operand_at(q + part * Q_PART + column, 16),
                            operand_at(k + part * KEY_PART + column, 16), c > 0);
        }
        products_commit();
    }

    /* o += p v of a stage */
    DEVICE void start_values(rows &r, uint32_t stage)
    {
        const uint32_t v = base + V + stage * KEY_TILE;
#pragma unroll
        for (int n = 0; n < KEYS / 16; n++)
            multiply_registers(T(), r.o, r.p + n * 4,
                               operand_at(v + (uint32_t)n * 16 * PART_ROW, KEY_PART));
        products_commit();
    }

    DEVICE void mask(rows &r, int key)
    {
        if (key >= r.all_lo && key + KEYS <= r.all_hi)
            return; /* all rows of the warp see every key of this tile */
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int from = r.lo[half] - key - lane % 4 * 2, to = r.hi[half] - key - lane % 4 * 2;
#pragma unroll
            for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
                for (int e = 0; e < 2; e++)
                    if (n * 8 + e < from || n * 8 + e >= to)
                        r.s[n * 4 + half * 2 + e] = -INFINITY;
        }
    }

    /* s becomes 2^(s * unit - maximum). Updates maximum and sum; o and p follow in settle(). */
    DEVICE void exponentiate(rows &r, float unit)
    {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float top[2] = {r.s[half * 2], r.s[half * 2 + 1]}, added[2] = {0, 0};
#pragma unroll
            for (int n = 1; n < KEYS / 8; n++)
#pragma unroll
                for (int e = 0; e < 2; e++)
                    top[e] = fmaxf(top[e], r.s[n * 4 + half * 2 + e]);
            float most = fmaxf(top[0], top[1]);
            most = fmaxf(most, shuffle_xor(most, 1));
            most = fmaxf(most, shuffle_xor(most, 2));
            /* rounded once per tile; the same number in every term of the row */
            const float reached = fmaxf(r.maximum[half], most * unit);
            const float shift = shift_of(reached);
            r.shrink[half] = exp2_flushed(r.maximum[half] - shift);
#pragma unroll
            for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
                for (int e = 0; e < 2; e++) {
                    float &cell = r.s[n * 4 + half * 2 + e];
                    cell = exp2_flushed(fmaf(cell, unit, -shift));
                    added[e] += cell;
                }
            r.maximum[half] = reached;
            r.sum[half] = r.sum[half] * r.shrink[half] + (added[0] + added[1]);
        }
    }

    /* p = s, and o as the new maximum has it. No product may be under way. */
    DEVICE void settle(rows &r)
    {
#pragma unroll
        for (int n = 0; n < KEYS / 4; n++)
            r.p[n] = pack(T(), r.s[n * 2], r.s[n * 2 + 1]);
#pragma unroll
        for (int n = 0; n < WIDTH / 2; n++)
            r.o[n] *= r.shrink[n / 2 % 2];
    }

    /* A warp needs a stage no more. */
    DEVICE void free(uint32_t phase)
    {
        if (lane == 0)
            phase_arrive(base + phase);
    }

    DEVICE void take_turn(const rows &r)
    {
        meet(FIRST_TURN + r.group, 2 * GROUP);
    }
    DEVICE void give_turn(const rows &r)
    {
        announce(FIRST_TURN + (r.group + 1) % GROUPS, 2 * GROUP);
    }

    DEVICE void attend(rows &r)
    {
        const float unit = a.scale * LOG2E;
        if (tiles == 0)
            return;
        phase_wait(base + Q_FULL, 0);
        phase_wait(base + K_FULL, 0);
        products_begin();
        start_scores(r, 0);
        products_wait<0>();
        pin(r.s);
        free(K_FREE);
        mask(r, lo);
        exponentiate(r, unit);
        settle(r);
#pragma unroll 1
        for (uint32_t n = 1; n < (uint32_t)tiles; n++) {
            const uint32_t now = n % STAGES, before = (n - 1) % STAGES;
            phase_wait(base + K_FULL + now * 8, parity_of(n));
            take_turn(r);
            pin(r.o);
            pin(r.p);
            products_begin();
            start_scores(r, now);
            if (!PLANTED(hopper_full))
                phase_wait(base + V_FULL + before * 8, parity_of(n - 1));
            products_begin();
            start_values(r, before);
            give_turn(r);
            if (!PLANTED(hopper_wait))
                products_wait<1>();
            pin(r.s);
            free(K_FREE + now * 8);
            mask(r, lo + (int)n * KEYS);
            exponentiate(r, unit);
            if (PLANTED(hopper_settle))
                settle(r);
            if (PLANTED(hopper_free))
                free(V_FREE + before * 8);
            products_wait<0>();
            pin(r.o);
            pin(r.p);
            if (!PLANTED(hopper_free))
                free(V_FREE + before * 8);
            if (!PLANTED(hopper_settle))
                settle(r);
        }
        const uint32_t last = (uint32_t)tiles - 1;
        phase_wait(base + V_FULL + last % STAGES * 8, parity_of(last));
        pin(r.o);
        pin(r.p);
        products_begin();
        start_values(r, last % STAGES);
        products_wait<0>();
        pin(r.o);
    }

    /* ---- results ---- */

    DEVICE static uint32_t exchange(uint32_t word, int lanes)
    {
        return bits_of(shuffle_xor(value_of(word), lanes));
    }

    /* Four lanes of a row have words t of four chunks of 8 columns. Afterwards lane t has chunk t.
     */
    DEVICE chunk transpose(const uint32_t (&w)[4])
    {
        const bool odd = lane & 1, high = lane & 2;
        const uint32_t x0 = exchange(odd ? w[0] : w[1], 1), x1 = exchange(odd ? w[2] : w[3], 1);
        const uint32_t low0 = odd ? x0 : w[0], low1 = odd ? w[1] : x0;
        const uint32_t high0 = odd ? x1 : w[2], high1 = odd ? w[3] : x1;
        const uint32_t y0 = exchange(high ? low0 : high0, 2), y1 = exchange(high ? low1 : high1, 2);
        return high ? chunk{{y0, y1, high0, high1}} : chunk{{low0, low1, y0, y1}};
    }

    /* Stores a row. False if one of its columns is not finite. */
    DEVICE bool store_row(const rows &r, int half, float factor)
    {
        const int i = row_of(r, half);
        T *out = (T *)a.out.data + (i < a.sq ? place(a.out, b, head, i) : 0);
        bool finite = true;
#pragma unroll
        for (int c = 0; c < WIDTH / 32; c++) {
            uint32_t words[4];
#pragma unroll
            for (int n = 0; n < 4; n++) {
                const float x = r.o[(c * 4 + n) * 4 + half * 2] * factor,
                            y = r.o[(c * 4 + n) * 4 + half * 2 + 1] * factor;
                finite = finite && fabsf(x) < INFINITY && fabsf(y) < INFINITY;
                words[n] = pack(T(), x, y);
            }
            const chunk columns = transpose(words);
            const int column = c * 32 + lane % 4 * 8;
            if (i < a.sq && column < a.dv)
                store((chunk *)(out + column), columns);
        }
        return finite;
    }

    /* Stores all rows. Computes a row again if 0 * NaN or 0 * Inf of a value that the row does not
     * see may have spoiled it. */
    DEVICE void finish(rows &r)
    {
        uint32_t bad[2];
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float total = r.sum[half];
            total += shuffle_xor(total, 1);
            total += shuffle_xor(total, 2);
            const int i = row_of(r, half);
            const float factor =
                i < a.sq ? finish_row(a, b, head, i, r.maximum[half], total, lane % 4 == 0) : 0.0f;
            bad[half] =
                lanes_where(!store_row(r, half, factor) && i < a.sq && !PLANTED(hopper_repair));
        }
#pragma unroll
        for (int half = 0; half < 2; half++) {
            if (bad[half])
                warp_barrier(); /* other lanes must have stored before this row is stored again */
            while (bad[half]) {
                const int g = lowest_bit(bad[half]) / 4;
                bad[half] &= ~(0xfu << g * 4);
                flash_row<T>(a, b, head, row_of(r, half) - lane / 4 + g, 0);
            }
        }
    }

    /* One thread makes the barriers. */
    DEVICE void prepare()
    {
        if (thread_index() == 0) {
            phase_init(base + Q_FULL, 1);
            for (uint32_t stage = 0; stage < STAGES; stage++) {
                phase_init(base + K_FULL + stage * 8, 1);
                phase_init(base + V_FULL + stage * 8, 1);
                phase_init(base + K_FREE + stage * 8, GROUPS * GROUP / WARP);
                phase_init(base + V_FREE + stage * 8, GROUPS * GROUP / WARP);
            }
            phase_init_done();
        }
        barrier();
    }

    DEVICE static void run(const attn_cuda_hopper_args &args)
    {
        flash_hopper tile(args);
        tile.prepare();
        const int group = (int)bits_of(shuffle(value_of((uint32_t)(thread_index() / GROUP)), 0));
        if (group == GROUPS) {
            registers_down<GROUPS == 2 ? 24 : 32>();
            if (thread_index() == GROUPS * GROUP)
                tile.produce();
            return;
        }
        registers_up<GROUPS == 2 ? 240 : 160>();
        rows r;
        r.group = group;
        if (group == 0)
            announce(FIRST_TURN, 2 * GROUP);
        tile.survey(r);
        tile.attend(r);
        tile.finish(r);
    }
};

#endif
