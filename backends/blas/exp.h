/* SPDX-License-Identifier: Apache-2.0 */
/* exp.h - exp in f32 without a branch or a table, so that a loop over it becomes vector code.
 *
 * Range reduction by Cody and Waite: x = n ln 2 + r with |r| <= ln 2 / 2, where n ln2_hi is exact;
 * then exp(r) = 1 + r + r^2 g(r), g of degree 4 interpolating at the Chebyshev nodes (its error is
 * 0.18 u; the rest of the stated error is rounding). The test measures the error over the range. */
#ifndef ATTN_BLAS_EXP_H
#define ATTN_BLAS_EXP_H

#include <stdint.h>
#include <string.h>

static inline float exp_f32_inline(float x)
{
    const float least = -0x1.5d589ep6f; /* ln 2^-126: below it the result is 0 */
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
    float y = g * (r * r) + r + 1.0f;
    /* n is in the low bits of `shifted`; moved to the exponent field it makes 2^n. What NaN or a
     * huge x makes of these bits does not matter: NaN times anything is NaN, and below `least`
     * the product is not used. */
    uint32_t bits;
    memcpy(&bits, &shifted, sizeof(bits));
    bits = (bits + 127u) << 23;
    memcpy(&power, &bits, sizeof(power));
    return x < least ? 0.0f : y * power;
}

#endif
