/* SPDX-License-Identifier: Apache-2.0 */
/* fma.h - peak multiply-add loops, one pair an ISA. */
#ifndef ATTN_WORKER_FMA_H
#define ATTN_WORKER_FMA_H

#include <stdint.h>

/* Each does `rounds` rounds of independent multiply-adds in registers and returns the number of
 * floating-point operations that this was. */
double attn_fma_f32_base(int64_t rounds);
double attn_fma_f64_base(int64_t rounds);
double attn_fma_f32_avx2(int64_t rounds);
double attn_fma_f64_avx2(int64_t rounds);
double attn_fma_f32_avx512(int64_t rounds);
double attn_fma_f64_avx512(int64_t rounds);

#endif
