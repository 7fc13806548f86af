/* SPDX-License-Identifier: Apache-2.0 */
/* fma_amx.c - the peak loop of AMX-BF16: products of tiles, 16 x 32 by 32 x 16 bf16, added to f32.
 *
 * The products of a pair cancel, so that the sums stay 0 at any number of rounds. Four sums of the
 * eight tiles: latency 52 cycles, of which each product keeps the unit busy for 16. */
#include <immintrin.h>

#include "worker/fma.h"

enum { SUMS = 4, ROWS = 16, ROW_BYTES = 64, PAIRS = ROW_BYTES / 4 };

/* What ldtilecfg reads. Source: Intel's Software Developer's Manual, volume 1, on palette 1. */
struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

double attn_fma_bf16_amx(int64_t rounds)
{
    uint32_t a[ROWS][PAIRS], b[ROWS][PAIRS];
    struct tile_config config = {.palette = 1};
    for (int tile = 0; tile < 8; tile++) {
        config.row_bytes[tile] = ROW_BYTES;
        config.rows[tile] = ROWS;
    }
    for (int row = 0; row < ROWS; row++)
        for (int pair = 0; pair < PAIRS; pair++) {
            /* bf16 is the upper half of f32: 0.5 is 0x3f00, 0.25 is 0x3e80 */
            a[row][pair] = 0xbf003f00u;
            b[row][pair] = 0x3e803e80u;
        }
    /* gcc's intrinsics do not say how much they read: all that is written above. */
    __asm__ volatile("" : : "r"(a), "r"(b), "r"(&config) : "memory");
    _tile_loadconfig(&config);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    _tile_loadd(4, a, ROW_BYTES);
    _tile_loadd(5, a, ROW_BYTES);
    _tile_loadd(6, b, ROW_BYTES);
    _tile_loadd(7, b, ROW_BYTES);
    for (int64_t r = 0; r < rounds; r++) { /* the intrinsics are volatile: none is left out */
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_release();
    return 2.0 * 2 * ROWS * PAIRS * ROWS * SUMS * (double)rounds;
}
