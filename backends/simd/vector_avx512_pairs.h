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

/* Whether no bit is set. */
static inline bool vf_all_zero(vf x)
{
    __m512i bits = _mm512_castps_si512(x);
    return _mm512_test_epi32_mask(bits, bits) == 0;
}

#endif
