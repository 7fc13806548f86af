/* SPDX-License-Identifier: Apache-2.0 */
/* kernels_hopper.cu - the kernels of sm_90a alone. */
#include "flash_hopper.h"

#define HOPPER_TILE(type, width, groups, keys, stages)                                             \
    extern "C" __global__ __launch_bounds__(GROUP *((groups) + 1), 1) void                         \
        flash_##type##_##width##_hopper(const __grid_constant__ attn_cuda_hopper_args args)        \
    {                                                                                              \
        flash_hopper<type, width, groups, keys, stages>::run(args);                                \
    }
ATTN_CUDA_HOPPER_TILES(f16, HOPPER_TILE)
ATTN_CUDA_HOPPER_TILES(bf16, HOPPER_TILE)
