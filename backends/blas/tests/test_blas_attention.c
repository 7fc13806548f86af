/* SPDX-License-Identifier: Apache-2.0 */
/* test_blas_attention.c - the blas backend against a double loop, its exp and tanh against libm,
 * and what it refuses. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../tests/common.h"
#include "../blas.h"

static const struct test_spec own[] = {
    {.name = "several blocks of rows", .sq = 67, .sk = 9000, .dq = 3, .b = 1, .with = WITH_LSE},
    {.name = "gaussian, a last block of one row",
     .score = ATTN_SCORE_GAUSSIAN,
     .sq = 65,
     .sk = 9000,
     .dq = 3,
     .b = 1,
     .with = WITH_LSE},
    {.name = "additive, no keys",
     .score = ATTN_SCORE_ADDITIVE,
     .sq = 3,
     .sk = 0,
     .dq = 4,
     .dh = 5,
     .with = ALL_OUT | WITH_SINK},
    {.name = "additive, everything at once",
     .score = ATTN_SCORE_ADDITIVE,
     .flags = ATTN_FLAG_WINDOW | ATTN_FLAG_SOFTCAP | ATTN_FLAG_DROPOUT,
     .softcap = 2,
     .dropout_p = 0.3,
     .left = 5,
     .right = 7,
     .hq = 4,
     .hkv = 2,
     .sq = 11,
     .sk = 21,
     .dq = 4,
     .dk = 6,
     .dv = 9,
     .dh = 33,
     .with = ALL_OUT | WITH_LEN_2D | WITH_MASK | WITH_BIAS | WITH_ALIBI | WITH_SINK | WITH_KEEP |
             WITH_GAPS},
    {.name = "mha, additive heads",
     .op = ATTN_OP_MHA,
     .score = ATTN_SCORE_ADDITIVE,
     .flags = ATTN_FLAG_CAUSAL,
     .hq = 4,
     .hkv = 2,
     .sq = 5,
     .sk = 7,
     .dq = 3,
     .dk = 6,
     .dv = 4,
     .dh = 5,
     .e = 10,
     .with = ALL_OUT | WITH_X_K | WITH_W_O | WITH_PROJ_BIAS | WITH_HEAD_MASK | WITH_HEAD_PARAMS},
    {.name = "mha, bilinear heads, no w_o",
     .op = ATTN_OP_MHA,
     .score = ATTN_SCORE_BILINEAR,
     .flags = ATTN_FLAG_RESIDUAL,
     .scale = 0.1,
     .hq = 4,
     .hkv = 2,
     .sq = 6,
     .sk = 6,
     .dq = 3,
     .dk = 5,
     .dv = 2,
     .e = 8,
     .with = WITH_HEAD_MASK | WITH_GAPS},
    {.name = "mha, gaussian heads, one query",
     .op = ATTN_OP_MHA,
     .score = ATTN_SCORE_GAUSSIAN,
     .scale = 0.1,
     .hq = 6,
     .hkv = 2,
     .sq = 1,
     .sk = 6,
     .dq = 3,
     .e = 8,
     .with = WITH_X_K | WITH_W_O},
};

static const struct test_spec refused[] = {
    {.name = "f16", .dtype = ATTN_F16, .sq = 2, .sk = 2, .dq = 2},
    {.name = "bf16", .dtype = ATTN_BF16, .sq = 2, .sk = 2, .dq = 2},
    {.name = "determinism of a threaded BLAS",
     .flags = ATTN_FLAG_DETERMINISTIC,
     .sq = 2,
     .sk = 2,
     .dq = 2},
};

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
        if (x <= ATTN_BLAS_EXP_END)
            worst = fmax(worst, fabs((double)attn_blas_exp(x) / exp((double)x) - 1));
    }
    print_message("exp: %.3f of what is declared\n", worst / ATTN_BLAS_E_EXP);
    assert_true(worst <= ATTN_BLAS_E_EXP);
    assert_true(attn_blas_exp(0) == 1 && attn_blas_exp(-0.0f) == 1);
    assert_true(attn_blas_exp(-87.4f) == 0 && attn_blas_exp(-1e30f) == 0);
    assert_true(attn_blas_exp(-INFINITY) == 0);
    assert_true(isnan(attn_blas_exp(NAN)));
}

/* Both signs, from where tanh(x) is x to where it is 1. */
static void tanh_keeps_its_bound(void **state)
{
    (void)state;
    double worst = 0;
    for (uint32_t bits = 0x38000000u; bits <= 0x41200000u; bits += 31) { /* 2^-15 .. 10 */
        float x;
        memcpy(&x, &bits, sizeof(x));
        double exact = tanh((double)x);
        worst = fmax(worst, fabs((double)attn_blas_tanh(x) / exact - 1));
        worst = fmax(worst, fabs((double)attn_blas_tanh(-x) / -exact - 1));
    }
    print_message("tanh: %.3f of what is declared\n", worst / ATTN_BLAS_E_TANH);
    assert_true(worst <= ATTN_BLAS_E_TANH);
    for (int exponent = -149; exponent < -15; exponent++) { /* subnormals, too */
        float x = ldexpf(-1, exponent);
        assert_true(fabs((double)attn_blas_tanh(x) / (double)x - 1) <= ATTN_BLAS_E_TANH);
    }
    assert_true(attn_blas_tanh(0) == 0);
    assert_true(attn_blas_tanh(INFINITY) == 1 && attn_blas_tanh(-INFINITY) == -1);
    assert_true(isnan(attn_blas_tanh(NAN)));
}

/* One score in every layout, with shared parameters and with those of a head, for one query and for
 * several; position leaves keys that none may see. */
static void run_score(uint32_t score, uint32_t dtype)
{
    static const uint32_t layouts[] = {0, WITH_BSHD | WITH_GAPS, WITH_BHDS};
    for (int n = 0; n < 24; n++) {
        const uint32_t layout = layouts[n % 3];
        const struct test_spec spec = {.name = "a score in a layout",
                                       .score = score,
                                       .dtype = dtype,
                                       .flags = ATTN_FLAG_CAUSAL | ATTN_FLAG_SOFTCAP,
                                       .softcap = 5,
                                       .scale = score == ATTN_SCORE_ADDITIVE ? -1.5 : 0.15,
                                       .hq = n / 12 ? 4 : 6,
                                       .hkv = n / 12 ? 4 : 2,
                                       .sq = n / 3 % 2 ? 7 : 1,
                                       .sk = 45,
                                       .off = 35,
                                       .dq = score == ATTN_SCORE_GAUSSIAN ? 21 : 23,
                                       .dk = 21,
                                       .dv = 3,
                                       .dh = 6,
                                       .with = layout | ALL_OUT | WITH_ALIBI | WITH_POISON |
                                               (n / 6 % 2 ? WITH_HEAD_PARAMS : 0)};
        test_spec_run(attn_plugin.backends[0], &spec);
    }
}

static void other_scores_match_the_oracle(void **state)
{
    (void)state;
    for (uint32_t score = ATTN_SCORE_BILINEAR; score <= ATTN_SCORE_ADDITIVE; score++) {
        run_score(score, ATTN_F32);
        run_score(score, ATTN_F64);
    }
}

/* One key or query that is not a common number; key 0 stays. With `distant`, q and key 2 are so far
 * out that their norms overflow, and still close to each other. */
static void run_special(uint32_t score, int64_t sq, uint32_t role, double value, int distant)
{
    const struct test_spec spec = {.name = "a special number",
                                   .score = score,
                                   .b = 1,
                                   .sq = sq,
                                   .sk = 5,
                                   .dq = 4,
                                   .dh = 6,
                                   .scale = 0.5,
                                   .with = ALL_OUT};
    struct test_problem made;
    test_problem_make(&spec, &made);
    test_set(attn_tensor_find(&made.problem, role), (int64_t[]){0, 0, sq > 2 ? 2 : 0, 1}, value);
    for (int64_t i = 0; i < sq && distant; i++)
        test_set(attn_tensor_find(&made.problem, ATTN_Q), (int64_t[]){0, 0, i, 1}, value);
    test_run(attn_plugin.backends[0], &made);
    test_check(&spec, &made);
    test_problem_free(&made);
}

static void other_scores_keep_special_numbers_to_their_rows(void **state)
{
    (void)state;
    for (int64_t sq = 1; sq <= 3; sq += 2) {
        for (uint32_t score = ATTN_SCORE_BILINEAR; score <= ATTN_SCORE_ADDITIVE; score++)
            for (int role = 0; role < 3; role++)
                run_special(score, sq, (const uint32_t[]){ATTN_Q, ATTN_K, ATTN_V}[role], NAN, 0);
        run_special(ATTN_SCORE_GAUSSIAN, sq, ATTN_K, INFINITY, 0);
        run_special(ATTN_SCORE_GAUSSIAN, sq, ATTN_K, -INFINITY, 0);
        run_special(ATTN_SCORE_GAUSSIAN, sq, ATTN_Q, INFINITY, 0);
        run_special(ATTN_SCORE_ADDITIVE, sq, ATTN_K, INFINITY, 0);
        run_special(ATTN_SCORE_ADDITIVE, sq, ATTN_Q, -INFINITY, 0);
        run_special(ATTN_SCORE_GAUSSIAN, sq, ATTN_K, 2e19, 1);
    }
}

/* Takes a tensor out of a problem. */
static void leave_out(struct test_problem *made, uint32_t role)
{
    uint32_t t = 0;
    while (made->tensors[t].role != role)
        t++;
    free(made->tensors[t].data);
    made->problem.n_tensors--;
    for (; t < made->problem.n_tensors; t++) {
        made->tensors[t] = made->tensors[t + 1];
        made->bytes[t] = made->bytes[t + 1];
    }
}

static void each_projection_bias_is_optional(void **state)
{
    (void)state;
    const uint32_t biases[] = {ATTN_B_Q, ATTN_B_K, ATTN_B_V, ATTN_B_O};
    const struct test_spec spec = {.name = "mha with some of its biases",
                                   .op = ATTN_OP_MHA,
                                   .hq = 4,
                                   .hkv = 2,
                                   .sq = 5,
                                   .sk = 7,
                                   .dq = 3,
                                   .dv = 4,
                                   .e = 10,
                                   .with = WITH_X_K | WITH_W_O | WITH_PROJ_BIAS};
    for (unsigned set = 0; set < 16; set++) {
        struct test_problem made;
        test_problem_make(&spec, &made);
        for (int n = 0; n < 4; n++)
            if (!(set >> n & 1))
                leave_out(&made, biases[n]);
        test_run(attn_plugin.backends[0], &made);
        test_check(&spec, &made);
        test_problem_free(&made);
    }
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
    const uint32_t dtypes[] = {ATTN_F32, ATTN_F64, 0};
    struct test_subject blas = {.backend = attn_plugin.backends[0],
                                .dtypes = dtypes,
                                .own = own,
                                .n_own = sizeof(own) / sizeof(own[0]),
                                .refused = refused,
                                .n_refused = sizeof(refused) / sizeof(refused[0])};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exp_keeps_its_bound),
        cmocka_unit_test(tanh_keeps_its_bound),
        cmocka_unit_test(other_scores_match_the_oracle),
        cmocka_unit_test(other_scores_keep_special_numbers_to_their_rows),
        cmocka_unit_test(each_projection_bias_is_optional),
        cmocka_unit_test(knows_what_blas_can_take),
    };
    int failed = test_common(&blas);
    return failed + cmocka_run_group_tests(tests, NULL, NULL);
}
