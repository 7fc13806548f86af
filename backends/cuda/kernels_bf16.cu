/* SPDX-License-Identifier: Apache-2.0 */
/* kernels_bf16.cu - the kernels of bf16. */
#define TYPE bf16
#define TENSOR_CORES
#include "kernels.h"
#include "steps_kernels.h"

ATTN_CUDA_STEP_KERNELS(bf16, bf16)
