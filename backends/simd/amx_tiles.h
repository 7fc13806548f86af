/* SPDX-License-Identifier: Apache-2.0 */
/* amx_tiles.h - products of bf16 matrices in AMX tiles, in blocks of 32 rows by 32 columns of sums.
 *
 * C = A B. Inner extents are multiples of AMX_INNER. Nothing needs more alignment than a pair.
 *
 *   A is bf16 [rows][inner]. AMX_INNER elements of 16 rows make a tile of 16 x 64 bytes.
 *
 *   B is bf16 [inner/2][AMX_NR][2], pairs of the inner axis next to each other. 16 pairs of 16
 *   columns make a tile, whose rows lie AMX_NR pairs apart, or b_bytes.
 *
 *   C is f32 [rows][c_row] and is overwritten, or added to.
 *
 * Rows and columns are computed 16 at a time, even those that do not exist. An element of C depends
 * on its own row of A and column of B only. Zeros must fill the inner axis of both A and B, because
 * 0 * NaN is NaN.
 *
 * Registers: the sums {0 1; 2 3}, A in 4 and 5, B in 6 and 7: four loads for four products. One
 * tile of rows and four of columns would need five loads, four of them of B. B comes from the
 * second-level cache, whose whole bandwidth of 64 bytes per cycle this would take.
 *
 * Arithmetic (Intel's manual, TDPBF16PS): a tile product sums its even and its odd elements
 * separately, in fused operations, adds the two sums and then C. It rounds to nearest, takes and
 * gives subnormals as 0, and neither reads nor writes MXCSR.
 *
 * Tile numbers must be literals, because gcc's intrinsics are macros that make text of them. The
 * intrinsics do not declare the memory that they read. So amx_block begins with a barrier for what
 * was stored before, and amx_config is a constant: _tile_loadconfig names 8 of its 64 bytes only.
 */
#ifndef ATTN_SIMD_AMX_TILES_H
#define ATTN_SIMD_AMX_TILES_H

#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>

#include "flash_meanwhile.h"

#define AMX_ROWS   16 /* rows of a tile, and f32 sums in a row of it */
#define AMX_INNER  32
#define AMX_NR     64 /* columns of a panel of B */
#define AMX_PAIR   4  /* bytes */
#define AMX_BLOCK  32 /* rows and columns of sums */
#define AMX_INLINE static inline __attribute__((always_inline))

/* The 64 bytes that LDTILECFG reads. */
struct amx_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

/* Eight whole tiles. Smaller ones at the edges of a matrix would cost more than they save. */
static const struct amx_config amx_config __attribute__((aligned(64))) = {
    .palette = 1,
    .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64},
    .rows = {AMX_ROWS, AMX_ROWS, AMX_ROWS, AMX_ROWS, AMX_ROWS, AMX_ROWS, AMX_ROWS, AMX_ROWS},
};

/* A thread calls amx_begin before its first product and amx_end after its last. */
AMX_INLINE void amx_begin(void)
{
    _tile_loadconfig(&amx_config);
}

AMX_INLINE void amx_end(void)
{
    _tile_release();
}

/* C = A B for one block. Rows of A lie a_bytes apart, rows of C c_row floats. */
struct amx_product {
    const void *a;
    int64_t a_bytes;
    const void *b;
    int64_t b_bytes; /* 0: AMX_NR pairs */
    int64_t steps;   /* the inner extent is steps * AMX_INNER */
    float *c;
    int64_t c_row;
    bool add;                          /* to what C holds */
    const struct meanwhile *meanwhile; /* called after each step; NULL: nothing */
};

/* The sums of a block begin with 0, or with C. */
AMX_INLINE void amx_begin_sums(const int down, const int across, const float *c, int64_t c_bytes,
                               bool add)
{
    const float *below = c + AMX_ROWS * c_bytes / (int64_t)sizeof *c;
    if (!add) {
        _tile_zero(0);
        if (across > 1)
            _tile_zero(1);
        if (down > 1)
            _tile_zero(2);
        if (down > 1 && across > 1)
            _tile_zero(3);
        return;
    }
    _tile_loadd(0, c, c_bytes);
    if (across > 1)
        _tile_loadd(1, c + AMX_ROWS, c_bytes);
    if (down > 1)
        _tile_loadd(2, below, c_bytes);
    if (down > 1 && across > 1)
        _tile_loadd(3, below + AMX_ROWS, c_bytes);
}

/* A block of `down` x `across` tiles, 1 or 2 each. */
AMX_INLINE void amx_block(const int down, const int across, const struct amx_product x)
{
    const int64_t b_bytes = x.b_bytes ? x.b_bytes : AMX_NR * AMX_PAIR;
    const int64_t c_bytes = x.c_row * (int64_t)sizeof *x.c;
    const char *from = x.a, *by = x.b;
    __asm__ volatile("" ::: "memory");
    amx_begin_sums(down, across, x.c, c_bytes, x.add);
    for (int64_t s = 0; s < x.steps; s++) {
        _tile_loadd(4, from, x.a_bytes);
        _tile_loadd(6, by, b_bytes);
        _tile_dpbf16ps(0, 4, 6);
        if (across > 1) {
            _tile_loadd(7, by + AMX_ROWS * AMX_PAIR, b_bytes);
            _tile_dpbf16ps(1, 4, 7);
        }
        if (down > 1) {
            _tile_loadd(5, from + AMX_ROWS * x.a_bytes, x.a_bytes);
            _tile_dpbf16ps(2, 5, 6);
        }
        if (down > 1 && across > 1)
            _tile_dpbf16ps(3, 5, 7);
        from += AMX_INNER / 2 * AMX_PAIR;
        by += AMX_INNER / 2 * b_bytes;
        if (x.meanwhile)
            x.meanwhile->step(x.meanwhile->what);
    }
    _tile_stored(0, x.c, c_bytes);
    if (across > 1)
        _tile_stored(1, x.c + AMX_ROWS, c_bytes);
    if (down > 1)
        _tile_stored(2, x.c + AMX_ROWS * x.c_row, c_bytes);
    if (down > 1 && across > 1)
        _tile_stored(3, x.c + AMX_ROWS * x.c_row + AMX_ROWS, c_bytes);
}

/* The block that covers `rows` <= 32 and `columns` <= 32. */
AMX_INLINE void amx_multiply(int64_t rows, int64_t columns, const struct amx_product x)
{
    if (rows > AMX_ROWS && columns > AMX_ROWS)
        amx_block(2, 2, x);
    else if (rows > AMX_ROWS)
        amx_block(2, 1, x);
    else if (columns > AMX_ROWS)
        amx_block(1, 2, x);
    else
        amx_block(1, 1, x);
}

#endif
