/* SPDX-License-Identifier: Apache-2.0 */
/* test_random - our log and cos against the math library's, and the numbers drawn with them. */
#include "tensor/random.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "reference/philox.h"
#include "tensor/instance.h"

/* Distance in units of the last place of the exact value. */
static double ulps(double got, long double exact)
{
    const double nearest = (double)fabsl(exact);
    return (double)(fabsl((long double)got - exact) /
                    (long double)(nextafter(nearest, (double)INFINITY) - nearest));
}

static void log_is_accurate(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 200000; i++) {
        const double u = 1.0 - attn_random_uniform(5, 1, i);
        assert_true(ulps(attn_random_log(u), logl(u)) <= 2);
        const double near_one = 1.0 - ldexp(u, -1 - (int)(i % 50));
        if (near_one < 1.0)
            assert_true(ulps(attn_random_log(near_one), logl(near_one)) <= 2);
        const double small = ldexp(u, -(int)(i % 60));
        assert_true(small == 1.0 || ulps(attn_random_log(small), logl(small)) <= 2);
    }
    assert_true(attn_random_log(1.0) == 0.0);
}

/* cos(2 pi t) by way of the nearest multiple of a quarter turn, which is exact. */
static long double exact_cos(double turns)
{
    const long double two_pi = 6.283185307179586476925286766559005768L;
    const double quarter = nearbyint(4 * turns);
    const long double rest = (long double)(turns - quarter / 4) * two_pi;
    switch ((int)quarter & 3) {
    case 0:
        return cosl(rest);
    case 1:
        return -sinl(rest);
    case 2:
        return -cosl(rest);
    default:
        return sinl(rest);
    }
}

static void cos_is_accurate(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 200000; i++) {
        const double u = attn_random_uniform(6, 1, i);
        assert_true(ulps(attn_random_cos_turns(u), exact_cos(u)) <= 3);
        const double near_zero = 0.25 * (double)(i % 4) + ldexp(u, -3 - (int)(i % 40));
        assert_true(near_zero >= 1 ||
                    ulps(attn_random_cos_turns(near_zero), exact_cos(near_zero)) <= 3);
    }
    assert_true(attn_random_cos_turns(0.0) == 1.0);
    assert_true(attn_random_cos_turns(0.5) == -1.0);
    assert_true(attn_random_cos_turns(0.25) == 0.0);
}

static void exp2_is_accurate(void **state)
{
    (void)state;
    for (unsigned bits = 0; bits < 12; bits++)
        for (unsigned n = 0; n <= 8u << bits; n++) {
            const long double exact = exp2l(-(long double)n / (long double)(1u << bits));
            assert_true(ulps(attn_random_exp2_neg(n, bits), exact) <= 16);
            if (n % (1u << bits) == 0)
                assert_true(attn_random_exp2_neg(n, bits) == (double)exact);
        }
}

/* The numbers are part of what a case means: bits that change here change every result ever
 * recorded. The uniform ones follow from Philox alone, checked here word by word. */
static void the_stream_is_fixed(void **state)
{
    (void)state;
    const uint32_t key[2] = {0x89abcdefu, ATTN_K};
    const uint32_t counter[4] = {7, 1, 0x01234567u, 0};
    uint32_t words[4];
    attn_philox4x32(counter, key, words);
    const uint64_t seed = 0x0123456789abcdefull, index = 7 | 1ull << 32;
    const double u = ldexp((double)((uint64_t)words[1] << 21 | words[0] >> 11), -53);
    const double t = ldexp((double)((uint64_t)words[3] << 21 | words[2] >> 11), -53);
    assert_true(attn_random_uniform(seed, ATTN_K, index) == u);
    const double normal = attn_random_normal(seed, ATTN_K, index);
    assert_true(fabs(normal - sqrt(-2 * log1p(-u)) * cos(6.283185307179586 * t)) < 1e-14);
    assert_true(attn_random_normal(1, ATTN_Q, 0) == 0x1.3d423ecacddb7p-1);
    assert_true(attn_random_normal(1, ATTN_V, 123456) == 0x1.48926f5b1bc5fp-2);
}

/* A run is the same numbers, bit for bit, wherever it starts and however it is computed. */
static void runs_are_the_same_numbers(void **state)
{
    (void)state;
    const uint64_t starts[] = {0, 77, UINT32_MAX - 30ull, 1ull << 40};
    double uniforms[ATTN_RANDOM_RUN], normals[ATTN_RANDOM_RUN];
    for (size_t s = 0; s < sizeof starts / sizeof *starts; s++) {
        attn_random_uniforms(0x123456789abull, ATTN_V, starts[s], uniforms);
        attn_random_normals(0x123456789abull, ATTN_V, starts[s], normals);
        for (uint64_t i = 0; i < ATTN_RANDOM_RUN; i++) {
            const double u = attn_random_uniform(0x123456789abull, ATTN_V, starts[s] + i);
            const double n = attn_random_normal(0x123456789abull, ATTN_V, starts[s] + i);
            assert_memory_equal(&uniforms[i], &u, sizeof u);
            assert_memory_equal(&normals[i], &n, sizeof n);
        }
    }
}

static void normals_are_normal(void **state)
{
    (void)state;
    enum { COUNT = 400000, BINS = 20 };
    double sum = 0, square = 0, fourth = 0, lag = 0, last = 0;
    int below[BINS] = {0};
    for (uint64_t i = 0; i < COUNT; i++) {
        const double x = attn_random_normal(3, ATTN_Q, i);
        sum += x;
        square += x * x;
        fourth += x * x * x * x;
        lag += x * last;
        last = x;
        below[(int)floor(BINS * 0.5 * erfc(-x / sqrt(2.0)))]++;
    }
    /* five standard deviations each: 1, sqrt 2, sqrt 96 and 1, over sqrt COUNT */
    const double unit = 5 / sqrt((double)COUNT);
    assert_true(fabs(sum / COUNT) < unit);
    assert_true(fabs(square / COUNT - 1) < unit * sqrt(2.0));
    assert_true(fabs(fourth / COUNT - 3) < unit * sqrt(96.0));
    assert_true(fabs(lag / COUNT) < unit);
    for (int bin = 0; bin < BINS; bin++)
        assert_in_range(below[bin], COUNT / BINS - 700, COUNT / BINS + 700);
}

static void streams_differ(void **state)
{
    (void)state;
    int same = 0;
    for (uint64_t i = 0; i < 1000; i++) {
        const double x = attn_random_normal(1, ATTN_Q, i);
        same += x == attn_random_normal(2, ATTN_Q, i);
        same += x == attn_random_normal(1, ATTN_K, i);
        same += x == attn_random_normal(1ull << 32 | 1, ATTN_Q, i);
        same += x == attn_random_normal(1, ATTN_Q, i + (1ull << 32));
    }
    assert_int_equal(same, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(log_is_accurate),
        cmocka_unit_test(cos_is_accurate),
        cmocka_unit_test(exp2_is_accurate),
        cmocka_unit_test(the_stream_is_fixed),
        cmocka_unit_test(runs_are_the_same_numbers),
        cmocka_unit_test(normals_are_normal),
        cmocka_unit_test(streams_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
