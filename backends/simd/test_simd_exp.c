/* SPDX-License-Identifier: Apache-2.0 */
/* test_simd_exp.c - the declared error bounds of the AVX2 instance's exp and tanh, against double:
 * exp over every f32 argument it can meet, tanh over every 61st. */
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

static void test_double_exp(void **state)
{
    (void)state;
    for (int n = 0; n < 128000; n++) {
        double x = -(double)n / 1000.7, want = exp2(x);
        double got = _mm256_cvtsd_f64(exp2_double(_mm256_set1_pd(x)));
        assert_true(fabs(got - want) <= 1e-15 * want);
    }
}

/* The relative errors of y = 2^x, four at a time. */
static __m256d errors(__m128 x, __m128 y)
{
    __m256d want = exp2_double(_mm256_cvtps_pd(x));
    __m256d error = _mm256_sub_pd(_mm256_cvtps_pd(y), want);
    return _mm256_div_pd(_mm256_andnot_pd(_mm256_set1_pd(-0.0), error), want);
}

/* Largest relative error over all arguments from -0 to -126, whose bits are consecutive. */
static double worst_exp(void)
{
    const uint32_t first = 0x80000000u, last = 0xc2fc0000u;
    __m256d worst = _mm256_setzero_pd();
    for (uint32_t bits = first; bits <= last; bits += STEP * VF_LANES) {
        __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
        __m256i all = _mm256_add_epi32(_mm256_set1_epi32((int)bits), lanes);
        __m256 x = _mm256_castsi256_ps(all), y = exp2_negative(x);
        __m128 x1 = _mm256_extractf128_ps(x, 1), y1 = _mm256_extractf128_ps(y, 1);
        worst = _mm256_max_pd(worst, errors(_mm256_castps256_ps128(x), _mm256_castps256_ps128(y)));
        worst = _mm256_max_pd(worst, errors(x1, y1));
    }
    double lanes[4], largest = 0.0;
    _mm256_storeu_pd(lanes, worst);
    for (int n = 0; n < 4; n++)
        largest = lanes[n] > largest ? lanes[n] : largest;
    return largest;
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

static void test_tanh(void **state)
{
    (void)state;
    double worst = 0.0;
    for (uint32_t bits = 0x00800000u; bits < 0x7f7f0000u; bits += 61u * VF_LANES) {
        float x[VF_LANES], y[VF_LANES];
        for (uint32_t n = 0; n < VF_LANES; n++)
            x[n] = from_bits(bits + 61u * n);
        vf_storeu(y, tanh_log2(vf_loadu(x)));
        double want = tanh((double)x[0]), error = fabs((double)y[0] - want) / want;
        worst = error > worst ? error : worst;
        for (int n = 0; n < VF_LANES; n++)
            assert_true(y[n] >= y[0] * (1 - 1e-6f) && y[n] <= 1.0f);
    }
    print_message("tanh: largest relative error %.3g\n", worst);
    assert_true(worst <= ATTN_FLASH_E_TANH);
    assert_true(worst >= 0.25 * ATTN_FLASH_E_TANH);
    assert_true(vf_first(tanh_log2(vf_set1(-INFINITY))) == -1.0f);
    assert_true(vf_first(tanh_log2(vf_set1(-0.5f))) == -vf_first(tanh_vector(vf_set1(0.5f))));
    assert_true(vf_first(tanh_log2(vf_set1(0x1p-149f))) == 0x1p-149f);
    assert_true(isnan(vf_first(tanh_log2(vf_set1(NAN)))));
}

int main(void)
{
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
        print_message("this processor has no AVX2 with FMA: nothing to test\n");
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_double_exp),
        cmocka_unit_test(test_exp),
        cmocka_unit_test(test_exp_ends),
        cmocka_unit_test(test_tanh),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
