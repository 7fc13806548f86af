/* SPDX-License-Identifier: Apache-2.0 */
/* vector_avx512_pairs.h - operations on pairs of 16-bit elements (flash_pack_pairs.h) that only
 * move bits, whatever the type. Needs AVX-512 BW and VL. */
#ifndef ATTN_SIMD_VECTOR_AVX512_PAIRS_H
#define ATTN_SIMD_VECTOR_AVX512_PAIRS_H

#include "vector_avx512.h"

/* The first `count` of 2 * VF_LANES elements as pairs. Others are 0 and are not read. */
static inline vf vf_pairs(const uint16_t *p, int64_t count)
{
    uint32_t lanes = count <= 0 ? 0 : count >= 32 ? 0xffffffffu : (UINT32_C(1) << count) - 1u;
    return _mm512_castsi512_ps(_mm512_maskz_loadu_epi16(lanes, p));
}

/* The first `count` of 16 elements, each in the low half of 32 bits. */
static inline __m512i low_halves(const uint16_t *p, int64_t count)
{
    unsigned lanes = count <= 0 ? 0 : count >= 16 ? 0xffffu : (1u << count) - 1u;
    return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16((__mmask16)lanes, p));
}

/* The first even_count of VF_LANES elements in the low halves of pairs, the first odd_count of
 * others in the high halves. Others are 0 and are not read. */
static inline vf vf_pairs_of(const uint16_t *even, int64_t even_count, const uint16_t *odd,
                             int64_t odd_count)
{
    __m512i high = _mm512_slli_epi32(low_halves(odd, odd_count), 16);
    return _mm512_castsi512_ps(_mm512_or_si512(low_halves(even, even_count), high));
}

/* 2 * VF_LANES elements of each of VF_LANES rows become VF_LANES rows of pairs. `to` is aligned to
 * the vector. */
static inline void vf_pairs_transpose(const uint16_t *from, int64_t from_stride, float *to,
                                      int64_t to_stride)
{
    transpose(from, from_stride * (int64_t)sizeof *from, NULL, to, to_stride);
}

/* The low halves of all lanes of a, then those of b. */
static inline vf vf_low_halves(vf a, vf b)
{
    return (vf)_mm512_permutex2var_epi16(
        (__m512i)a,
        _mm512_setr_epi32(0x00020000, 0x00060004, 0x000a0008, 0x000e000c, 0x00120010, 0x00160014,
                          0x001a0018, 0x001e001c, 0x00220020, 0x00260024, 0x002a0028, 0x002e002c,
                          0x00320030, 0x00360034, 0x003a0038, 0x003e003c),
        (__m512i)b);
}

/* The same of the high halves. */
static inline vf vf_high_halves(vf a, vf b)
{
    return vf_low_halves((vf)_mm512_srli_epi32((__m512i)a, 16),
                         (vf)_mm512_srli_epi32((__m512i)b, 16));
}

/* Whether no bit is set. */
static inline bool vf_all_zero(vf x)
{
    __m512i bits = _mm512_castps_si512(x);
    return _mm512_test_epi32_mask(bits, bits) == 0;
}

#endif
