/* SPDX-License-Identifier: Apache-2.0 */
/* kernels_f32.cu - the kernels of f32: plain FMA, so that no product is rounded to tf32. */
#define TYPE f32
#include "kernels.h"
#include "steps_kernels.h"

ATTN_CUDA_STEP_KERNELS(float, f32)
