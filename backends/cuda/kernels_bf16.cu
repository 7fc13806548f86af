/* SPDX-License-Identifier: Apache-2.0 */
/* kernels_bf16.cu - the kernels of bf16. */
#define TYPE bf16
#include "kernels.h"
#include "steps_kernels.h"

extern "C" __global__ void flash_bf16_rows(const __grid_constant__ attn_cuda_args a)
{
    flash_rows<bf16, ATTN_CUDA_ROW_WARPS>(a);
}

extern "C" __global__ void merge_bf16(const __grid_constant__ attn_cuda_args a)
{
    merge_rows<bf16, ATTN_CUDA_ROW_WARPS>(a);
}

ATTN_CUDA_STEP_KERNELS(bf16, bf16)
