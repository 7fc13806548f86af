/* SPDX-License-Identifier: Apache-2.0 */
/* kernels_f32.cu - the kernels of f32: plain FMA, so that no product is rounded to tf32. */
#include "flash_row.h"
#include "instances.h"
#include "steps_kernels.h"

extern "C" __global__ void flash_f32_rows(const __grid_constant__ attn_cuda_args a)
{
    flash_rows<float, ATTN_CUDA_ROW_WARPS>(a);
}

extern "C" __global__ void merge_f32(const __grid_constant__ attn_cuda_args a)
{
    merge_rows<float, ATTN_CUDA_ROW_WARPS>(a);
}

ATTN_CUDA_STEP_KERNELS(float, f32)
