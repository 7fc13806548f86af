/* SPDX-License-Identifier: Apache-2.0 */
/* kernels_f16.cu - the kernels of f16. */
#define TYPE f16
#define TENSOR_CORES
#include "kernels.h"
#include "steps_kernels.h"

ATTN_CUDA_STEP_KERNELS(f16, f16)
