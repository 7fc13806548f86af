/* SPDX-License-Identifier: Apache-2.0 */
/* instances.h - the tensor-core kernels that exist. Each is named flash_TYPE_WIDTH_KIND. The
 * kernels, the plan and the tests include it. NOTES.md says why the tiles have these sizes. */
#ifndef ATTN_CUDA_INSTANCES_H
#define ATTN_CUDA_INSTANCES_H

/* X(WIDTH, KIND, 16-row tiles per warp, warps, keys per tile, masked). `decode` has few rows and
 * one warp per block, so that many small blocks keep the loads of many splits in flight. */
#define ATTN_CUDA_TILES(X)                                                                         \
    X(64, plain, 2, 4, 64, 0)                                                                      \
    X(64, masked, 2, 4, 64, 1)                                                                     \
    X(64, decode, 1, 1, 64, 1)                                                                     \
    X(128, plain, 2, 4, 48, 0)                                                                     \
    X(128, masked, 1, 4, 64, 1)                                                                    \
    X(128, decode, 1, 1, 64, 1)                                                                    \
    X(256, masked, 1, 4, 32, 1)                                                                    \
    X(256, decode, 1, 1, 32, 1)

/* Bytes of shared memory of a block: q, k, v, and 16 bytes per row for the keys that it sees. */
#define ATTN_CUDA_SHARED(width, tiles, warps, keys)                                                \
    ((16 * (tiles) * (warps) + 2 * (keys)) * (width)*2 + 16 * (tiles) * (warps)*16)

/* The kernels of sm_90a: X(type, WIDTH, warpgroups of 64 rows, keys per tile, tiles of k and of v
 * in shared memory). They are named flash_TYPE_WIDTH_hopper. */
#define ATTN_CUDA_HOPPER_TILES(type, X)                                                            \
    X(type, 64, 3, 128, 4)                                                                         \
    X(type, 128, 2, 176, 2)

/* Bytes of shared memory: q, tiles of k and v, barriers, and what puts them at a multiple of 1024.
 */
#define ATTN_CUDA_HOPPER_SHARED(width, groups, keys, stages)                                       \
    ((64 * (groups) + 2 * (stages) * (keys)) * (width)*2 + (1 + 4 * (stages)) * 8 + 1024)

/* The tensor-core kernels of gradients: X(WIDTH, rows of a step). They are named
 * backward_TYPE_WIDTH_queries and backward_TYPE_WIDTH_keys. A warp owns 16 rows. */
#define ATTN_CUDA_BACKWARD_TILES(X)                                                                \
    X(64, 64)                                                                                      \
    X(128, 32)
#define ATTN_CUDA_BACKWARD_WARPS 4
#define ATTN_CUDA_BACKWARD_ROWS  (16 * ATTN_CUDA_BACKWARD_WARPS)

/* Bytes of shared memory: the owned rows of two operands, two steps of the two others, and 16 bytes
 * for each query row: of two steps, or owned. */
#define ATTN_CUDA_BACKWARD_SHARED(width, step)                                                     \
    ((2 * ATTN_CUDA_BACKWARD_ROWS + 4 * (step)) * (width)*2 +                                      \
     16 * ((2 * (step)) > ATTN_CUDA_BACKWARD_ROWS ? 2 * (step) : ATTN_CUDA_BACKWARD_ROWS))

/* Tiles of flash_TYPE_pairs and project_TYPE: rows of q, keys, and columns per step. A thread has
 * 4 x 4 pairs. Both have the columns of q and k in shared memory (pair_tile.h); flash_TYPE_pairs
 * also has the weights there. */
#define ATTN_CUDA_PAIR_ROWS    32
#define ATTN_CUDA_PAIR_KEYS    64
#define ATTN_CUDA_PAIR_DEPTH   32
#define ATTN_CUDA_PAIR_THREADS (ATTN_CUDA_PAIR_ROWS * ATTN_CUDA_PAIR_KEYS / 16)
#define ATTN_CUDA_PROJECT_SHARED                                                                   \
    (ATTN_CUDA_PAIR_DEPTH * (ATTN_CUDA_PAIR_ROWS + ATTN_CUDA_PAIR_KEYS + 8) * 4)
#define ATTN_CUDA_PAIR_SHARED                                                                      \
    (ATTN_CUDA_PROJECT_SHARED + ATTN_CUDA_PAIR_KEYS * (ATTN_CUDA_PAIR_ROWS + 4) * 4)

/* Rows that a block of flash_TYPE_rows and merge_TYPE computes, one per warp. */
#define ATTN_CUDA_ROW_WARPS 4

#endif
