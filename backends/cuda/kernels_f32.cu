/* SPDX-License-Identifier: Apache-2.0 */
/* kernels_f32.cu - the kernels of f32: plain FMA, so that no product is rounded to tf32. */
#define TYPE f32
#include "kernels.h"
#include "steps_kernels.h"

extern "C" __global__ void total_f32 ARGUMENTS
{
    total_rows(a);
}

ATTN_CUDA_STEP_KERNELS(float, f32)
