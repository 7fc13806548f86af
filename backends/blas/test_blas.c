/* SPDX-License-Identifier: Apache-2.0 */
/* test_blas.c - the blas backend against a double loop, its exp against libm, and what it refuses.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "../tests/problem.h"
#include "blas.h"

#define ALL_OUT (WITH_LSE | WITH_WEIGHTS)

static const struct test_spec specs[] = {
    {.name = "plain", .sq = 5, .sk = 39, .dq = 17, .with = ALL_OUT},
    {.name = "f64", .dtype = ATTN_F64, .hq = 2, .sq = 5, .sk = 19, .dq = 16, .with = ALL_OUT},
    {.name = "several blocks of rows", .sq = 67, .sk = 9000, .dq = 3, .b = 1, .with = WITH_LSE},
    {.name = "grouped heads, odd widths", .hq = 6, .hkv = 2, .sq = 3, .sk = 7, .dq = 5, .dv = 11},
    {.name = "decode", .hq = 3, .sq = 1, .sk = 21, .dq = 8, .with = ALL_OUT},
    {.name = "decode, grouped heads",
     .hq = 6,
     .hkv = 2,
     .sq = 1,
     .sk = 21,
     .dq = 8,
     .with = ALL_OUT | WITH_SINK | WITH_LEN | WITH_BHDS},
    {.name = "gaps", .hq = 2, .sq = 3, .sk = 7, .dq = 5, .with = ALL_OUT | WITH_GAPS},
    {.name = "bshd", .hq = 3, .sq = 4, .sk = 6, .dq = 5, .with = WITH_BSHD},
    {.name = "bhds", .hq = 3, .sq = 4, .sk = 6, .dq = 5, .with = WITH_BHDS | WITH_GAPS},
    {.name = "bhds, decode", .hq = 3, .sq = 1, .sk = 6, .dq = 5, .with = WITH_BHDS | WITH_GAPS},
    {.name = "width 1", .sq = 3, .sk = 6, .dq = 1, .with = WITH_BSHD},
    {.name = "no keys", .sq = 3, .sk = 0, .dq = 4, .with = ALL_OUT},
    {.name = "no keys, sink", .sq = 3, .sk = 0, .dq = 4, .with = WITH_LSE | WITH_SINK},
    {.name = "causal", .flags = ATTN_FLAG_CAUSAL, .sq = 7, .sk = 5, .dq = 4, .with = ALL_OUT},
    {.name = "causal, bottom right, empty rows, f64",
     .dtype = ATTN_F64,
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
    {.name = "lengths per query, mask, bias, sink, gaps",
     .hq = 2,
     .sq = 12,
     .sk = 13,
     .dq = 4,
     .with = ALL_OUT | WITH_LEN_2D | WITH_MASK | WITH_BIAS | WITH_SINK | WITH_GAPS},
    {.name = "poison behind a mask", .sq = 1, .sk = 24, .dq = 8, .with = WITH_MASK | WITH_POISON},
    {.name = "poison behind a mask, f64",
     .dtype = ATTN_F64,
     .sq = 2,
     .sk = 40,
     .dq = 8,
     .with = WITH_MASK | WITH_POISON},
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
    {.name = "mha, self, no w_o",
     .op = ATTN_OP_MHA,
     .flags = ATTN_FLAG_RESIDUAL,
     .hq = 2,
     .sq = 6,
     .sk = 6,
     .dq = 3,
     .e = 6,
     .with = WITH_GAPS | WITH_HEAD_MASK},
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
    {.name = "mha, f64, one query",
     .op = ATTN_OP_MHA,
     .dtype = ATTN_F64,
     .hq = 4,
     .sq = 1,
     .sk = 7,
     .dq = 3,
     .e = 10,
     .with = WITH_X_K | WITH_W_O | WITH_PROJ_BIAS},
};

static const struct attn_backend *blas(void)
{
    return attn_plugin.backends[0];
}

static void matches_the_oracle(void **state)
{
    (void)state;
    for (size_t s = 0; s < sizeof(specs) / sizeof(specs[0]); s++)
        test_spec_run(blas(), &specs[s]);
}

/* NaN and infinities in an allowed key and in its value: the rows that see it, and no other one. */
static void keeps_nan_to_its_rows(void **state)
{
    (void)state;
    struct test_spec spec = {.name = "NaN in key 2 under causal",
                             .flags = ATTN_FLAG_CAUSAL,
                             .b = 1,
                             .sq = 20,
                             .sk = 20,
                             .dq = 4,
                             .with = ALL_OUT};
    const double values[] = {NAN, INFINITY, -INFINITY};
    for (int n = 0; n < 6; n++) {
        struct test_problem made;
        test_problem_make(&spec, &made);
        const struct attn_tensor *q = attn_tensor_find(&made.problem, ATTN_Q);
        uint32_t role = n < 3 ? ATTN_K : ATTN_V;
        test_set(attn_tensor_find(&made.problem, role), (int64_t[]){0, 0, 2, 0}, values[n % 3]);
        for (int64_t i = 0; i < 20; i++)
            test_set(q, (int64_t[]){0, 0, i, 0}, 1); /* so that the score has the sign of the key */
        test_run(blas(), &made);
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
        test_run(blas(), &made);
        test_check(&spec, &made);
        test_problem_free(&made);
    }
}

/* A weight that underflows is still one of an allowed key: 0 * NaN is NaN there. */
static void underflow_is_not_a_mask(void **state)
{
    (void)state;
    struct test_spec spec = {.name = "NaN behind a weight of 0", .b = 1, .sq = 2, .sk = 3, .dq = 1};
    struct test_problem made;
    test_problem_make(&spec, &made);
    for (int64_t i = 0; i < 2; i++)
        test_set(attn_tensor_find(&made.problem, ATTN_Q), (int64_t[]){0, 0, i, 0}, 1);
    test_set(attn_tensor_find(&made.problem, ATTN_K), (int64_t[]){0, 0, 1, 0}, -1000);
    test_set(attn_tensor_find(&made.problem, ATTN_V), (int64_t[]){0, 0, 1, 0}, NAN);
    test_run(blas(), &made);
    test_check(&spec, &made);
    test_problem_free(&made);
}

/* Error of exp over a fine sample of its range: no multiple of a power of two, so that mantissas of
 * all kinds occur. */
static void exp_keeps_its_bound(void **state)
{
    (void)state;
    double worst = 0;
    for (uint32_t bits = 0x33000000u; bits <= 0x42aeac4fu; bits += 97) { /* 2^-25 .. 87.3365 */
        float x;
        memcpy(&x, &bits, sizeof(x));
        worst = fmax(worst, fabs((double)attn_blas_exp(-x) / exp(-(double)x) - 1));
    }
    print_message("exp: %.3f of what is declared\n", worst / ATTN_BLAS_E_EXP);
    assert_true(worst <= ATTN_BLAS_E_EXP);
    assert_true(attn_blas_exp(0) == 1 && attn_blas_exp(-0.0f) == 1);
    assert_true(attn_blas_exp(-87.4f) == 0 && attn_blas_exp(-1e30f) == 0);
    assert_true(attn_blas_exp(-INFINITY) == 0);
    assert_true(isnan(attn_blas_exp(NAN)));
}

static void refuses_what_it_does_not_know(void **state)
{
    (void)state;
    const struct test_spec refused[] = {
        {.name = "op", .op = ATTN_OP_ATTENTION_BACKWARD, .sq = 2, .sk = 2, .dq = 2, .e = 2},
        {.name = "score", .score = ATTN_SCORE_GAUSSIAN, .sq = 2, .sk = 2, .dq = 2},
        {.name = "bf16", .dtype = ATTN_BF16, .sq = 2, .sk = 2, .dq = 2},
        {.name = "f8", .dtype = ATTN_F8_E4M3, .sq = 2, .sk = 2, .dq = 2},
        {.name = "flag", .flags = ATTN_FLAG_STREAM, .sq = 2, .sk = 2, .dq = 2},
        {.name = "widths", .sq = 2, .sk = 2, .dq = 2, .dk = 3},
        {.name = "determinism of a threaded BLAS",
         .flags = ATTN_FLAG_DETERMINISTIC,
         .sq = 2,
         .sk = 2,
         .dq = 2},
    };
    for (size_t s = 0; s < sizeof(refused) / sizeof(refused[0]); s++)
        test_spec_refused(blas(), &refused[s]);
}

static void knows_what_blas_can_take(void **state)
{
    (void)state;
    struct attn_blas_matrix m;
    assert_int_equal(attn_blas_matrix(4, 3, 5, 1, &m), 0);
    assert_true(!m.transposed && m.ld == 5);
    assert_int_equal(attn_blas_matrix(4, 3, 1, 4, &m), 0);
    assert_true(m.transposed && m.ld == 4);
    assert_int_equal(attn_blas_matrix(1, 3, 0, 7, &m), 0);
    assert_true(m.transposed && m.ld == 7);
    assert_int_equal(attn_blas_matrix(0, 3, 3, 1, &m), 0);
    assert_int_equal(attn_blas_matrix(4, 3, 0, 1, &m), -1); /* one row for all */
    assert_int_equal(attn_blas_matrix(4, 3, 6, 2, &m), -1); /* every second column */
    assert_int_equal(attn_blas_matrix(4, 3, (int64_t)1 << 31, 1, &m), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matches_the_oracle),
        cmocka_unit_test(keeps_nan_to_its_rows),
        cmocka_unit_test(empty_and_dropped_rows_differ),
        cmocka_unit_test(underflow_is_not_a_mask),
        cmocka_unit_test(exp_keeps_its_bound),
        cmocka_unit_test(refuses_what_it_does_not_know),
        cmocka_unit_test(knows_what_blas_can_take),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
