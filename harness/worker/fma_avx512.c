/* SPDX-License-Identifier: Apache-2.0 */
/* fma_avx512.c - peak loops of AVX-512F. */
#include "worker/fma.h"

#define FMA_BYTES    64
#define FMA_REGISTER "v"

#define FMA_NAME attn_fma_f32_avx512
#define FMA_TYPE float
#include "worker/fma_template.h"

#define FMA_NAME attn_fma_f64_avx512
#define FMA_TYPE double
#include "worker/fma_template.h"

#define READ_NAME attn_read_avx512
#include "worker/read_template.h"
