/* SPDX-License-Identifier: Apache-2.0 */
/* vector_avx512_bf16.h - vector_avx512.h and operations on pairs of bf16. Needs AVX512-BF16, BW and
 * VL.
 *
 * vdpbf16ps takes subnormal operands as 0, gives 0 for subnormal results, rounds to nearest, and
 * neither reads nor writes MXCSR (Intel's manual). So does vcvtneps2bf16. */
#ifndef ATTN_SIMD_VECTOR_AVX512_BF16_H
#define ATTN_SIMD_VECTOR_AVX512_BF16_H

#include "vector_avx512_pairs.h"

/* sum + a[0] b[0] + a[1] b[1] of the pairs in each lane, in f32. */
static inline vf vf_join_pairs(vf a, vf b, vf sum)
{
    return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b);
}

/* x toward 0 in bf16, as a float. */
static inline vf vf_first_digits(vf x)
{
    return (vf)_mm512_and_si512((__m512i)x, _mm512_set1_epi32(-65536));
}

/* x rounded to bf16, as a float. */
static inline vf vf_nearest(vf x)
{
    const __m512i wide = _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(x));
    return (vf)_mm512_slli_epi32(wide, 16);
}

/* Two vectors of floats as 2 * VF_LANES elements, rounded. p is aligned to the element. */
static inline void vf_store_pairs(uint16_t *p, vf low, vf high)
{
    _mm512_storeu_si512(p, (__m512i)_mm512_cvtne2ps_pbh(high, low));
}

/* Lane n holds low[n] and high[n] as a pair, rounded. */
static inline vf vf_pairs_of_rows(vf low, vf high)
{
    const __m512i mixed =
        _mm512_setr_epi32(0x00100000, 0x00110001, 0x00120002, 0x00130003, 0x00140004, 0x00150005,
                          0x00160006, 0x00170007, 0x00180008, 0x00190009, 0x001a000a, 0x001b000b,
                          0x001c000c, 0x001d000d, 0x001e000e, 0x001f000f);
    return (vf)_mm512_permutexvar_epi16(mixed, (__m512i)_mm512_cvtne2ps_pbh(high, low));
}

#endif
