/* SPDX-License-Identifier: Apache-2.0 */
/* vector_avx512.h - a vector of 16 floats and its operations, as vector_avx2.h describes them.
 * Needs AVX-512F alone. */
#ifndef ATTN_SIMD_VECTOR_AVX512_H
#define ATTN_SIMD_VECTOR_AVX512_H

#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>

#include "vector_bytes.h"

#define VF_LANES 16

typedef __m512 vf;

static inline vf vf_set1(float x)
{
    return _mm512_set1_ps(x);
}

static inline vf vf_lane_numbers(void)
{
    return _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}

static inline vf vf_load(const float *p)
{
    return _mm512_load_ps(p);
}

static inline vf vf_loadu(const float *p)
{
    return _mm512_loadu_ps(p);
}

static inline void vf_store(float *p, vf x)
{
    _mm512_store_ps(p, x);
}

static inline void vf_storeu(float *p, vf x)
{
    _mm512_storeu_ps(p, x);
}

static inline vf vf_load_first(const float *p, int64_t count)
{
    unsigned lanes = count <= 0 ? 0 : count >= 16 ? 0xffffu : (1u << count) - 1u;
    return _mm512_maskz_loadu_ps((__mmask16)lanes, p);
}

/* Sixteen 16-bit elements, or the first `count`: pairs by a masked load, an odd last one by itself.
 * A masked load of elements would need AVX512BW. */
static inline __m256i load_halves(const uint16_t *p, int64_t count)
{
    if (count >= 16)
        return _mm256_loadu_si256((const __m256i *)(const void *)p);
    unsigned n = count > 0 ? (unsigned)count : 0;
    __m512i x = _mm512_maskz_loadu_epi32((__mmask16)((1u << n / 2) - 1u), p);
    if (n % 2)
        x = _mm512_mask_set1_epi32(x, (__mmask16)(1u << n / 2), p[n - 1]);
    return _mm512_castsi512_si256(x);
}

static inline vf vf_load_f16(const uint16_t *p, int64_t count)
{
    return _mm512_cvtph_ps(load_halves(p, count));
}

static inline vf vf_load_bf16(const uint16_t *p, int64_t count)
{
    __m512i wide = _mm512_cvtepu16_epi32(load_halves(p, count));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}

static inline void vf_store_f16(uint16_t *p, vf x)
{
    _mm256_storeu_si256((__m256i *)(void *)p, _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}

static inline void vf_store_bf16(uint16_t *p, vf x)
{
    __m512i bits = _mm512_castps_si512(x), odd = _mm512_srli_epi32(bits, 16);
    odd = _mm512_and_si512(odd, _mm512_set1_epi32(1));
    __m512i near = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    near = _mm512_mask_or_epi32(near, nan, bits, _mm512_set1_epi32(0x400000));
    near = _mm512_srli_epi32(near, 16);
    _mm256_storeu_si256((__m256i *)(void *)p, _mm512_cvtepi32_epi16(near));
}

static inline vf vf_add(vf a, vf b)
{
    return _mm512_add_ps(a, b);
}

static inline vf vf_sub(vf a, vf b)
{
    return _mm512_sub_ps(a, b);
}

static inline vf vf_mul(vf a, vf b)
{
    return _mm512_mul_ps(a, b);
}

static inline vf vf_div(vf a, vf b)
{
    return _mm512_div_ps(a, b);
}

static inline vf vf_fma(vf a, vf b, vf c)
{
    return _mm512_fmadd_ps(a, b, c);
}

static inline vf vf_max(vf a, vf b)
{
    return _mm512_max_ps(a, b);
}

static inline vf vf_min(vf a, vf b)
{
    return _mm512_min_ps(a, b);
}

static inline vf vf_abs(vf a)
{
    return _mm512_abs_ps(a);
}

static inline vf vf_select_equal(vf a, vf b, vf yes, vf no)
{
    return _mm512_mask_mov_ps(no, _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ), yes);
}

static inline vf vf_select_bytes(const uint8_t *bytes, int64_t count, vf yes, vf no)
{
    __m128i few = _mm_set_epi64x((int64_t)first_bytes(bytes + 8, count - 8),
                                 (int64_t)first_bytes(bytes, count));
    __m512i wide = _mm512_cvtepu8_epi32(few);
    return _mm512_mask_mov_ps(no, _mm512_test_epi32_mask(wide, wide), yes);
}

static inline __attribute__((always_inline)) vf vf_mix(const int bit, vf a, vf b)
{
    const __mmask16 lanes = bit == 1 ? 0xaaaa : bit == 2 ? 0xcccc : bit == 4 ? 0xf0f0 : 0xff00;
    return _mm512_mask_mov_ps(a, lanes, b);
}

static inline vf vf_gather(const float *p, const int32_t *index, int32_t first)
{
    __m512i at = _mm512_sub_epi32(_mm512_loadu_si512(index), _mm512_set1_epi32(first));
    return _mm512_i32gather_ps(at, p, 4);
}

static inline vf vf_shift_to_exponent(vf a)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(a), 23));
}

static inline vf vf_round(vf a)
{
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

static inline vf vf_times_power(vf y, vf n)
{
    return _mm512_scalef_ps(y, n);
}

static inline bool vf_all_equal(vf a, vf b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ) == 0xffff;
}

static inline float vf_first(vf a)
{
    return _mm512_cvtss_f32(a);
}

static inline float vf_sum(vf a)
{
    return _mm512_reduce_add_ps(a);
}

/* Four steps. Each halves the number of vectors and doubles the number of sums in each. */
static inline vf vf_sums(const vf *x)
{
    __m512 a[8], b[4];
    for (int n = 0; n < 8; n++) /* lane pairs of each quarter: x[2n] x[2n + 1] x[2n] x[2n + 1] */
        a[n] = _mm512_add_ps(_mm512_unpacklo_ps(x[2 * n], x[2 * n + 1]),
                             _mm512_unpackhi_ps(x[2 * n], x[2 * n + 1]));
    for (int n = 0; n < 4; n++) /* each quarter: x[4n] to x[4n + 3] */
        b[n] = _mm512_add_ps(_mm512_shuffle_ps(a[2 * n], a[2 * n + 1], 0x44),
                             _mm512_shuffle_ps(a[2 * n], a[2 * n + 1], 0xee));
    __m512 low = _mm512_add_ps(_mm512_shuffle_f32x4(b[0], b[1], 0x88),
                               _mm512_shuffle_f32x4(b[0], b[1], 0xdd));
    __m512 high = _mm512_add_ps(_mm512_shuffle_f32x4(b[2], b[3], 0x88),
                                _mm512_shuffle_f32x4(b[2], b[3], 0xdd));
    return _mm512_add_ps(_mm512_shuffle_f32x4(low, high, 0x88),
                         _mm512_shuffle_f32x4(low, high, 0xdd));
}

static inline float vf_largest(vf a)
{
    return _mm512_reduce_max_ps(a);
}

/* 16 bytes of four rows, `step` bytes apart. */
static inline vf four_quarters(const char *p, int64_t step)
{
    __m512i x = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)(const void *)p));
    x = _mm512_inserti32x4(x, _mm_loadu_si128((const __m128i *)(const void *)(p + step)), 1);
    x = _mm512_inserti32x4(x, _mm_loadu_si128((const __m128i *)(const void *)(p + 2 * step)), 2);
    x = _mm512_inserti32x4(x, _mm_loadu_si128((const __m128i *)(const void *)(p + 3 * step)), 3);
    return _mm512_castsi512_ps(x);
}

/* A 16 x 16 block of 32-bit lanes, transposed. Its rows lie from_bytes apart. Times *factor or, if
 * that is NULL, bit by bit. Row 4m + n of each 4x4 block comes from lane block m of a load, so two
 * steps of shuffles within lanes are enough. */
static inline __attribute__((always_inline)) void
transpose(const void *from, int64_t from_bytes, const float *factor, float *to, int64_t to_stride)
{
    vf r[16], t[16];
#pragma GCC unroll 16
    for (int n = 0; n < 16; n++) /* columns 4*(n/4).. of rows n%4, n%4 + 4, + 8, + 12 */
        r[n] = four_quarters((const char *)from + n % 4 * from_bytes + n / 4 * 16, 4 * from_bytes);
#pragma GCC unroll 16
    for (int n = 0; n < 16; n += 2) {
        t[n] = _mm512_unpacklo_ps(r[n], r[n + 1]);
        t[n + 1] = _mm512_unpackhi_ps(r[n], r[n + 1]);
    }
#pragma GCC unroll 16
    for (int n = 0; n < 16; n++) {
        vf a = t[n / 4 * 4 + n % 4 / 2], b = t[n / 4 * 4 + n % 4 / 2 + 2];
        vf x = n % 2 ? _mm512_shuffle_ps(a, b, 0xee) : _mm512_shuffle_ps(a, b, 0x44);
        _mm512_store_ps(to + n * to_stride, factor ? vf_mul(vf_set1(*factor), x) : x);
    }
}

static inline void vf_transpose(const float *from, int64_t from_stride, float factor, float *to,
                                int64_t to_stride)
{
    transpose(from, from_stride * (int64_t)sizeof *from, &factor, to, to_stride);
}

#endif
