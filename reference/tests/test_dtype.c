/* SPDX-License-Identifier: Apache-2.0 */
/* test_dtype - every f16 and bf16 pattern, every midpoint between two, and the edges. */
#include "reference/dtype.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static uint16_t store16(uint32_t dtype, double value)
{
    uint16_t pattern = 0xdead;
    attn_dtype_store(dtype, &pattern, 0, value);
    return pattern;
}

static double load16(uint32_t dtype, uint16_t pattern)
{
    return attn_dtype_load(dtype, &pattern, 0);
}

/* The value of a pattern by the definition of the format, in other words than the code's. */
static double value_by_definition(int exponent_bits, int mantissa_bits, uint16_t pattern)
{
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const int field = pattern >> mantissa_bits & ((1 << exponent_bits) - 1);
    const double fraction = (double)(pattern & ((1 << mantissa_bits) - 1)) / (1 << mantissa_bits);
    const double sign = pattern >> 15 ? -1.0 : 1.0;
    if (field == (1 << exponent_bits) - 1)
        return fraction > 0 ? (double)NAN : sign * (double)INFINITY;
    if (field == 0)
        return sign * fraction * pow(2.0, 1 - bias);
    return sign * (1.0 + fraction) * pow(2.0, field - bias);
}

static const struct half_type {
    uint32_t dtype;
    int exponent_bits, mantissa_bits;
} half_types[] = {{ATTN_F16, 5, 10}, {ATTN_BF16, 8, 7}};

static void every_pattern_survives(void **state)
{
    (void)state;
    for (size_t t = 0; t < 2; t++) {
        const struct half_type *h = &half_types[t];
        for (uint32_t p = 0; p < 65536; p++) {
            const double expected =
                value_by_definition(h->exponent_bits, h->mantissa_bits, (uint16_t)p);
            const double got = load16(h->dtype, (uint16_t)p);
            if (isnan(expected)) {
                assert_true(isnan(got));
                assert_true(isnan(load16(h->dtype, store16(h->dtype, got))));
                continue;
            }
            assert_memory_equal(&got, &expected, sizeof got); /* the sign of zero too */
            assert_int_equal(store16(h->dtype, got), p);
        }
    }
}

/* Between each two neighbours: the midpoint goes to the even one, a hair to either side does not.
 * The last pair is the largest number and what would follow it, which overflows. */
static void every_midpoint_rounds_to_even(void **state)
{
    (void)state;
    for (size_t t = 0; t < 2; t++) {
        const struct half_type *h = &half_types[t];
        const uint16_t infinity = (uint16_t)(((1u << h->exponent_bits) - 1) << h->mantissa_bits);
        for (uint16_t p = 0; p < infinity; p++) {
            const double low = load16(h->dtype, p);
            const double high = low + attn_dtype_ulp(h->dtype, low);
            const double middle = low + (high - low) / 2;
            const uint16_t even = p & 1 ? (uint16_t)(p + 1) : p;
            assert_int_equal(store16(h->dtype, middle), even);
            assert_int_equal(store16(h->dtype, nextafter(middle, 0)), p);
            assert_int_equal(store16(h->dtype, nextafter(middle, HUGE_VAL)), p + 1);
            assert_int_equal(store16(h->dtype, -middle), even | 0x8000);
        }
    }
}

/* By way of f32 this would round twice: 1 + 2^-11 + 2^-40 is just above a midpoint of f16. */
static void one_rounding_only(void **state)
{
    (void)state;
    assert_int_equal(store16(ATTN_F16, 1.0 + 0x1p-11 + 0x1p-40), 0x3c01);
    assert_int_equal(store16(ATTN_F16, 1.0 + 0x1p-10 + 0x1p-11 - 0x1p-40), 0x3c01);
    assert_int_equal(store16(ATTN_BF16, 1.0 + 0x1p-8 + 0x1p-40), 0x3f81);
    assert_int_equal(store16(ATTN_BF16, 0x1p-134 + 0x1p-180), 0x0001);
    assert_int_equal(store16(ATTN_BF16, 0x1p-134), 0x0000);
}

static void halves_at_the_edges(void **state)
{
    (void)state;
    assert_int_equal(store16(ATTN_F16, 65519.999), 0x7bff);
    assert_int_equal(store16(ATTN_F16, 65520.0), 0x7c00);
    assert_int_equal(store16(ATTN_F16, 1e300), 0x7c00);
    assert_int_equal(store16(ATTN_F16, -(double)INFINITY), 0xfc00);
    assert_int_equal(store16(ATTN_BF16, 3.4e38), 0x7f80);
    assert_int_equal(store16(ATTN_F16, -0.0), 0x8000);
    assert_int_equal(store16(ATTN_F16, 0x1p-1074), 0x0000);
    assert_int_equal(store16(ATTN_F16, -0x1p-1030), 0x8000);
    assert_true(isnan(load16(ATTN_F16, store16(ATTN_F16, (double)NAN))));
    assert_true(isnan(load16(ATTN_BF16, store16(ATTN_BF16, -(double)NAN))));
    /* a NaN whose payload lies below the cut must not become an infinity */
    const uint64_t bits = 0x7ff0000000000001ull;
    double low_payload;
    memcpy(&low_payload, &bits, sizeof bits);
    assert_true(isnan(load16(ATTN_F16, store16(ATTN_F16, low_payload))));
}

static void wide_types_and_integers(void **state)
{
    (void)state;
    float f32[2];
    attn_dtype_store(ATTN_F32, f32, 1, 0.1);
    assert_true(attn_dtype_load(ATTN_F32, f32, 1) == (double)0.1f);
    attn_dtype_store(ATTN_F32, f32, 0, 1e39);
    assert_true(isinf(f32[0]));
    double f64[2];
    attn_dtype_store(ATTN_F64, f64, 1, -0.1);
    assert_true(attn_dtype_load(ATTN_F64, f64, 1) == -0.1);
    int32_t i32[2];
    attn_dtype_store(ATTN_I32, i32, 1, -7.9);
    assert_int_equal(i32[1], -7);
    attn_dtype_store(ATTN_I32, i32, 0, 1e30);
    assert_int_equal(i32[0], INT32_MAX);
    int64_t i64[1];
    attn_dtype_store(ATTN_I64, i64, 0, -1e30);
    assert_true(i64[0] == INT64_MIN);
    attn_dtype_store(ATTN_I64, i64, 0, (double)NAN);
    assert_true(i64[0] == 0);
    i64[0] = (1ll << 53) + 2;
    assert_true(attn_dtype_load(ATTN_I64, i64, 0) == 0x1p53 + 2);
    unsigned char flags[3] = {9, 9, 0x80};
    attn_dtype_store(ATTN_BOOL, flags, 0, 0.25);
    attn_dtype_store(ATTN_BOOL, flags, 1, -0.0);
    assert_int_equal(flags[0], 1);
    assert_int_equal(flags[1], 0);
    assert_true(attn_dtype_load(ATTN_BOOL, flags, 2) == 1.0);
}

static void constants_of_the_types(void **state)
{
    (void)state;
    assert_true(attn_dtype_roundoff(ATTN_F64) == 0x1p-53);
    assert_true(attn_dtype_roundoff(ATTN_F32) == 0x1p-24);
    assert_true(attn_dtype_roundoff(ATTN_F16) == 0x1p-11);
    assert_true(attn_dtype_roundoff(ATTN_BF16) == 0x1p-8);
    assert_true(attn_dtype_max(ATTN_F16) == 65504.0);
    assert_true(attn_dtype_max(ATTN_BF16) == load16(ATTN_BF16, 0x7f7f));
    assert_true(attn_dtype_max(ATTN_F64) == 0x1.fffffffffffffp1023);
    assert_true(attn_dtype_max(ATTN_F32) == 0x1.fffffep127);
    assert_true(attn_dtype_min_normal(ATTN_F16) == 0x1p-14);
    assert_true(attn_dtype_min_subnormal(ATTN_F16) == 0x1p-24);
    assert_true(attn_dtype_min_subnormal(ATTN_BF16) == 0x1p-133);
    assert_true(attn_dtype_min_subnormal(ATTN_F64) == 0x1p-1074);
    assert_int_equal(attn_dtype_size(ATTN_F64), 8);
    assert_int_equal(attn_dtype_size(ATTN_BOOL), 1);
    assert_int_equal(attn_dtype_size(ATTN_F8_E4M3), 0);
    assert_string_equal(attn_dtype_name(ATTN_BF16), "bf16");
    assert_string_equal(attn_dtype_name(999), "?");
}

static void spacing(void **state)
{
    (void)state;
    assert_true(attn_dtype_ulp(ATTN_F32, 1.0) == 0x1p-23);
    assert_true(attn_dtype_ulp(ATTN_F32, -1.999) == 0x1p-23);
    assert_true(attn_dtype_ulp(ATTN_F32, nextafter(1.0, 0)) == 0x1p-24);
    assert_true(attn_dtype_ulp(ATTN_F16, 0.0) == 0x1p-24);
    assert_true(attn_dtype_ulp(ATTN_F16, 1e-9) == 0x1p-24);
    assert_true(attn_dtype_ulp(ATTN_F16, 0x1p-14) == 0x1p-24);
    assert_true(attn_dtype_ulp(ATTN_F16, 1e9) == 32.0);
    assert_true(attn_dtype_ulp(ATTN_F16, (double)INFINITY) == 32.0);
    assert_true(attn_dtype_ulp(ATTN_F64, 1.0) == 0x1p-52);
    assert_true(attn_dtype_ulp(ATTN_F64, 0x1p-1074) == 0x1p-1074);
    assert_true(isnan(attn_dtype_ulp(ATTN_F64, (double)NAN)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pattern_survives),
        cmocka_unit_test(every_midpoint_rounds_to_even),
        cmocka_unit_test(one_rounding_only),
        cmocka_unit_test(halves_at_the_edges),
        cmocka_unit_test(wide_types_and_integers),
        cmocka_unit_test(constants_of_the_types),
        cmocka_unit_test(spacing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
