/* SPDX-License-Identifier: Apache-2.0 */
/* test_simd_exp.c - the declared error bounds of an instance's exp and tanh, against double: exp
 * over every f32 argument it can meet, tanh over all there are; and its conversions, over every
 * 16-bit number. Compiled once for each instance. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include TEST_INSTANCE /* its source: tests what is static */

#include <cmocka.h>

/* The exp of weights. */
#if FLASH_PAIRS
#define EXP2  exp2_brief
#define E_EXP ATTN_PAIRS_E_EXP
#else
#define EXP2  exp2_negative
#define E_EXP ATTN_FLASH_E_EXP
#endif

/* Unoptimised or under a sanitizer, where it is done ten times slower, every 31st group of eight.
 */
#if !defined(__OPTIMIZE__) || defined(__SANITIZE_ADDRESS__)
#define STEP 31u
#else
#define STEP 1u
#endif

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

static void exp_lanes(const float *x, float *y)
{
    vf_storeu(y, EXP2(vf_loadu(x)));
}

/* tanh x, and -tanh(-x). */
static void tanh_lanes(const float *x, float *y, float *minus_y)
{
    vf minus = vf_set1(-0.0f);
    vf_storeu(y, tanh_log2(vf_loadu(x)));
    vf_storeu(minus_y, vf_sub(minus, tanh_log2(vf_sub(minus, vf_loadu(x)))));
}

static void neighbours(uint32_t bits, float *x)
{
    for (uint32_t n = 0; n < VF_LANES; n++)
        x[n] = attn_f32_of_bits(bits + n);
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

/* Whether f is `want` for all arguments whose bits are in [first, last). */
FLASH_INLINE bool all_are(vf (*f)(vf), uint32_t first, uint32_t last, float want)
{
    for (uint32_t bits = first; bits < last; bits += STEP * VF_LANES) {
        float x[VF_LANES];
        neighbours(bits, x);
        if (!vf_all_equal(f(vf_loadu(x)), vf_set1(want)))
            return false;
    }
    return true;
}

/* Largest relative error over all arguments from -2^-26 to -126, whose bits are consecutive. */
static double worst_exp(void)
{
    const uint32_t first = 0xb2800000u, last = 0xc2fc0000u;
    __m256d worst = _mm256_setzero_pd();
    for (uint32_t bits = first; bits < last; bits += STEP * VF_LANES) {
        float x[VF_LANES], y[VF_LANES];
        neighbours(bits, x);
        exp_lanes(x, y);
        for (int n = 0; n < VF_LANES; n += 4) {
            __m256d want = exp2_double(_mm256_cvtps_pd(_mm_loadu_ps(x + n)));
            worst = larger(worst, _mm256_div_pd(errors(_mm_loadu_ps(y + n), want), want));
        }
    }
    return largest_of(worst);
}

static void test_exp(void **state)
{
    (void)state;
    assert_true(all_are(EXP2, 0x80000000u, 0xb2800000u, 1.0f)); /* to within 2^-26 */
    double worst = worst_exp();
    print_message("exp2: largest relative error %.3g\n", worst);
    assert_true(worst <= E_EXP);
    assert_true(worst >= 0.25 * E_EXP); /* a bound far off is declared wrongly as well */
}

static void test_exp_ends(void **state)
{
    (void)state;
    assert_true(vf_first(EXP2(vf_set1(0.0f))) == 1.0f);
    assert_true(vf_first(EXP2(vf_set1(-0.0f))) == 1.0f);
    assert_true(vf_first(EXP2(vf_set1(-126.0f))) == 0x1p-126f);
    assert_true(vf_first(EXP2(vf_set1(-INFINITY))) == 0.0f);
    assert_true(isnan(vf_first(EXP2(vf_set1(NAN)))));
    assert_true(isnan(vf_first(EXP2(vf_set1(attn_f32_of_bits(0xffc12345u))))));
    for (uint32_t bits = 0xc2fc0001u; bits < 0xff800000u; bits += 977) {
        float y = vf_first(EXP2(vf_set1(attn_f32_of_bits(bits))));
        assert_true(y >= 0.0f && (double)y <= 0x1p-126 * (1.0 + E_EXP));
    }
}

/* Largest errors over arguments of both signs whose sizes have the bits [first, last): relative, or
 * absolute. */
static double worst_tanh(uint32_t first, uint32_t last, bool relative)
{
    __m256d worst = _mm256_setzero_pd();
    for (uint32_t bits = first; bits < last; bits += STEP * VF_LANES) {
        float x[VF_LANES], y[VF_LANES], minus_y[VF_LANES];
        neighbours(bits, x);
        tanh_lanes(x, y, minus_y);
        for (int n = 0; n < VF_LANES; n += 4) {
            __m256d want = tanh_double(_mm256_cvtps_pd(_mm_loadu_ps(x + n)));
            __m256d error =
                larger(errors(_mm_loadu_ps(y + n), want), errors(_mm_loadu_ps(minus_y + n), want));
            worst = larger(worst, relative ? _mm256_div_pd(error, want) : error);
        }
    }
    return largest_of(worst);
}

static void test_tanh(void **state)
{
    (void)state;
    const uint32_t normal = 0x01800000u, large = 0x42800000u; /* bits of 2^-124 and of 64 */
    double worst = worst_tanh(normal, large, true);
    assert_true(all_are(tanh_log2, large, 0x7f800000u, 1.0f)); /* to within 2^-64 */
    assert_true(all_are(tanh_log2, 0x80000000u | large, 0xff800000u, -1.0f));
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
    assert_true(isnan(vf_first(tanh_log2(vf_set1(attn_f32_of_bits(0xffc12345u))))));
}

/* Scores in the log2 domain whose bits are far enough apart that libm may judge them all. */
#define APART 1499u

/* The largest error over scores of both signs up to 144, which is 100 by e. */
static double worst_weight(vf (*f)(vf), double (*want)(double s), bool relative)
{
    double worst = 0;
    for (uint32_t bits = 0x2b800000u; bits < 0x43100000u; bits += APART)
        for (uint32_t sign = 0; sign < 2; sign++) {
            const float x = attn_f32_of_bits(bits | sign << 31);
            const double s = (double)x * 0.69314718055994530942, right = want(s);
            double error = fabs((double)vf_first(f(vf_set1(x))) - right);
            if (relative && right < 0x1p-125)
                continue;
            error = relative && right != 0 ? error / right : error;
            worst = error > worst || isnan(error) ? error : worst;
        }
    return worst;
}

static double sigmoid_double(double s)
{
    return 1 / (1 + exp(-s));
}

static double relu2_double(double s)
{
    return s > 0 ? s * s : 0;
}

static double laplace_double(double s)
{
    return 0.5 * erfc((M_SQRT1_2 - s) * 2.50662827463100050242);
}

static void test_weight_functions(void **state)
{
    (void)state;
    const double sigmoid = worst_weight(sigmoid_log2, sigmoid_double, true);
    const double relu2 = worst_weight(relu2_log2, relu2_double, true);
    const double laplace = worst_weight(laplace_log2, laplace_double, false);
    print_message("sigmoid: %.3g, relu2: %.3g, laplace: %.3g\n", sigmoid, relu2, laplace);
    assert_true(sigmoid <= ATTN_FLASH_E_SIGMOID && sigmoid >= 0.25 * ATTN_FLASH_E_SIGMOID);
    assert_true(relu2 <= ATTN_FLASH_E_RELU2 && relu2 >= 0.25 * ATTN_FLASH_E_RELU2);
    assert_true(laplace <= ATTN_FLASH_A_LAPLACE && laplace >= 0.25 * ATTN_FLASH_A_LAPLACE);
}

static void test_weight_ends(void **state)
{
    (void)state;
    vf (*const functions[])(vf) = {sigmoid_log2, relu2_log2, laplace_log2};
    const float most[] = {1.0f, INFINITY, 1.0f};
    for (int n = 0; n < 3; n++) {
        const float none = vf_first(functions[n](vf_set1(-INFINITY)));
        assert_true(none == 0.0f && !signbit(none)); /* -0.0 marks what takes no part */
        assert_true(vf_first(functions[n](vf_set1(INFINITY))) == most[n]);
        assert_true(isnan(vf_first(functions[n](vf_set1(NAN)))));
        assert_true(isnan(vf_first(functions[n](vf_set1(attn_f32_of_bits(0xffc12345u))))));
        assert_true(!signbit(vf_first(functions[n](vf_set1(-0.0f)))));
    }
}

/* 16-bit elements with the room of as many floats: what is called here could as well read those. */
#define ROOM (2 * VF_LANES)

/* A 16-bit number by its fields; the infinities as the powers of two that they stand in for. */
static double half_value(uint32_t dtype, uint32_t half)
{
    const int fraction = dtype == ATTN_F16 ? 10 : 7, bias = dtype == ATTN_F16 ? 15 : 127;
    int exponent = (int)(half & 0x7fffu) >> fraction, mantissa = (int)half & ((1 << fraction) - 1);
    double size = exponent ? ldexp(1.0 + ldexp(mantissa, -fraction), exponent - bias)
                           : ldexp(mantissa, 1 - bias - fraction);
    return half & 0x8000u ? -size : size;
}

/* As a vector stores it, which must be what one element becomes. */
static uint32_t stored(uint32_t dtype, float x)
{
    uint16_t halves[ROOM], half[ROOM];
    store_as(dtype, halves, 0, vf_set1(x));
    attn_element_write(dtype, half, 0, x);
    assert_int_equal(half[0] & 0x8000u, halves[0] & 0x8000u);
    if (!isnan(x))
        assert_int_equal(half[0], halves[0]);
    assert_memory_equal(halves, halves + 1, (VF_LANES - 1) * sizeof *halves);
    return halves[0];
}

static bool is_nan(uint32_t dtype, uint32_t half)
{
    return (half & 0x7fffu) > (dtype == ATTN_F16 ? 0x7c00u : 0x7f80u);
}

/* The number itself, and what lies just below, on and just above half way to the next one. */
static void check_half(uint32_t dtype, uint32_t half)
{
    const uint32_t infinity = dtype == ATTN_F16 ? 0x7c00u : 0x7f80u, magnitude = half & 0x7fffu;
    const uint16_t bits[ROOM] = {(uint16_t)half};
    float x = attn_element_read(dtype, bits, 0), y = vf_first(load_as(dtype, bits, 0));
    if (magnitude >= infinity) {
        assert_true(isnan(x) == is_nan(dtype, half) && isnan(y) == isnan(x));
        assert_true(isnan(x) ? is_nan(dtype, stored(dtype, x)) : stored(dtype, x) == half);
        return;
    }
    assert_true((double)x == half_value(dtype, half) && x == y);
    assert_int_equal(stored(dtype, x), half);
    double middle = 0.5 * (half_value(dtype, half) + half_value(dtype, half + 1));
    float edge = (float)middle;
    assert_true((double)edge == middle);
    assert_int_equal(stored(dtype, nextafterf(edge, 0.0f)), half);
    assert_int_equal(stored(dtype, edge), half + half % 2);
    assert_int_equal(stored(dtype, nextafterf(edge, edge < 0 ? -INFINITY : INFINITY)), half + 1);
}

static void test_halves(void **state)
{
    (void)state;
    const uint32_t types[] = {ATTN_F16, ATTN_BF16};
    for (int t = 0; t < 2; t++) {
        for (uint32_t half = 0; half <= 0xffffu; half++)
            check_half(types[t], half);
        assert_true(is_nan(types[t], stored(types[t], attn_f32_of_bits(0x7f800001u))));
        assert_true(is_nan(types[t], stored(types[t], attn_f32_of_bits(0xffffffffu))));
    }
}

/* The first lanes of a row, whatever their count; 0 in the others. */
static void test_first_halves(void **state)
{
    (void)state;
    const uint32_t types[] = {ATTN_F16, ATTN_BF16};
    uint16_t row[2 * ROOM];
    for (uint16_t n = 0; n < 2 * ROOM; n++)
        row[n] = (uint16_t)(0x3c01u + 5u * n);
    for (int64_t n = 0; n < 2 * (VF_LANES + 3); n++) {
        uint32_t type = types[n % 2];
        int64_t count = n / 2 - 1;
        float x[VF_LANES];
        vf_storeu(x, load_first_as(type, row, 1, count));
        for (int64_t lane = 0; lane < VF_LANES; lane++)
            assert_true(x[lane] == (lane < count ? attn_element_read(type, row, 1 + lane) : 0.0f));
    }
}

int main(void)
{
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") ||
        (VF_LANES == 16 && !__builtin_cpu_supports("avx512f"))) {
        print_message("this processor lacks the instructions: nothing to test\n");
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_double),       cmocka_unit_test(test_exp),
        cmocka_unit_test(test_exp_ends),     cmocka_unit_test(test_tanh),
        cmocka_unit_test(test_tanh_ends),    cmocka_unit_test(test_weight_functions),
        cmocka_unit_test(test_weight_ends),  cmocka_unit_test(test_halves),
        cmocka_unit_test(test_first_halves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
