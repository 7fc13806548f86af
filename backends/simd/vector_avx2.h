/* SPDX-License-Identifier: Apache-2.0 */
/* vector_avx2.h - a vector of 8 floats and its operations: AVX2, FMA and F16C. It is the model for
 * other vector types: comments here say what an operation must do in all of them.
 *
 * An operation works lane by lane unless its comment says otherwise. Rounding is to nearest even.
 */
#ifndef ATTN_SIMD_VECTOR_AVX2_H
#define ATTN_SIMD_VECTOR_AVX2_H

#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>

#include "vector_bytes.h"

#define VF_LANES 8

typedef __m256 vf;

static inline vf vf_set1(float x)
{
    return _mm256_set1_ps(x);
}

/* {0, 1, 2, ...} */
static inline vf vf_lane_numbers(void)
{
    return _mm256_setr_ps(0, 1, 2, 3, 4, 5, 6, 7);
}

/* vf_load and vf_store: aligned to the vector. vf_loadu and vf_storeu: aligned to the element. */
static inline vf vf_load(const float *p)
{
    return _mm256_load_ps(p);
}

static inline vf vf_loadu(const float *p)
{
    return _mm256_loadu_ps(p);
}

static inline void vf_store(float *p, vf x)
{
    _mm256_store_ps(p, x);
}

static inline void vf_storeu(float *p, vf x)
{
    _mm256_storeu_ps(p, x);
}

/* The first `count` floats. count <= 0: none; count >= VF_LANES: all. Other lanes are 0 and are not
 * read. */
static inline vf vf_load_first(const float *p, int64_t count)
{
    __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_maskload_ps(p, _mm256_cmpgt_epi32(_mm256_set1_epi32((int)count), lane));
}

/* Eight 16-bit elements, or the first `count`: pairs by a masked load, an odd last one by itself.
 */
static inline __m128i load_halves(const uint16_t *p, int64_t count)
{
    if (count >= 8)
        return _mm_loadu_si128((const __m128i *)(const void *)p);
    const __m128i lane = _mm_setr_epi32(0, 1, 2, 3);
    const __m128i pairs = _mm_set1_epi32(count > 0 ? (int)count / 2 : 0);
    __m128i x = _mm_maskload_epi32((const int *)(const void *)p, _mm_cmpgt_epi32(pairs, lane));
    if (count <= 0 || count % 2 == 0)
        return x;
    __m128i last = _mm_and_si128(_mm_cmpeq_epi32(pairs, lane), _mm_set1_epi32(p[count - 1]));
    return _mm_or_si128(x, last);
}

/* 16-bit elements as floats, with the rules of vf_load_first. */
static inline vf vf_load_f16(const uint16_t *p, int64_t count)
{
    return _mm256_cvtph_ps(load_halves(p, count));
}

static inline vf vf_load_bf16(const uint16_t *p, int64_t count)
{
    __m256i wide = _mm256_cvtepu16_epi32(load_halves(p, count));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}

/* All lanes as 16-bit elements. NaN stays NaN. */
static inline void vf_store_f16(uint16_t *p, vf x)
{
    _mm_storeu_si128((__m128i *)(void *)p, _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}

static inline void vf_store_bf16(uint16_t *p, vf x)
{
    __m256i bits = _mm256_castps_si256(x), odd = _mm256_srli_epi32(bits, 16);
    odd = _mm256_and_si256(odd, _mm256_set1_epi32(1));
    __m256i near = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    near = _mm256_srli_epi32(_mm256_blendv_epi8(near, quiet, nan), 16);
    near = _mm256_permute4x64_epi64(_mm256_packus_epi32(near, near), 0x08);
    _mm_storeu_si128((__m128i *)(void *)p, _mm256_castsi256_si128(near));
}

static inline vf vf_add(vf a, vf b)
{
    return _mm256_add_ps(a, b);
}

static inline vf vf_sub(vf a, vf b)
{
    return _mm256_sub_ps(a, b);
}

static inline vf vf_mul(vf a, vf b)
{
    return _mm256_mul_ps(a, b);
}

static inline vf vf_div(vf a, vf b)
{
    return _mm256_div_ps(a, b);
}

/* a * b + c, rounded once. */
static inline vf vf_fma(vf a, vf b, vf c)
{
    return _mm256_fmadd_ps(a, b, c);
}

/* b if either is NaN. */
static inline vf vf_max(vf a, vf b)
{
    return _mm256_max_ps(a, b);
}

static inline vf vf_min(vf a, vf b)
{
    return _mm256_min_ps(a, b);
}

static inline vf vf_abs(vf a)
{
    return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a);
}

/* `yes` if a == b, else `no`. NaN equals nothing. */
static inline vf vf_select_equal(vf a, vf b, vf yes, vf no)
{
    return _mm256_blendv_ps(no, yes, _mm256_cmp_ps(a, b, _CMP_EQ_OQ));
}

/* `yes` if the byte of the lane is not 0, else `no`. Bytes from `count` on are not read: `no`. */
static inline vf vf_select_bytes(const uint8_t *bytes, int64_t count, vf yes, vf no)
{
    __m128i few = _mm_cvtsi64_si128((int64_t)first_bytes(bytes, count));
    __m256i zero = _mm256_cmpeq_epi32(_mm256_cvtepu8_epi32(few), _mm256_setzero_si256());
    return _mm256_blendv_ps(yes, no, _mm256_castsi256_ps(zero));
}

/* b in the lanes whose number has this bit, else a. `bit` is a constant: 1, 2, 4, ... */
static inline __attribute__((always_inline)) vf vf_mix(const int bit, vf a, vf b)
{
    return bit == 1   ? _mm256_blend_ps(a, b, 0xaa)
           : bit == 2 ? _mm256_blend_ps(a, b, 0xcc)
                      : _mm256_blend_ps(a, b, 0xf0);
}

/* Lane n is p[index[n] - first]. */
static inline vf vf_gather(const float *p, const int32_t *index, int32_t first)
{
    __m256i at = _mm256_loadu_si256((const __m256i *)(const void *)index);
    return _mm256_i32gather_ps(p, _mm256_sub_epi32(at, _mm256_set1_epi32(first)), 4);
}

/* The bits of a, shifted left by 23. */
static inline vf vf_shift_to_exponent(vf a)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(a), 23));
}

/* The nearest integer. */
static inline vf vf_round(vf a)
{
    return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

/* y * 2^n, for y of [1/2, 2] and integers n <= 0. For n < -126 the error is at most 2^-126. 0 if n
 * is -inf, even if y is NaN. NaN if n is. */
static inline vf vf_times_power(vf y, vf n)
{
    __m256i power = _mm256_slli_epi32(_mm256_cvtps_epi32(n), 23);
    vf product = _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(y), power));
    return _mm256_and_ps(product, _mm256_cmp_ps(n, _mm256_set1_ps(-126.0f), _CMP_NLT_UQ));
}

/* Whether all lanes are equal. */
static inline bool vf_all_equal(vf a, vf b)
{
    return _mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_EQ_OQ)) == 0xff;
}

/* The first lane. */
static inline float vf_first(vf a)
{
    return _mm256_cvtss_f32(a);
}

/* The sum of all lanes. */
static inline float vf_sum(vf a)
{
    __m128 x = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    x = _mm_add_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)));
}

/* Lane n is the sum of the lanes of x[n], for VF_LANES vectors. */
static inline vf vf_sums(const vf *x)
{
    __m256 low = _mm256_hadd_ps(_mm256_hadd_ps(x[0], x[1]), _mm256_hadd_ps(x[2], x[3]));
    __m256 high = _mm256_hadd_ps(_mm256_hadd_ps(x[4], x[5]), _mm256_hadd_ps(x[6], x[7]));
    return _mm256_add_ps(_mm256_permute2f128_ps(low, high, 0x20),
                         _mm256_permute2f128_ps(low, high, 0x31));
}

/* The largest lane. */
static inline float vf_largest(vf a)
{
    __m128 x = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    x = _mm_max_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_max_ss(x, _mm_movehdup_ps(x)));
}

/* A block of VF_LANES x VF_LANES floats, transposed and multiplied by a factor. `to` is aligned to
 * the vector, `from` to the element. */
static inline void vf_transpose(const float *from, int64_t from_stride, float factor, float *to,
                                int64_t to_stride)
{
    __m256 r[8], t[8], by = _mm256_set1_ps(factor);
    for (int n = 0; n < 8; n++)
        r[n] = _mm256_mul_ps(by, _mm256_loadu_ps(from + n * from_stride));
    for (int n = 0; n < 8; n += 2) {
        t[n] = _mm256_unpacklo_ps(r[n], r[n + 1]);
        t[n + 1] = _mm256_unpackhi_ps(r[n], r[n + 1]);
    }
    for (int n = 0; n < 8; n += 4) {
        r[n] = _mm256_shuffle_ps(t[n], t[n + 2], 0x44);
        r[n + 1] = _mm256_shuffle_ps(t[n], t[n + 2], 0xee);
        r[n + 2] = _mm256_shuffle_ps(t[n + 1], t[n + 3], 0x44);
        r[n + 3] = _mm256_shuffle_ps(t[n + 1], t[n + 3], 0xee);
    }
    for (int n = 0; n < 4; n++) {
        _mm256_store_ps(to + n * to_stride, _mm256_permute2f128_ps(r[n], r[n + 4], 0x20));
        _mm256_store_ps(to + (n + 4) * to_stride, _mm256_permute2f128_ps(r[n], r[n + 4], 0x31));
    }
}

#endif
