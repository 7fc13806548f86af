/* SPDX-License-Identifier: Apache-2.0 */
/* arithmetic.c - exp and roundings, right and wrong. */
#include <math.h>

#include "mutant.h"

#define LOG2E 1.44269504f
#define LN2   0.69314718f

/* 2^n e^r by a cubic, |r| <= ln 2 / 2. */
static float exp_cubic(float x)
{
    float n = rintf(x * LOG2E), r = x - n * LN2;
    return ldexpf(1 + r * (1 + r * (0.5f + r / 6)), (int)n);
}

/* Schraudolph, "A fast, compact approximation of the exponential function", 1999. */
static float exp_of_bits(float x)
{
    float bits = x * (8388608 * LOG2E) + 127 * 8388608.0f - 366393;
    return bits > 0 ? attn_f32_of_bits((uint32_t)fminf(bits, 2139095040.0f)) : 0;
}

float mutant_exp(float x)
{
    if (bug(exp2_for_exp))
        return exp2f(x);
    if (bug(exp_cubic) && x > -80)
        return exp_cubic(x);
    if (bug(exp_of_bits))
        return exp_of_bits(x);
    return expf(x);
}

float mutant_round(uint32_t dtype, float x)
{
    if (dtype == ATTN_BF16)
        return attn_f32_of_bf16(attn_bf16_of_f32(x));
    if (dtype == ATTN_F16)
        return attn_f32_of_f16(attn_f16_of_f32(x));
    return x;
}

float mutant_truncate(float x, int bits)
{
    return isfinite(x) ? attn_f32_of_bits(attn_f32_bits(x) >> bits << bits) : x;
}
