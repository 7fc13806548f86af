/* SPDX-License-Identifier: Apache-2.0 */
/* test_naive_attention.c - the naive backend against a double loop, over the whole operator
 * and in all types, and its conversions of 16-bit types. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../../tests/common.h"
#include "../types.h"

/* Scores that no other backend has. */
static const struct test_spec own[] = {
    {.name = "gaussian", .score = ATTN_SCORE_GAUSSIAN, .scale = 1, .sq = 3, .sk = 9, .dq = 19},
    {.name = "bilinear",
     .score = ATTN_SCORE_BILINEAR,
     .hq = 2,
     .sq = 3,
     .sk = 9,
     .dq = 5,
     .dk = 10,
     .scale = 0.3,
     .with = ALL_OUT | WITH_HEAD_PARAMS},
    {.name = "additive, wide query, one set",
     .score = ATTN_SCORE_ADDITIVE,
     .dtype = ATTN_BF16,
     .hq = 2,
     .sq = 3,
     .sk = 9,
     .dq = 15,
     .dk = 4,
     .dh = 6,
     .scale = 1},
    {.name = "additive, f64, a set a head",
     .score = ATTN_SCORE_ADDITIVE,
     .dtype = ATTN_F64,
     .hq = 4,
     .hkv = 2,
     .sq = 3,
     .sk = 9,
     .dq = 3,
     .dk = 4,
     .dh = 6,
     .scale = 1,
     .with = ALL_OUT | WITH_HEAD_PARAMS | WITH_GAPS},
    {.name = "mha, gaussian heads, f16",
     .op = ATTN_OP_MHA,
     .score = ATTN_SCORE_GAUSSIAN,
     .dtype = ATTN_F16,
     .scale = 0.1,
     .hq = 2,
     .sq = 4,
     .sk = 4,
     .dq = 3,
     .e = 3,
     .with = WITH_W_O | WITH_PROJ_BIAS},
};

/* Every 16-bit number there and back, and ties, overflow and subnormals from between them. */
static void converts_every_half(void **state)
{
    (void)state;
    for (uint32_t bits = 0; bits < 0x10000u; bits++) {
        uint16_t half = (uint16_t)bits;
        int f16_nan = (bits & 0x7fffu) > 0x7c00u, bf16_nan = (bits & 0x7fffu) > 0x7f80u;
        assert_int_equal(isnan(attn_naive_from_f16(half)) != 0, f16_nan);
        assert_true(f16_nan || attn_naive_to_f16(attn_naive_from_f16(half)) == half);
        assert_true(bf16_nan || attn_naive_to_bf16(attn_naive_from_bf16(half)) == half);
        if ((bits & 0x7fffu) >= 0x7bffu)
            continue;
        float low = attn_naive_from_f16(half), high = attn_naive_from_f16((uint16_t)(half + 1));
        float middle = low + (high - low) / 2;
        uint16_t even = half & 1 ? (uint16_t)(half + 1) : half;
        assert_int_equal(attn_naive_to_f16(middle), even);
        assert_int_equal(attn_naive_to_f16(nextafterf(middle, low)), half);
        assert_int_equal(attn_naive_to_f16(nextafterf(middle, high)), half + 1);
    }
    assert_int_equal(attn_naive_to_f16(65519.0f), 0x7bff);
    assert_int_equal(attn_naive_to_f16(-65520.0f), 0xfc00);
    assert_true(attn_naive_from_f16(0x0001) == 0x1p-24f);
    assert_int_equal(attn_naive_to_bf16(0x1.01p0f), 0x3f80); /* a tie, to even */
    assert_int_equal(attn_naive_to_bf16(0x1.03p0f), 0x3f82);
    assert_int_equal(attn_naive_to_bf16(3.4e38f), 0x7f80);
    assert_true((attn_naive_to_bf16(attn_naive_float(0x7f800001u)) & 0x7fff) > 0x7f80);
}

int main(void)
{
    const uint32_t dtypes[] = {ATTN_F32, ATTN_F64, ATTN_F16, ATTN_BF16, 0};
    struct test_subject naive = {.backend = attn_plugin.backends[0],
                                 .dtypes = dtypes,
                                 .own = own,
                                 .n_own = sizeof(own) / sizeof(own[0])};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(converts_every_half),
    };
    int failed = test_common(&naive);
    return failed + cmocka_run_group_tests(tests, NULL, NULL);
}
