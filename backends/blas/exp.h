/* SPDX-License-Identifier: Apache-2.0 */
/* exp.h - exp and tanh in f32 without a branch or a table, so that a loop over them becomes vector
 * code.
 *
 * Range reduction by Cody and Waite: x = n ln 2 + r with |r| <= ln 2 / 2, where n ln2_hi is exact;
 * then exp(r) = 1 + r + r^2 g(r), g of degree 4 interpolating at the Chebyshev nodes (its error is
 * 0.18 u; the rest of the stated error is rounding). The test measures the error over the range.
 *
 * tanh(x) = E / (E + 2), E = exp(2x) - 1 = 2^n (r + r^2 g(r)) + (2^n - 1): 2^n - 1 is exact up to
 * 2^24, and 0 where n is, so that E keeps its relative error down to the least x. The quotient
 * multiplies that by 2 / (E + 2), below 2 and for x > 0 below 1, and adds two roundings. */
#ifndef ATTN_BLAS_EXP_H
#define ATTN_BLAS_EXP_H

#include <stdint.h>
#include <string.h>

/* x = n ln 2 + r; returns 2^n and sets *e to exp(r) - 1. */
static inline float exp_parts(float x, float *e)
{
    const float to_integer = 0x1.8p23f; /* in a sum with it, one ulp is 1 */
    const float log2_e = 0x1.715476p0f;
    const float ln2_hi = 0x1.62e4p-1f, ln2_lo = 0x1.7f7d1cp-20f;
    float shifted = x * log2_e + to_integer, n = shifted - to_integer, r = x - n * ln2_hi, power;
    r -= n * ln2_lo;
    float g = 0x1.6d113cp-10f;
    g = g * r + 0x1.120ba2p-7f;
    g = g * r + 0x1.55551ap-5f;
    g = g * r + 0x1.5554dcp-3f;
    g = g * r + 0x1p-1f;
    *e = g * (r * r) + r;
    /* n is in the low bits of `shifted`; moved to the exponent field it makes 2^n. What NaN or a
     * huge x makes of these bits does not matter: NaN times anything is NaN, and the callers use
     * no result outside their range. */
    uint32_t bits;
    memcpy(&bits, &shifted, sizeof(bits));
    bits = (bits + 127u) << 23;
    memcpy(&power, &bits, sizeof(power));
    return power;
}

static inline float exp_f32_inline(float x)
{
    const float least = -0x1.5d589ep6f; /* ln 2^-126: below it the result is 0 */
    float e, power = exp_parts(x, &e);
    return x < least ? 0.0f : (e + 1.0f) * power;
}

static inline float tanh_f32_inline(float x)
{
    const float end = 10.0f; /* tanh is 1 in f32 from 9.02 on */
    float inside = x > end ? end : x < -end ? -end : x, e;
    float power = exp_parts(inside + inside, &e);
    e = power * e + (power - 1.0f);
    return e / (e + 2.0f);
}

#endif
