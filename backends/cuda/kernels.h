/* SPDX-License-Identifier: Apache-2.0 */
/* kernels.h - the entry points of one type, defined where a .cu file includes this with TYPE set.
 * The second launch bound is the blocks a multiprocessor should hold: 2 of 128 threads leave a
 * thread all 255 registers. */
#include "flash_tile.h"
#include "instances.h"

#define JOIN(a, b, c, d)        a##_##b##_##c##_##d
#define NAME(type, width, kind) JOIN(flash, type, width, kind)
#define KERNEL(width, kind, tiles, warps, keys, masked)                                            \
    extern "C" __global__ __launch_bounds__(WARP *warps, 2) void NAME(TYPE, width, kind)(          \
        const __grid_constant__ attn_cuda_args a)                                                  \
    {                                                                                              \
        flash_tile<TYPE, width, tiles, warps, keys, masked>::run(a);                               \
    }
ATTN_CUDA_TILES(KERNEL)
