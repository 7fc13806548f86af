/* SPDX-License-Identifier: Apache-2.0 */
/* tanh.c - tanh |x| = e / (e + 2), e = exp(2|x|) - 1, in steps that a compiler can vectorise: no
 * call, no branch, no table. */
#include "reference/tanh.h"

#include <math.h>
#include <string.h>

#include "reference/clones.h"

/* ln 2 in two parts: the first has 32 bits, so that its product with an exponent is exact. */
static const double ln2_high = 0x1.62e42feep-1, ln2_low = 0x1.a39ef35793c76p-33;
static const double per_ln2 = 0x1.71547652b82fep+0;

/* Adding it leaves the nearest whole number in the low bits of a double's fraction. */
static const double rounder = 0x1.8p52;

/* From here on tanh rounds to 1. */
static const double flat = 20.0;

/* exp(r) - 1 - r for |r| <= ln 2 / 2 by its Taylor series: what follows r^13 is below 2^-57 of r.
 */
static inline double curve(double r)
{
    double sum = 1.0 / 6227020800;

    sum = sum * r + 1.0 / 479001600;
    sum = sum * r + 1.0 / 39916800;
    sum = sum * r + 1.0 / 3628800;
    sum = sum * r + 1.0 / 362880;
    sum = sum * r + 1.0 / 40320;
    sum = sum * r + 1.0 / 5040;
    sum = sum * r + 1.0 / 720;
    sum = sum * r + 1.0 / 120;
    sum = sum * r + 1.0 / 24;
    sum = sum * r + 1.0 / 6;
    sum = sum * r + 1.0 / 2;
    return sum * r * r;
}

static inline double tanh_of(double x)
{
    double twice = 2.0 * (fabs(x) > flat ? flat : fabs(x)); /* NaN stays */
    double shifted = twice * per_ln2 + rounder, n = shifted - rounder;
    double high = twice - n * ln2_high, r = high - n * ln2_low, low = (high - r) - n * ln2_low;
    double power, line, e, below, quotient;
    uint64_t bits;

    /* 2^n: n stands in the low bits of `shifted`, and belongs into the exponent. */
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits + 1023) << 52;
    memcpy(&power, &bits, sizeof power);
    /* e = 2^n (1 + r + low + curve) - 1. The straight part leads, what its rounding lost goes with
     * the small ones; so does that of e + 2. */
    line = (power - 1.0) + power * r;
    low = power * low + (power * r - (line - (power - 1.0)));
    e = line + (low + power * curve(r));
    below = e + 2.0;
    quotient = e / below;
    return copysign(quotient - quotient * ((e - (below - 2.0)) / below), x);
}

ATTN_CLONES("avx2")
void ref_tanh(const double *x, int64_t count, double *y)
{
    for (int64_t j = 0; j < count; j++)
        y[j] = tanh_of(x[j]);
}
