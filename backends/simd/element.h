/* SPDX-License-Identifier: Apache-2.0 */
/* element.h - elements of f32, f16 and bf16, one at a time, in plain C: for what lies scattered or
 * is met once. Whole vectors are converted by the instances (flash_convert.h).
 *
 * Widening is exact. Narrowing rounds to nearest, ties to even; overflow gives infinity and NaN
 * stays a quiet NaN. */
#ifndef ATTN_SIMD_ELEMENT_H
#define ATTN_SIMD_ELEMENT_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "attnbench/backend.h"

/* Whether elements of a type can be read and written here. */
static inline bool attn_element_known(uint32_t dtype)
{
    return dtype == ATTN_F32 || dtype == ATTN_F16 || dtype == ATTN_BF16;
}

static inline int64_t attn_element_size(uint32_t dtype)
{
    return dtype == ATTN_F32 ? 4 : 2;
}

static inline const char *attn_element_name(uint32_t dtype)
{
    return dtype == ATTN_F32 ? "f32" : dtype == ATTN_F16 ? "f16" : "bf16";
}

static inline uint32_t attn_bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float attn_from_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline float attn_from_bf16(uint16_t x)
{
    return attn_from_bits((uint32_t)x << 16);
}

static inline uint16_t attn_to_bf16(float x)
{
    uint32_t bits = attn_bits_of(x);
    if (isnan(x))
        return (uint16_t)(bits >> 16 | 0x40u); /* quiet; not rounded up to infinity */
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

static inline float attn_from_f16(uint16_t x)
{
    uint32_t sign = (x & 0x8000u) << 16, exponent = x >> 10 & 31u, mantissa = x & 0x3ffu;
    if (exponent == 0) /* units of 2^-24 */
        return attn_from_bits(sign | attn_bits_of((float)mantissa * 0x1p-24f));
    exponent += exponent == 31 ? 224 : 112; /* 255: infinity, NaN; else the other bias */
    return attn_from_bits(sign | exponent << 23 | mantissa << 13);
}

static inline uint16_t attn_to_f16(float x)
{
    uint32_t bits = attn_bits_of(x), sign = bits >> 16 & 0x8000u;
    bits &= 0x7fffffffu;
    if (isnan(x))
        return (uint16_t)(sign | 0x7e00u);
    if (bits < 0x38800000u) /* below 2^-14, the least normal: again units of 2^-24 */
        return (uint16_t)(sign | (uint32_t)lrintf(attn_from_bits(bits) * 0x1p24f));
    if (bits >= 0x477ff000u) /* from 65520, half way to 2^16, on */
        return (uint16_t)(sign | 0x7c00u);
    bits += 0xfffu + (bits >> 13 & 1u); /* a carry into the exponent is right */
    return (uint16_t)(sign | (bits - (112u << 23)) >> 13);
}

/* Element `index` of an operand. */
static inline float attn_element(uint32_t dtype, const void *data, int64_t index)
{
    if (dtype == ATTN_F32)
        return ((const float *)data)[index];
    uint16_t half = ((const uint16_t *)data)[index];
    return dtype == ATTN_F16 ? attn_from_f16(half) : attn_from_bf16(half);
}

static inline void attn_element_set(uint32_t dtype, void *data, int64_t index, float x)
{
    if (dtype == ATTN_F32)
        ((float *)data)[index] = x;
    else
        ((uint16_t *)data)[index] = dtype == ATTN_F16 ? attn_to_f16(x) : attn_to_bf16(x);
}

#endif
