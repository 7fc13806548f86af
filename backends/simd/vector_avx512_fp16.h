/* SPDX-License-Identifier: Apache-2.0 */
/* vector_avx512_fp16.h - vector_avx512.h and operations on pairs of f16. Needs AVX512-FP16, BW and
 * VL. vfmadd231ph is the only instruction of AVX512-FP16 itself.
 *
 * It rounds once, in the rounding mode of MXCSR. It keeps subnormal f16 as operands and as results,
 * whatever FTZ and DAZ say (Intel's manual). So do conversions from and to f16. */
#ifndef ATTN_SIMD_VECTOR_AVX512_FP16_H
#define ATTN_SIMD_VECTOR_AVX512_FP16_H

#include "vector_avx512_pairs.h"

/* 2 * VF_LANES sums in f16. A type of its own: with vf, gcc 12 copies each sum before and after its
 * product. */
typedef __m512h vh;

/* sum[n] + a[n] b[n] of both halves of each lane, rounded once to f16. */
static inline vh vh_join(vf a, vf b, vh sum)
{
    return (vh)_mm512_fmadd_ph((vh)a, (vh)b, sum);
}

/* All sums as elements. p is aligned to the vector. */
static inline void vh_store(uint16_t *p, vh x)
{
    _mm512_store_si512(p, (__m512i)x);
}

/* vh_join on vectors of pairs. */
static inline vf vf_join_pairs(vf a, vf b, vf sum)
{
    return (vf)vh_join(a, b, (vh)sum);
}

/* The sums of lanes 2n and 2n + 1: first those of low, then those of high. */
static inline vf vf_add_neighbours(vf low, vf high)
{
    const __m512i even =
        _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const __m512i odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
    return _mm512_add_ps(_mm512_permutex2var_ps(low, even, high),
                         _mm512_permutex2var_ps(low, odd, high));
}

/* Two vectors of floats as 2 * VF_LANES elements, rounded. p is aligned to the element. */
static inline void vf_store_pairs(uint16_t *p, vf low, vf high)
{
    vf_store_f16(p, low);
    vf_store_f16(p + VF_LANES, high);
}

#endif
