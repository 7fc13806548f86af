/* SPDX-License-Identifier: Apache-2.0 */
/* flash_exp.h - part of flash_template.h: 2^x and tanh. Scores lie in the log2 domain, so that one
 * factor of log2(e) is paid in q or k.
 *
 * Error bounds, checked over every argument by test_simd_exp and declared by the plan:
 *   |exp2_negative(x) / 2^x - 1| <= ATTN_FLASH_E_EXP for -126 <= x <= 0; within 2^-126 below,
 *   and 0 for -inf
 *   |exp2_brief(x) / 2^x - 1| <= ATTN_PAIRS_E_EXP likewise
 *   |tanh_log2(x) / tanh(x / ATTN_FLASH_TANH) - 1| <= ATTN_FLASH_E_TANH where |x| >= 2^-124,
 *   and within 2^-148 of it below */
#define LOG2_E 1.44269504f

/* 2^x for x <= 0; NaN stays NaN. x = n + f with n the nearest integer, so that |f| <= 1/2. The
 * polynomial is the minimax one of degree 5 for 2^f, constant term exactly 1 so that 2^0 is 1.
 * Where x is -inf f and y are NaN, which vf_times_power passes by. */
FLASH_INLINE vf exp2_negative(vf x)
{
    vf n = vf_round(x);
    vf f = vf_sub(x, n);
    vf y = vf_set1(0.00132647272469f);
    y = vf_fma(y, f, vf_set1(0.00967151268815f));
    y = vf_fma(y, f, vf_set1(0.0555073374357f));
    y = vf_fma(y, f, vf_set1(0.240222420846f));
    y = vf_fma(y, f, vf_set1(0.693146977599f));
    y = vf_fma(y, f, vf_set1(1.0f));
    return vf_times_power(y, n);
}

/* 2^x for x <= 0, as exp2_negative, to a degree that is enough for a result of 8
 * bits or 11. */
FLASH_INLINE vf exp2_brief(vf x)
{
    vf n = vf_round(x);
    vf f = vf_sub(x, n);
    vf y = vf_set1(0.0550090064f);
    y = vf_fma(y, f, vf_set1(0.242211148f));
    y = vf_fma(y, f, vf_set1(0.69328294f));
    y = vf_fma(y, f, vf_set1(1.0f));
    return vf_times_power(y, n);
}

/* tanh(x ln2 / 2) = (2^x - 1) / (2^x + 1), for any x; NaN stays NaN. With x = n + f as above,
 * s = 2^n and t = tanh(f ln2 / 2) the addition theorem makes it
 *   ((s - 1) + (s + 1) t) / ((s + 1) + (s - 1) t),
 * which is t itself where n is 0, so that small x keep their relative precision, and where it is
 * not the numerator is nowhere below 0.48 |s - 1|: nothing cancels. t is f times the minimax
 * polynomial of degree 2 in f^2 (relative error 5.6e-8), its first coefficient held at ln2 / 2
 * rounded. From 32 on, and long before, the quotient is exactly 1. */
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
