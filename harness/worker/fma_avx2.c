/* SPDX-License-Identifier: Apache-2.0 */
/* fma_avx2.c - peak loops of AVX2 with FMA. */
#include "worker/fma.h"

#define FMA_BYTES    32
#define FMA_REGISTER "x"

#define FMA_NAME attn_fma_f32_avx2
#define FMA_TYPE float
#include "worker/fma_template.h"

#define FMA_NAME attn_fma_f64_avx2
#define FMA_TYPE double
#include "worker/fma_template.h"

#define READ_NAME attn_read_avx2
#include "worker/read_template.h"
