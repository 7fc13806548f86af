/* SPDX-License-Identifier: Apache-2.0 */
/* flash_exp.h - part of flash_template.h: 2^x and tanh. Scores lie in the log2 domain: one factor
 * log2(e), in q or K, replaces a multiplication per exponential.
 *
 * Error bounds. test_simd_exp checks them over every argument, and the plan declares them:
 *   |exp2_negative(x) / 2^x - 1| <= ATTN_FLASH_E_EXP for -126 <= x <= 0; the error is at most
 *   2^-126 for smaller x, and exp2_negative(-inf) is 0
 *   |exp2_brief(x) / 2^x - 1| <= ATTN_PAIRS_E_EXP, and the same for smaller x
 *   |tanh_log2(x) / tanh(x / ATTN_FLASH_TANH) - 1| <= ATTN_FLASH_E_TANH for |x| >= 2^-124; the
 * error is at most 2^-148 for smaller |x| */
#define LOG2_E 1.44269504f

/* 2^x for x <= 0; NaN stays NaN. x = n + f with n the nearest integer, so that |f| <= 1/2. 2^f is a
 * polynomial of f, its `count` coefficients from the highest power down; the last is exactly 1, so
 * that 2^0 is 1. Where x is -inf, f and y are NaN: vf_times_power gives 0 whatever y is. */
FLASH_INLINE vf exp2_by(const float *coefficients, const int count, vf x)
{
    vf n = vf_round(x);
    vf f = vf_sub(x, n);
    vf y = vf_set1(coefficients[0]);
#pragma GCC unroll 8
    for (int c = 1; c < count; c++)
        y = vf_fma(y, f, vf_set1(coefficients[c]));
    return vf_times_power(y, n);
}

/* 2^x with the minimax polynomial of degree 5. */
FLASH_INLINE vf exp2_negative(vf x)
{
    const float coefficients[] = {0.00132647272469f, 0.00967151268815f, 0.0555073374357f,
                                  0.240222420846f,   0.693146977599f,   1.0f};
    return exp2_by(coefficients, 6, x);
}

/* 2^x with the one of degree 3: enough for a result that is rounded to 8 or 11 bits. */
FLASH_INLINE vf exp2_brief(vf x)
{
    const float coefficients[] = {0.0550090064f, 0.242211148f, 0.69328294f, 1.0f};
    return exp2_by(coefficients, 4, x);
}

/* tanh(x ln2 / 2) = (2^x - 1) / (2^x + 1), for any x; NaN stays NaN. With x = n + f as above,
 * s = 2^n and t = tanh(f ln2 / 2), the addition theorem gives
 *   ((s - 1) + (s + 1) t) / ((s + 1) + (s - 1) t).
 * For n = 0 this is t itself, so small x keep their relative precision. For other n the numerator
 * is at least 0.48 |s - 1|, so nothing cancels. t is f times the minimax polynomial of degree 2 in
 * f^2 (relative error 5.6e-8); its first coefficient is ln2 / 2, rounded. Well before x = 32 the
 * quotient is exactly 1. */
FLASH_INLINE vf tanh_log2(vf x)
{
    const vf magic = vf_set1(12582912.0f + 127.0f), one = vf_set1(1.0f);
    x = vf_min(vf_set1(32.0f), vf_max(vf_set1(-32.0f), x));
    vf n = vf_add(x, magic), s = vf_shift_to_exponent(n);
    vf f = vf_sub(x, vf_sub(n, magic)), z = vf_mul(f, f);
    vf t = vf_fma(vf_set1(0.000655601802f), z, vf_set1(-0.0138751865f));
    t = vf_mul(vf_fma(t, z, vf_set1(0.346573591f)), f);
    vf less = vf_sub(s, one), more = vf_add(s, one);
    return vf_div(vf_fma(more, t, less), vf_fma(less, t, more));
}
