/* SPDX-License-Identifier: Apache-2.0 */
/* fma_avx512fp16.c - the peak loop of AVX512_FP16. */
#include "worker/fma.h"

#define FMA_BYTES    64
#define FMA_REGISTER "v"

#define FMA_NAME attn_fma_f16_avx512
#define FMA_TYPE _Float16
#include "worker/fma_template.h"
