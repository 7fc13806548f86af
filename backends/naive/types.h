/* SPDX-License-Identifier: Apache-2.0 */
/* types.h - f16 and bf16 to f32 and back, in integer code that a compiler can vectorise.
 *
 * Widening is exact. Narrowing rounds to nearest, ties to even; overflow gives infinity and NaN
 * stays a quiet NaN. */
#ifndef ATTN_NAIVE_TYPES_H
#define ATTN_NAIVE_TYPES_H

#include <stdint.h>
#include <string.h>

static inline uint32_t attn_naive_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static inline float attn_naive_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

static inline float attn_naive_from_bf16(uint16_t half)
{
    return attn_naive_float((uint32_t)half << 16);
}

static inline uint16_t attn_naive_to_bf16(float value)
{
    uint32_t bits = attn_naive_bits(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(bits >> 16 | 0x40u); /* NaN: the payload must not round up to infinity */
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

static inline float attn_naive_from_f16(uint16_t half)
{
    /* The exponent field moved into place is too small by 127 - 15 = 112; a product by 2^112 puts
     * that right, for subnormals too, and leaves only infinity and NaN to be marked. */
    uint32_t magnitude = (half & 0x7fffu) << 13;
    uint32_t sign = (half & 0x8000u) << 16;
    uint32_t bits = attn_naive_bits(attn_naive_float(magnitude) * 0x1p112f);
    bits |= magnitude >= 0x7c00u << 13 ? 0x7f800000u : 0u;
    return attn_naive_float(sign | bits);
}

static inline uint16_t attn_naive_to_f16(float value)
{
    uint32_t bits = attn_naive_bits(value);
    uint32_t sign = bits >> 16 & 0x8000u;
    bits &= 0x7fffffffu;
    if (bits > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00u | (bits >> 13 & 0x3ffu));
    if (bits >= 0x47800000u) /* 2^16 and above, infinity included */
        return (uint16_t)(sign | 0x7c00u);
    if (bits < 0x38800000u) { /* below 2^-14: in a sum with 0.5 one ulp is 2^-24, as needed */
        float sum = attn_naive_float(bits) + 0.5f;
        return (uint16_t)(sign | (attn_naive_bits(sum) - 0x3f000000u));
    }
    bits += 0xfffu + (bits >> 13 & 1u); /* a carry out of the mantissa is right, up to infinity */
    return (uint16_t)(sign | (bits - (112u << 23)) >> 13);
}

#endif
