/* SPDX-License-Identifier: Apache-2.0 */
/* fma_base.c - peak loops of the ISA that every machine of this architecture has. */
#include "worker/fma.h"

#define FMA_BYTES 16
#if defined(__x86_64__)
#define FMA_REGISTER "x"
#else
#define FMA_REGISTER "w" /* AArch64 */
#endif

#define FMA_NAME attn_fma_f32_base
#define FMA_TYPE float
#include "worker/fma_template.h"

#define FMA_NAME attn_fma_f64_base
#define FMA_TYPE double
#include "worker/fma_template.h"

#define READ_NAME attn_read_base
#include "worker/read_template.h"
