/* SPDX-License-Identifier: Apache-2.0 */
/* kernels_f16.cu - the kernels of f16. */
#define TYPE f16
#include "kernels.h"
#include "steps_kernels.h"

extern "C" __global__ void flash_f16_rows(const __grid_constant__ attn_cuda_args a)
{
    flash_rows<f16, ATTN_CUDA_ROW_WARPS>(a);
}

extern "C" __global__ void merge_f16(const __grid_constant__ attn_cuda_args a)
{
    merge_rows<f16, ATTN_CUDA_ROW_WARPS>(a);
}

ATTN_CUDA_STEP_KERNELS(f16, f16)
