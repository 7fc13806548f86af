/* SPDX-License-Identifier: Apache-2.0 */
/* kernels.h - the entry points of one type. A .cu file includes it with TYPE set, and with
 * TENSOR_CORES if tensor cores can multiply that type. */
#include "backward_pairs.h"
#include "backward_tile.h"
#include "flash_pairs.h"
#include "flash_tile.h"
#include "instances.h"

using f32 = float; /* TYPE is in the names of kernels */

#define JOIN(a, b)       a##_##b
#define NAME(a, b)       JOIN(a, b)
#define ARGUMENTS        (const __grid_constant__ attn_cuda_args a)
#define ENTRY(name, ...) extern "C" __global__ __launch_bounds__(__VA_ARGS__) void name ARGUMENTS

ENTRY(NAME(NAME(flash, TYPE), rows), WARP *ATTN_CUDA_ROW_WARPS)
{
    flash_rows<TYPE, ATTN_CUDA_ROW_WARPS>(a);
}

ENTRY(NAME(merge, TYPE), WARP *ATTN_CUDA_ROW_WARPS)
{
    merge_rows<TYPE, ATTN_CUDA_ROW_WARPS>(a);
}

ENTRY(NAME(project, TYPE), PAIR_THREADS, 2)
{
    project_rows<TYPE>(a);
}

ENTRY(NAME(NAME(flash, TYPE), pairs), PAIR_THREADS, 2)
{
    flash_pairs<TYPE>::run(a);
}

ENTRY(NAME(delta, TYPE), WARP *ATTN_CUDA_ROW_WARPS)
{
    delta_rows<TYPE, ATTN_CUDA_ROW_WARPS>(a);
}

ENTRY(NAME(NAME(backward, TYPE), queries), PAIR_THREADS, 2)
{
    backward_pairs<TYPE>::queries(a);
}

ENTRY(NAME(NAME(backward, TYPE), keys), PAIR_THREADS, 2)
{
    backward_pairs<TYPE>::keys(a);
}

ENTRY(NAME(NAME(backward, TYPE), bias), PAIR_THREADS, 2)
{
    backward_bias<TYPE>::run(a);
}

#ifdef TENSOR_CORES
/* The second launch bound is the number of blocks that a multiprocessor should hold. Two blocks of
 * 128 threads leave each thread all 255 registers. */
#define TILE(width, kind, tiles, warps, keys, masked)                                              \
    ENTRY(NAME(NAME(flash, TYPE), width##_##kind), WARP *warps, 2)                                 \
    {                                                                                              \
        flash_tile<TYPE, width, tiles, warps, keys, masked>::run(a);                               \
    }
ATTN_CUDA_TILES(TILE)

#define BACKWARD_TILE(width, step)                                                                 \
    ENTRY(NAME(NAME(backward, TYPE), width##_queries), WARP *ATTN_CUDA_BACKWARD_WARPS, 2)          \
    {                                                                                              \
        backward_tile<TYPE, width, step, false>::run(a);                                           \
    }                                                                                              \
    ENTRY(NAME(NAME(backward, TYPE), width##_keys), WARP *ATTN_CUDA_BACKWARD_WARPS, 2)             \
    {                                                                                              \
        backward_tile<TYPE, width, step, true>::run(a);                                            \
    }
ATTN_CUDA_BACKWARD_TILES(BACKWARD_TILE)
#endif
