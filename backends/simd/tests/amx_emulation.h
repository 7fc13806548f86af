/* SPDX-License-Identifier: Apache-2.0 */
/* amx_emulation.h - the tile instructions in plain C, for tests: put before a source with -include,
 * it takes the place of the intrinsics that amx_tiles.h uses.
 *
 * Checked is what the processor checks: palette, reserved bytes, rows and bytes a row of the
 * configuration; that a tile is configured; that the shapes of a product fit and its tiles differ.
 * Memory is read and written row by row, no byte more, so that sanitizers and guard pages see it.
 * The arithmetic is that of Intel's pseudo-code, in its order. Not a model of time. */
#ifndef ATTN_SIMD_AMX_EMULATION_H
#define ATTN_SIMD_AMX_EMULATION_H

#include <immintrin.h>
#include <stdbool.h>

void emulated_tile_loadconfig(const void *config);
void emulated_tile_release(void);
void emulated_tile_zero(int tile);
void emulated_tile_loadd(int tile, const void *base, long stride);
void emulated_tile_stored(int tile, void *base, long stride);
void emulated_tile_dpbf16ps(int sums, int a, int b);

/* Whether the calling thread has tiles: configured, and not released since. */
bool emulated_tiles_in_use(void);

/* What the processor would refuse ends up here, in one sentence; must not return. Prints and aborts
 * unless a test sets its own. */
extern void (*emulated_tile_fault)(const char *sentence);

#undef _tile_zero
#undef _tile_loadd
#undef _tile_stored
#undef _tile_dpbf16ps
#define _tile_loadconfig(config)         emulated_tile_loadconfig(config)
#define _tile_release()                  emulated_tile_release()
#define _tile_zero(tile)                 emulated_tile_zero(tile)
#define _tile_loadd(tile, base, stride)  emulated_tile_loadd(tile, base, stride)
#define _tile_stored(tile, base, stride) emulated_tile_stored(tile, base, stride)
#define _tile_dpbf16ps(sums, a, b)       emulated_tile_dpbf16ps(sums, a, b)

#endif
