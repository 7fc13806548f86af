/* SPDX-License-Identifier: Apache-2.0 */
/* fma.h - loops that only multiply and add in registers, or only read; one set for each ISA. */
#ifndef ATTN_WORKER_FMA_H
#define ATTN_WORKER_FMA_H

#include <stddef.h>
#include <stdint.h>

/* Each does `rounds` rounds of independent multiply-adds in registers and returns the number of
 * floating-point operations. */
double attn_fma_f32_base(int64_t rounds);
double attn_fma_f64_base(int64_t rounds);
double attn_fma_f32_avx2(int64_t rounds);
double attn_fma_f64_avx2(int64_t rounds);
double attn_fma_f32_avx512(int64_t rounds);
double attn_fma_f64_avx512(int64_t rounds);
/* AVX512_BF16, AVX512_FP16, and AMX_BF16 once the system has granted the tiles. NULL where the
 * compiler lacks the instructions. */
#ifdef ATTN_WITHOUT_AVX512BF16
#define attn_fma_bf16_avx512 NULL
#else
double attn_fma_bf16_avx512(int64_t rounds);
#endif
#ifdef ATTN_WITHOUT_AVX512FP16
#define attn_fma_f16_avx512 NULL
#else
double attn_fma_f16_avx512(int64_t rounds);
#endif
#ifdef ATTN_WITHOUT_AMX_BF16
#define attn_fma_bf16_amx NULL
#else
double attn_fma_bf16_amx(int64_t rounds);
#endif

/* Each loads `bytes` (a multiple of 512) once, from an address aligned to 64, and returns a value
 * that depends on all of them. */
uint64_t attn_read_base(const void *from, size_t bytes);
uint64_t attn_read_avx2(const void *from, size_t bytes);
uint64_t attn_read_avx512(const void *from, size_t bytes);

#endif
