/* SPDX-License-Identifier: Apache-2.0 */
/* test_simd_exp.c - the declared error bounds of the AVX2 instance's exp and tanh, against double:
 * exp over every f32 argument it can meet, tanh over all there are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "flash_f32_avx2.c" /* NOLINT(bugprone-suspicious-include): tests what is static */

#include <cmocka.h>

/* Unoptimised or under a sanitizer, where it is done ten times slower, every 31st group of eight.
 */
#if !defined(__OPTIMIZE__) || defined(__SANITIZE_ADDRESS__)
#define STEP 31u
#else
#define STEP 1u
#endif

static float from_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* 2^x in double for -1000 < x <= 0: the Taylor series of 2^f, |f| <= 1/2, to the 14th power, after
 * which less than 1e-18 is left; x is taken apart as exp2_negative does it. */
static __m256d exp2_double(__m256d x)
{
    static const double inverse[] = {1.0 / 14, 1.0 / 13, 1.0 / 12, 1.0 / 11, 1.0 / 10,
                                     1.0 / 9,  1.0 / 8,  1.0 / 7,  1.0 / 6,  1.0 / 5,
                                     1.0 / 4,  1.0 / 3,  1.0 / 2,  1.0};
    const __m256d magic = _mm256_set1_pd(6755399441055744.0 + 1023.0), one = _mm256_set1_pd(1.0);
    __m256d n = _mm256_add_pd(x, magic);
    __m256d f = _mm256_sub_pd(x, _mm256_sub_pd(n, magic)), y = one;
    f = _mm256_mul_pd(f, _mm256_set1_pd(0.69314718055994530942));
    for (int k = 0; k < 14; k++)
        y = _mm256_fmadd_pd(y, _mm256_mul_pd(f, _mm256_set1_pd(inverse[k])), one);
    __m256i power = _mm256_slli_epi64(_mm256_castpd_si256(n), 52);
    return _mm256_mul_pd(y, _mm256_castsi256_pd(power));
}

/* tanh(x ln2 / 2) in double for x >= 0: two terms of its series for small x, which leave 1e-14,
 * otherwise (1 - e) / (1 + e), e = 2^-x, which loses 1e-12 at 2^-10. The four x are neighbours. */
static __m256d tanh_double(__m256d x)
{
    const __m256d one = _mm256_set1_pd(1.0), third = _mm256_set1_pd(1.0 / 3.0);
    if (_mm256_cvtsd_f64(x) < 0x1p-10) {
        __m256d h = _mm256_mul_pd(x, _mm256_set1_pd(0.34657359027997265471));
        return _mm256_fnmadd_pd(_mm256_mul_pd(h, third), _mm256_mul_pd(h, h), h);
    }
    if (_mm256_cvtsd_f64(x) >= 64.0)
        return one;
    __m256d e = exp2_double(_mm256_sub_pd(_mm256_setzero_pd(), x));
    return _mm256_div_pd(_mm256_sub_pd(one, e), _mm256_add_pd(one, e));
}

/* The errors of y, four at a time. */
static __m256d errors(__m128 y, __m256d want)
{
    return _mm256_andnot_pd(_mm256_set1_pd(-0.0), _mm256_sub_pd(_mm256_cvtps_pd(y), want));
}

/* The larger of two, NaN being the largest of all. */
static __m256d larger(__m256d worst, __m256d error)
{
    __m256d broken = _mm256_cmp_pd(error, error, _CMP_UNORD_Q);
    return _mm256_max_pd(worst, _mm256_blendv_pd(error, _mm256_set1_pd(INFINITY), broken));
}

static double largest_of(__m256d x)
{
    double lanes[4], largest = 0.0;
    _mm256_storeu_pd(lanes, x);
    for (int n = 0; n < 4; n++)
        largest = lanes[n] > largest ? lanes[n] : largest;
    return largest;
}

/* The four upper lanes, or the lower ones. */
static __m128 half(__m256 x, int upper)
{
    return upper ? _mm256_extractf128_ps(x, 1) : _mm256_castps256_ps128(x);
}

static __m256 neighbours(uint32_t bits)
{
    __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_set1_epi32((int)bits), lanes));
}

static void test_double(void **state)
{
    (void)state;
    for (int n = 0; n < 60000; n++) {
        double x = 70.0 * exp2(-(double)n / 2300.7);
        double want = tanh(x * 0.34657359027997265471);
        double got = _mm256_cvtsd_f64(tanh_double(_mm256_set1_pd(x)));
        assert_true(fabs(got - want) <= 2e-12 * want);
    }
    for (int n = 0; n < 128000; n++) {
        double x = -(double)n / 1000.7, want = exp2(x);
        double got = _mm256_cvtsd_f64(exp2_double(_mm256_set1_pd(x)));
        assert_true(fabs(got - want) <= 1e-15 * want);
    }
}

/* Largest relative error over all arguments from -0 to -126, whose bits are consecutive. */
static double worst_exp(void)
{
    const uint32_t first = 0x80000000u, last = 0xc2fc0000u;
    __m256d worst = _mm256_setzero_pd();
    for (uint32_t bits = first; bits <= last; bits += STEP * VF_LANES) {
        __m256 x = neighbours(bits), y = exp2_negative(x);
        for (int n = 0; n < 2; n++) {
            __m256d want = exp2_double(_mm256_cvtps_pd(half(x, n)));
            worst = larger(worst, _mm256_div_pd(errors(half(y, n), want), want));
        }
    }
    return largest_of(worst);
}

static void test_exp(void **state)
{
    (void)state;
    double worst = worst_exp();
    print_message("exp2: largest relative error %.3g\n", worst);
    assert_true(worst <= ATTN_FLASH_E_EXP);
    assert_true(worst >= 0.25 * ATTN_FLASH_E_EXP); /* a bound far off is declared wrongly as well */
}

static void test_exp_ends(void **state)
{
    (void)state;
    assert_true(vf_first(exp2_negative(vf_set1(0.0f))) == 1.0f);
    assert_true(vf_first(exp2_negative(vf_set1(-0.0f))) == 1.0f);
    assert_true(vf_first(exp2_negative(vf_set1(-INFINITY))) == 0.0f);
    assert_true(isnan(vf_first(exp2_negative(vf_set1(NAN)))));
    assert_true(isnan(vf_first(exp2_negative(vf_set1(from_bits(0xffc12345u))))));
    for (uint32_t bits = 0xc2fd0001u; bits < 0xff800000u; bits += 977)
        assert_true(vf_first(exp2_negative(vf_set1(from_bits(bits)))) == 0.0f);
}

/* Largest errors over arguments of both signs whose sizes have the bits [first, last): relative, or
 * absolute. */
static double worst_tanh(uint32_t first, uint32_t last, bool relative)
{
    __m256d worst = _mm256_setzero_pd();
    for (uint32_t bits = first; bits < last; bits += STEP * VF_LANES) {
        __m256 x = neighbours(bits), sign = _mm256_set1_ps(-0.0f), y = tanh_log2(x);
        __m256 minus_y = _mm256_xor_ps(tanh_log2(_mm256_xor_ps(x, sign)), sign);
        for (int n = 0; n < 2; n++) {
            __m256d want = tanh_double(_mm256_cvtps_pd(half(x, n)));
            __m256d error = larger(errors(half(y, n), want), errors(half(minus_y, n), want));
            worst = larger(worst, relative ? _mm256_div_pd(error, want) : error);
        }
    }
    return largest_of(worst);
}

static void test_tanh(void **state)
{
    (void)state;
    const uint32_t normal = 0x01800000u, infinite = 0x7f800000u; /* bits of 2^-124 and of Inf */
    double worst = worst_tanh(normal, infinite, true);
    print_message("tanh: largest relative error %.3g\n", worst);
    assert_true(worst <= ATTN_FLASH_E_TANH);
    assert_true(worst >= 0.25 * ATTN_FLASH_E_TANH);
    assert_true(worst_tanh(0, normal, false) <= 0x1p-148);
}

static void test_tanh_ends(void **state)
{
    (void)state;
    assert_true(vf_first(tanh_log2(vf_set1(INFINITY))) == 1.0f);
    assert_true(vf_first(tanh_log2(vf_set1(-INFINITY))) == -1.0f);
    assert_true(vf_first(tanh_log2(vf_set1(3e38f))) == 1.0f);
    assert_true(vf_first(tanh_log2(vf_set1(0.0f))) == 0.0f);
    assert_true(isnan(vf_first(tanh_log2(vf_set1(NAN)))));
    assert_true(isnan(vf_first(tanh_log2(vf_set1(from_bits(0xffc12345u))))));
}

int main(void)
{
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
        print_message("this processor has no AVX2 with FMA: nothing to test\n");
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_double),    cmocka_unit_test(test_exp),
        cmocka_unit_test(test_exp_ends),  cmocka_unit_test(test_tanh),
        cmocka_unit_test(test_tanh_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
