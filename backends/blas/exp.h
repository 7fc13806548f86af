/* SPDX-License-Identifier: Apache-2.0 */
/* exp.h - exp and tanh in f32 without branches and tables, so that loops over them become vector
 * code.
 *
 * Range reduction is by Cody and Waite: x = n ln 2 + r with |r| <= ln 2 / 2. n ln2_hi is exact.
 * Then exp(r) = 1 + r + r^2 g(r). g has degree 4 and interpolates at the Chebyshev nodes. Its error
 * is 0.18 u; the rest of the stated error is rounding. The test measures the error over the range.
 *
 * tanh(x) = E / (E + 2) with E = exp(2x) - 1 = 2^n (r + r^2 g(r)) + (2^n - 1). 2^n - 1 is exact up
 * to 2^24, and it is 0 if n is 0, so E keeps its relative error down to the smallest x. The
 * quotient multiplies this error by 2 / (E + 2), which is below 2, and below 1 for x > 0, and adds
 * two roundings. */
#ifndef ATTN_BLAS_EXP_H
#define ATTN_BLAS_EXP_H

#include <stdint.h>
#include <string.h>

/* x = n ln 2 + r. Returns 2^n and sets *e to exp(r) - 1. */
static inline float exp_parts(float x, float *e)
{
    const float to_integer = 0x1.8p23f; /* one ulp of a sum with it is 1 */
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
    /* n is in the low bits of `shifted`. Moved to the exponent field, it gives 2^n. For NaN or a
     * huge x these bits do not matter: NaN times anything is NaN, and callers use no result outside
     * their range. */
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
