/* SPDX-License-Identifier: Apache-2.0 */
/* amx_emulation.c - see amx_emulation.h */
#include "amx_emulation.h"

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TILES     8
#define ROWS      16
#define ROW_BYTES 64

struct tile {
    int rows, row_bytes;
    unsigned char data[ROWS][ROW_BYTES];
};

/* What a thread has of the registers. */
static _Thread_local struct {
    bool configured;
    struct tile tiles[TILES];
} state;

static void print_and_abort(const char *sentence)
{
    fprintf(stderr, "emulated tiles: %s\n", sentence);
    abort();
}

void (*emulated_tile_fault)(const char *sentence) = print_and_abort;

static void expect(bool right, const char *sentence)
{
    if (!right)
        emulated_tile_fault(sentence);
}

static struct tile *find(int tile)
{
    expect(state.configured, "a tile is used before it is configured, or after it was released");
    expect(tile >= 0 && tile < TILES, "there are tiles 0 to 7 alone");
    expect(state.tiles[tile].rows > 0, "this tile has no rows");
    return &state.tiles[tile];
}

void emulated_tile_loadconfig(const void *config)
{
    unsigned char bytes[64];
    memcpy(bytes, config, sizeof bytes);
    expect(bytes[0] == 1, "the palette is not 1");
    expect(bytes[1] == 0, "products start at row 0");
    for (int n = 2; n < 16; n++)
        expect(bytes[n] == 0, "a reserved byte is not 0");
    emulated_tile_release();
    for (int t = 0; t < 16; t++) {
        int row_bytes = bytes[16 + 2 * t] + 256 * bytes[17 + 2 * t], rows = bytes[48 + t];
        expect(t < TILES || (rows == 0 && row_bytes == 0), "there are tiles 0 to 7 alone");
        expect(rows <= ROWS, "a tile has at most 16 rows");
        expect(row_bytes <= ROW_BYTES, "a row has at most 64 bytes");
        expect((rows == 0) == (row_bytes == 0), "a tile has rows without bytes, or none of some");
        if (t < TILES)
            state.tiles[t] = (struct tile){.rows = rows, .row_bytes = row_bytes};
    }
    state.configured = true;
}

void emulated_tile_release(void)
{
    memset(&state, 0, sizeof state);
}

bool emulated_tiles_in_use(void)
{
    return state.configured;
}

void emulated_tile_zero(int tile)
{
    struct tile *x = find(tile);
    memset(x->data, 0, sizeof x->data);
}

void emulated_tile_loadd(int tile, const void *base, long stride)
{
    struct tile *x = find(tile);
    memset(x->data, 0, sizeof x->data);
    for (int r = 0; r < x->rows; r++)
        memcpy(x->data[r], (const char *)base + r * stride, (size_t)x->row_bytes);
}

void emulated_tile_stored(int tile, void *base, long stride)
{
    struct tile *x = find(tile);
    for (int r = 0; r < x->rows; r++)
        memcpy((char *)base + r * stride, x->data[r], (size_t)x->row_bytes);
}

static float flushed(float x)
{
    return fabsf(x) < FLT_MIN ? copysignf(0.0f, x) : x;
}

/* A row of bf16. */
static void widen(const unsigned char *row, int row_bytes, float *to)
{
    for (int n = 0; n < row_bytes / 2; n++) {
        uint32_t bits = (uint32_t)(row[2 * n] | row[2 * n + 1] << 8) << 16;
        memcpy(&to[n], &bits, sizeof bits);
        to[n] = flushed(to[n]);
    }
}

/* a*b + c rounded once: the product is exact in double, and rounding its sum with an f32 to 53 bits
 * first does not change what it rounds to in 24. */
static float multiply_add(float a, float b, float c)
{
    return flushed((float)((double)a * (double)b + (double)c));
}

void emulated_tile_dpbf16ps(int sums, int a, int b)
{
    struct tile *c = find(sums);
    const struct tile *x = find(a), *y = find(b);
    expect(sums != a && sums != b && a != b, "the tiles of a product are not three");
    expect(x->rows == c->rows && y->row_bytes == c->row_bytes && x->row_bytes == 4 * y->rows &&
               c->row_bytes % 4 == 0,
           "the shapes of the tiles do not make a product");
    float left[ROW_BYTES / 2], right[ROWS][ROW_BYTES / 2];
    for (int k = 0; k < y->rows; k++)
        widen(y->data[k], y->row_bytes, right[k]);
    for (int m = 0; m < c->rows; m++) {
        float even[ROW_BYTES / 4] = {0}, odd[ROW_BYTES / 4] = {0}, row[ROW_BYTES / 4];
        widen(x->data[m], x->row_bytes, left);
        memcpy(row, c->data[m], (size_t)c->row_bytes);
        for (int k = 0; k < y->rows; k++)
            for (int n = 0; n < c->row_bytes / 4; n++) {
                even[n] = multiply_add(left[2 * k], right[k][2 * n], even[n]);
                odd[n] = multiply_add(left[2 * k + 1], right[k][2 * n + 1], odd[n]);
            }
        for (int n = 0; n < c->row_bytes / 4; n++)
            row[n] = flushed(flushed(row[n]) + flushed(even[n] + odd[n]));
        memcpy(c->data[m], row, (size_t)c->row_bytes);
    }
}
