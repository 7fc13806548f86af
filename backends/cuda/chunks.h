/* SPDX-License-Identifier: Apache-2.0 */
/* chunks.h - rows of 16-bit elements in shared memory, by chunks of 16 bytes, for the tensor cores.
 */
#ifndef ATTN_CUDA_CHUNKS_H
#define ATTN_CUDA_CHUNKS_H

#include "device.h"

/* The place of a chunk in a tile whose rows have `chunks` of them. The chunks of a row are permuted
 * by the low three bits of the row. So the eight rows that ldmatrix reads at once lie in eight
 * different groups of banks. */
template <int chunks> DEVICE uint32_t chunk_at(uint32_t tile, int row, int chunk_index)
{
    return tile + (uint32_t)(row * chunks + (chunk_index & ~7) + ((chunk_index ^ row) & 7)) * 16;
}

/* Loads one chunk of 8 columns into shared memory. Missing columns become zero and are not read. */
template <class T>
DEVICE void load_chunk(uint32_t to, const T *from, int64_t step, int column, int width, bool wide,
                       bool present)
{
    if (wide) {
        const bool wanted = present && column < width;
        copy_async(to, wanted ? from + column : from, wanted);
        return;
    }
    chunk c = {};
#pragma unroll
    for (int e = 0; e < 8; e++)
        if (present && column + e < width + (PLANTED(past_width) ? 8 : 0))
            c.word[e / 2] |= (uint32_t)load(from + (column + e) * step).bits << e % 2 * 16;
    store_shared(to, c);
}

#endif
