/* SPDX-License-Identifier: Apache-2.0 */
/* fp16_emulation.h - vfmadd231ph over AVX-512F, for tests: put before a source with -include, it
 * takes the place of the intrinsic that vector_avx512_fp16.h uses. Not a model of time.
 *
 * a*b + c is to be rounded once, from exact to f16. The product of two f16 is exact in f32. The sum
 * is rounded in f32 and brought to what "round to odd" gives: where it is not exact (which the two
 * steps of Knuth's sum tell, exactly, for nothing here is near the limits of f32) and the last bit
 * is even, its neighbour on the side of what was lost. With 24 bits for 11 and two more, rounding
 * that to f16 is rounding the exact sum (Boldo and Melquiond, Emulation of a FMA and correctly
 * rounded sums, IEEE Trans. Comput. 57(4), 2008). Infinities and NaN pass through, subnormals of
 * f16 are ordinary numbers of f32, and vcvtps2ph makes them again. */
#ifndef ATTN_SIMD_FP16_EMULATION_H
#define ATTN_SIMD_FP16_EMULATION_H

#include <immintrin.h>

/* Sixteen lanes. */
static inline __m256i emulated_fmadd_half(__m256i a, __m256i b, __m256i c)
{
    const __m512i one = _mm512_set1_epi32(1);
    const __m512 zero = _mm512_setzero_ps(), x = _mm512_cvtph_ps(c);
    const __m512 product = _mm512_mul_ps(_mm512_cvtph_ps(a), _mm512_cvtph_ps(b));
    const __m512 sum = _mm512_add_ps(product, x), of_x = _mm512_sub_ps(sum, product);
    const __m512 lost =
        _mm512_add_ps(_mm512_sub_ps(product, _mm512_sub_ps(sum, of_x)), _mm512_sub_ps(x, of_x));
    __m512i bits = _mm512_castps_si512(sum);
    const __mmask16 even = _mm512_testn_epi32_mask(bits, one);
    const __mmask16 inexact = _mm512_mask_cmp_ps_mask(even, lost, zero, _CMP_NEQ_OQ);
    const __mmask16 away =
        _mm512_cmplt_epi32_mask(/* from 0: what was lost has the other sign */
                                _mm512_xor_si512(bits, _mm512_castps_si512(lost)),
                                _mm512_setzero_si512());
    bits = _mm512_mask_sub_epi32(bits, inexact & away, bits, one);
    bits = _mm512_mask_add_epi32(bits, (__mmask16)(inexact & ~away), bits, one);
    return _mm512_cvtps_ph(_mm512_castsi512_ps(bits), _MM_FROUND_TO_NEAREST_INT);
}

/* Called, not inlined: a micro-kernel has hundreds of them. */
static __attribute__((noinline, unused)) __m512i emulated_fmadd_ph(__m512i a, __m512i b, __m512i c)
{
    __m256i low = emulated_fmadd_half(_mm512_castsi512_si256(a), _mm512_castsi512_si256(b),
                                      _mm512_castsi512_si256(c));
    __m256i high =
        emulated_fmadd_half(_mm512_extracti64x4_epi64(a, 1), _mm512_extracti64x4_epi64(b, 1),
                            _mm512_extracti64x4_epi64(c, 1));
    return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}

/* Not every compiler knows the type without the instructions. */
#define __m512h                  __m512i
#define _mm512_fmadd_ph(a, b, c) emulated_fmadd_ph((__m512i)(a), (__m512i)(b), (__m512i)(c))

#endif
