/* SPDX-License-Identifier: Apache-2.0 */
/* test_naive.c - the naive backend against a double loop, over the whole operator. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "../tests/problem.h"
#include "types.h"

#define ALL_OUT (WITH_LSE | WITH_WEIGHTS)

static const struct test_spec specs[] = {
    {.name = "plain", .sq = 5, .sk = 19, .dq = 17, .with = ALL_OUT},
    {.name = "f64", .dtype = ATTN_F64, .hq = 2, .sq = 5, .sk = 19, .dq = 16, .with = ALL_OUT},
    {.name = "f16", .dtype = ATTN_F16, .hq = 2, .sq = 5, .sk = 9, .dq = 8, .with = ALL_OUT},
    {.name = "bf16", .dtype = ATTN_BF16, .hq = 2, .sq = 5, .sk = 9, .dq = 8, .with = ALL_OUT},
    {.name = "grouped heads, odd widths", .hq = 6, .hkv = 2, .sq = 3, .sk = 7, .dq = 5, .dv = 11},
    {.name = "gaps", .hq = 2, .sq = 3, .sk = 7, .dq = 5, .with = ALL_OUT | WITH_GAPS},
    {.name = "bshd", .hq = 3, .sq = 4, .sk = 6, .dq = 5, .with = WITH_BSHD},
    {.name = "bhds", .hq = 3, .sq = 4, .sk = 6, .dq = 5, .with = WITH_BHDS | WITH_GAPS},
    {.name = "no keys", .sq = 3, .sk = 0, .dq = 4, .with = WITH_LSE},
    {.name = "no keys, sink", .sq = 3, .sk = 0, .dq = 4, .with = WITH_LSE | WITH_SINK},
    {.name = "causal", .flags = ATTN_FLAG_CAUSAL, .sq = 7, .sk = 5, .dq = 4, .with = ALL_OUT},
    {.name = "causal, bottom right, empty rows",
     .flags = ATTN_FLAG_CAUSAL | ATTN_FLAG_OFF_BR,
     .sq = 7,
     .sk = 4,
     .dq = 4,
     .with = ALL_OUT | WITH_SINK},
    {.name = "bottom right of lengths, alibi, poison",
     .flags = ATTN_FLAG_CAUSAL | ATTN_FLAG_OFF_BR,
     .b = 4,
     .hq = 4,
     .sq = 5,
     .sk = 11,
     .dq = 4,
     .with = ALL_OUT | WITH_LEN | WITH_ALIBI | WITH_POISON},
    {.name = "window after a past, softcap",
     .flags = ATTN_FLAG_WINDOW | ATTN_FLAG_SOFTCAP,
     .softcap = 1.5,
     .off = 3,
     .left = 2,
     .right = 1,
     .sq = 9,
     .sk = 10,
     .dq = 4,
     .with = ALL_OUT},
    {.name = "window open to the left, past the end of int64",
     .flags = ATTN_FLAG_WINDOW,
     .left = -1,
     .right = INT64_MAX,
     .off = INT64_MAX,
     .sq = 3,
     .sk = 10,
     .dq = 4},
    {.name = "lengths per query, mask, bias, sink, gaps",
     .hq = 2,
     .sq = 12,
     .sk = 13,
     .dq = 4,
     .with = ALL_OUT | WITH_LEN_2D | WITH_MASK | WITH_BIAS | WITH_SINK | WITH_GAPS},
    {.name = "poison behind a mask", .sq = 1, .sk = 24, .dq = 8, .with = WITH_MASK | WITH_POISON},
    {.name = "dropout by a mask",
     .flags = ATTN_FLAG_DROPOUT,
     .dropout_p = 0.3,
     .sq = 5,
     .sk = 13,
     .dq = 4,
     .with = ALL_OUT | WITH_KEEP | WITH_SINK},
    {.name = "dot, negative scale",
     .score = ATTN_SCORE_DOT,
     .scale = -0.3,
     .sq = 3,
     .sk = 9,
     .dq = 9},
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
    {.name = "mha, self, no w_o", .op = ATTN_OP_MHA, .hq = 2, .sq = 6, .sk = 6, .dq = 3, .e = 6},
    {.name = "mha, all parts",
     .op = ATTN_OP_MHA,
     .flags = ATTN_FLAG_RESIDUAL | ATTN_FLAG_CAUSAL,
     .hq = 4,
     .hkv = 2,
     .sq = 4,
     .sk = 7,
     .dq = 3,
     .dv = 5,
     .e = 10,
     .with = ALL_OUT | WITH_X_K | WITH_W_O | WITH_PROJ_BIAS | WITH_HEAD_MASK | WITH_GAPS},
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

static const struct attn_backend *naive(void)
{
    return attn_plugin.backends[0];
}

static void matches_the_oracle(void **state)
{
    (void)state;
    for (size_t s = 0; s < sizeof(specs) / sizeof(specs[0]); s++)
        test_spec_run(naive(), &specs[s]);
}

/* NaN and infinities in keys that are allowed: the whole row, no other one, and nothing behind. */
static void keeps_nan_to_its_rows(void **state)
{
    (void)state;
    struct test_spec spec = {.name = "NaN in key 2 under causal",
                             .flags = ATTN_FLAG_CAUSAL,
                             .b = 1,
                             .sq = 5,
                             .sk = 5,
                             .dq = 4,
                             .with = ALL_OUT};
    const double values[] = {NAN, INFINITY, -INFINITY};
    for (int n = 0; n < 3; n++) {
        struct test_problem made;
        test_problem_make(&spec, &made);
        const struct attn_tensor *q = attn_tensor_find(&made.problem, ATTN_Q);
        test_set(attn_tensor_find(&made.problem, ATTN_K), (int64_t[]){0, 0, 2, 0}, values[n]);
        for (int64_t i = 0; i < 5; i++)
            test_set(q, (int64_t[]){0, 0, i, 0}, 1); /* so that the score has the sign of the key */
        test_run(naive(), &made);
        test_check(&spec, &made);
        test_problem_free(&made);
    }
}

/* NaN in the only key, or in its value, where some rows are empty and of some the key is dropped:
 * an empty row is 0, and a row whose score is NaN is NaN even where the key is dropped. */
static void empty_and_dropped_rows_differ(void **state)
{
    (void)state;
    struct test_spec spec = {.name = "NaN in the only key",
                             .flags = ATTN_FLAG_DROPOUT,
                             .dropout_p = 0.3,
                             .b = 1,
                             .sq = 40,
                             .sk = 1,
                             .dq = 4,
                             .with = ALL_OUT | WITH_LEN_2D | WITH_KEEP};
    for (int n = 0; n < 2; n++) {
        struct test_problem made;
        test_problem_make(&spec, &made);
        test_set(attn_tensor_find(&made.problem, n ? ATTN_K : ATTN_V), (int64_t[]){0, 0, 0, 1},
                 NAN);
        test_run(naive(), &made);
        test_check(&spec, &made);
        test_problem_free(&made);
    }
}

/* An infinite value behind a weight that is not zero shows; behind a dropped one it does not. */
static void dropped_values_take_no_part(void **state)
{
    (void)state;
    struct test_spec spec = {.name = "infinity in every value",
                             .flags = ATTN_FLAG_DROPOUT,
                             .dropout_p = 0.5,
                             .b = 1,
                             .sq = 6,
                             .sk = 2,
                             .dq = 4,
                             .with = ALL_OUT | WITH_KEEP};
    struct test_problem made;
    test_problem_make(&spec, &made);
    test_set(attn_tensor_find(&made.problem, ATTN_V), (int64_t[]){0, 0, 1, 0}, INFINITY);
    test_run(naive(), &made);
    test_check(&spec, &made);
    test_problem_free(&made);
}

static void philox_agrees_with_the_paper(void **state)
{
    (void)state;
    /* Known answers of the paper's library (kat_vectors): counter and key all zero give 6627e8d5,
     * so 0x6627e8 * 2^-24 = 0.3990 decides cell 0 under seed 0. */
    struct test_spec spec = {.name = "dropout of one cell",
                             .flags = ATTN_FLAG_DROPOUT,
                             .b = 1,
                             .sq = 1,
                             .sk = 1,
                             .dq = 1};
    const double p[] = {0.39, 0.40}, first = 0x6627e8 * 0x1p-24;
    for (int n = 0; n < 3; n++) {
        struct test_problem made;
        test_problem_make(&spec, &made);
        made.problem.dropout_seed = 0;
        made.problem.dropout_p = n < 2 ? p[n] : first; /* kept when >= p */
        test_run(naive(), &made);
        double v = test_at(attn_tensor_find(&made.problem, ATTN_V), (int64_t[]){0, 0, 0, 0});
        double out = test_at(attn_tensor_find(&made.problem, ATTN_OUT), (int64_t[]){0, 0, 0, 0});
        double want = n == 1 ? 0 : v / (1 - made.problem.dropout_p);
        assert_true(fabs(out - want) <= 1e-6);
        test_problem_free(&made);
    }
}

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

static void refuses_what_it_does_not_know(void **state)
{
    (void)state;
    const struct test_spec refused[] = {
        {.name = "op", .op = ATTN_OP_ATTENTION_BACKWARD, .sq = 2, .sk = 2, .dq = 2, .e = 2},
        {.name = "score", .score = 6, .sq = 2, .sk = 2, .dq = 2},
        {.name = "type", .dtype = ATTN_F8_E4M3, .sq = 2, .sk = 2, .dq = 2},
        {.name = "flag", .flags = ATTN_FLAG_APPROXIMATE, .sq = 2, .sk = 2, .dq = 2},
        {.name = "new flag", .flags = 1ull << 40, .sq = 2, .sk = 2, .dq = 2},
        {.name = "widths", .sq = 2, .sk = 2, .dq = 2, .dk = 3},
        {.name = "groups", .hq = 3, .hkv = 2, .sq = 2, .sk = 2, .dq = 2},
    };
    for (size_t s = 0; s < sizeof(refused) / sizeof(refused[0]); s++)
        test_spec_refused(naive(), &refused[s]);
}

static void refuses_unknown_tensors(void **state)
{
    (void)state;
    const struct test_spec spec = {.name = "tensor", .sq = 2, .sk = 2, .dq = 2, .with = WITH_LSE};
    for (int n = 0; n < 5; n++) {
        struct test_problem made;
        char why[256] = "";
        test_problem_make(&spec, &made);
        struct attn_tensor *k = &made.tensors[1], *lse = &made.tensors[4];
        if (n == 0)
            lse->role = ATTN_PAST_K;
        else if (n == 1)
            k->space = ATTN_CUDA;
        else if (n == 2)
            k->shape[2] = 3;
        else if (n == 3)
            lse->dtype = ATTN_F64;
        else
            lse->role = ATTN_W_O;
        assert_int_equal(naive()->supports(&made.problem, NULL, why, sizeof(why)),
                         ATTN_UNSUPPORTED);
        assert_true(strlen(why) > 0);
        test_problem_free(&made);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matches_the_oracle),
        cmocka_unit_test(keeps_nan_to_its_rows),
        cmocka_unit_test(empty_and_dropped_rows_differ),
        cmocka_unit_test(dropped_values_take_no_part),
        cmocka_unit_test(philox_agrees_with_the_paper),
        cmocka_unit_test(converts_every_half),
        cmocka_unit_test(refuses_what_it_does_not_know),
        cmocka_unit_test(refuses_unknown_tensors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
