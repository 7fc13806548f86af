/* SPDX-License-Identifier: Apache-2.0 */
/* tanh.h - tanh of doubles. Additive scores compute one per hidden unit and cell. tanh |x| = e / (e
 * + 2), e = exp(2|x|) - 1. A compiler can vectorise it: there is no call, no branch and no table.
 */
#ifndef ATTN_REFERENCE_TANH_H
#define ATTN_REFERENCE_TANH_H

#include <math.h>
#include <stdint.h>
#include <string.h>

/* exp(r) - 1 - r for |r| <= ln 2 / 2 by its Taylor series. The terms after r^13 are below 2^-57 of
 * r. Even and odd powers are summed separately, because a long chain of dependent steps is slow. */
static inline double ref_tanh_curve(double r)
{
    const double rr = r * r;
    double even = 1.0 / 479001600, odd = 1.0 / 6227020800;

    even = even * rr + 1.0 / 3628800;
    odd = odd * rr + 1.0 / 39916800;
    even = even * rr + 1.0 / 40320;
    odd = odd * rr + 1.0 / 362880;
    even = even * rr + 1.0 / 720;
    odd = odd * rr + 1.0 / 5040;
    even = even * rr + 1.0 / 24;
    odd = odd * rr + 1.0 / 120;
    even = even * rr + 1.0 / 2;
    odd = odd * rr + 1.0 / 6;
    return (odd * r + even) * rr;
}

/* tanh(x), within 2 ulp. NaN, infinities, signed zeros and subnormals give what the C library
 * gives. The bits are the same on every machine. */
static inline double ref_tanh_of(double x)
{
    /* ln 2 in two parts: the first has 32 bits, so that its product with an exponent is exact. */
    const double ln2_high = 0x1.62e42feep-1, ln2_low = 0x1.a39ef35793c76p-33;
    const double per_ln2 = 0x1.71547652b82fep+0;
    /* Adding it leaves the nearest whole number in the low bits of a double's fraction. */
    const double rounder = 0x1.8p52;
    /* Beyond this, 1 is within 1.03 ulp. Up to it, e is below 2^54, and e + 2 is no tie. */
    const double flat = 18.7;
    double twice = 2.0 * fabs(x);
    double shifted = twice * per_ln2 + rounder, n = shifted - rounder;
    double high = twice - n * ln2_high, r = high - n * ln2_low, low = (high - r) - n * ln2_low;
    double power, line, e, below, quotient, lost, y;
    uint64_t bits;

    /* 2^n: moves n from the low bits of `shifted` into the exponent. */
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits + 1023) << 52;
    memcpy(&power, &bits, sizeof power);
    /* e = 2^n (1 + r + low + curve) - 1. The linear part is `line`. What its rounding lost is added
     * to the small parts. What the rounding of e + 2 lost is corrected below. */
    line = (power - 1.0) + power * r;
    low = power * low + (power * r - (line - (power - 1.0)));
    e = line + (low + power * ref_tanh_curve(r));
    below = e + 2.0;
    /* 1 / (e + 2) = (1 - quotient) / 2 is accurate enough for that correction. */
    quotient = e / below;
    lost = (e - (below - 2.0)) * (0.5 - 0.5 * quotient);
    y = quotient - quotient * lost;
    return copysign(fabs(x) > flat ? 1.0 : y, x); /* NaN stays */
}

/* y_j = tanh(x_j). y may be x. */
void ref_tanh(const double *x, int64_t count, double *y);

#endif
