/* SPDX-License-Identifier: Apache-2.0 */
/* common_checks.c - what every backend must do right, put to one backend at a time. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common.h"

void test_cases_run(const struct attn_backend *backend, int (*takes)(const struct test_spec *),
                    uint32_t dtype)
{
    int ran = 0;
    for (size_t s = 0; s < test_cases_n; s++) {
        struct test_spec spec = test_cases[s];
        if (takes && !takes(&spec))
            continue;
        spec.dtype = dtype;
        test_spec_run(backend, &spec);
        ran++;
    }
    assert_true(ran > 0);
}

static void matches_the_oracle(void **state)
{
    const struct test_subject *subject = *state;
    for (const uint32_t *dtype = subject->dtypes; *dtype; dtype++)
        test_cases_run(subject->backend, subject->takes, *dtype);
    for (size_t s = 0; s < subject->n_own; s++)
        test_spec_run(subject->backend, &subject->own[s]);
}

/* Runs a problem that a test has altered, and frees it. */
static void run_altered(const struct attn_backend *backend, const struct test_spec *spec,
                        struct test_problem *made)
{
    test_run(backend, made);
    test_check(spec, made);
    test_problem_free(made);
}

static void check_special(const struct attn_backend *backend, const struct test_spec *spec,
                          uint32_t role, double value)
{
    struct test_problem made;
    test_problem_make(spec, &made);
    test_set(attn_tensor_find(&made.problem, role), (int64_t[]){0, 0, 2, 0}, value);
    for (int64_t i = 0; i < spec->sq; i++) /* so that the score has the sign of the key */
        test_set(attn_tensor_find(&made.problem, ATTN_Q), (int64_t[]){0, 0, i, 0}, 1);
    run_altered(backend, spec, &made);
}

/* NaN and infinities in an allowed key and in its value: the rows that see it, and no other one. */
void test_keeps_nan_to_its_rows(void **state)
{
    const struct test_subject *subject = *state;
    const int64_t sizes[] = {5, 20};
    const uint32_t outputs[] = {0, ALL_OUT};
    const double values[] = {NAN, INFINITY, -INFINITY};
    for (int n = 0; n < 4; n++) {
        const struct test_spec spec = {.name = "not finite in key 2 under causal",
                                       .flags = ATTN_FLAG_CAUSAL,
                                       .b = 1,
                                       .sq = sizes[n / 2],
                                       .sk = sizes[n / 2],
                                       .dq = 4,
                                       .with = outputs[n % 2]};
        for (int v = 0; v < 3; v++) {
            check_special(subject->backend, &spec, ATTN_K, values[v]);
            check_special(subject->backend, &spec, ATTN_V, values[v]);
        }
    }
}

/* NaN in the only key, or in its value, where some rows are empty and of some the key is dropped:
 * an empty row is 0, and a row whose score is NaN is NaN even where the key is dropped. */
static void empty_and_dropped_rows_differ(void **state)
{
    const struct test_subject *subject = *state;
    const struct test_spec spec = {.name = "NaN in the only key",
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
        run_altered(subject->backend, &spec, &made);
    }
}

/* An infinite value behind a weight that is not zero shows; behind a dropped one it does not. */
static void dropped_values_take_no_part(void **state)
{
    const struct test_subject *subject = *state;
    const struct test_spec spec = {.name = "infinity in every value",
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
    run_altered(subject->backend, &spec, &made);
}

/* A weight that underflows is still one of an allowed key: 0 * NaN is NaN there. */
static void underflow_is_not_a_mask(void **state)
{
    const struct test_subject *subject = *state;
    const struct test_spec spec = {
        .name = "NaN behind a weight of 0", .b = 1, .sq = 2, .sk = 3, .dq = 1};
    struct test_problem made;
    test_problem_make(&spec, &made);
    for (int64_t i = 0; i < 2; i++)
        test_set(attn_tensor_find(&made.problem, ATTN_Q), (int64_t[]){0, 0, i, 0}, 1);
    test_set(attn_tensor_find(&made.problem, ATTN_K), (int64_t[]){0, 0, 1, 0}, -1000);
    test_set(attn_tensor_find(&made.problem, ATTN_V), (int64_t[]){0, 0, 1, 0}, NAN);
    run_altered(subject->backend, &spec, &made);
}

/* Known answers of the paper's library (kat_vectors): counter and key all zero give 6627e8d5, so
 * 0x6627e8 * 2^-24 = 0.3990 decides cell 0 under seed 0. */
static void philox_agrees_with_the_paper(void **state)
{
    const struct test_subject *subject = *state;
    const struct test_spec spec = {.name = "dropout of one cell",
                                   .flags = ATTN_FLAG_DROPOUT,
                                   .b = 1,
                                   .sq = 1,
                                   .sk = 1,
                                   .dq = 1};
    const double p[] = {0.39, 0.40, 0x6627e8 * 0x1p-24}; /* kept when >= p */
    for (int n = 0; n < 3; n++) {
        struct test_problem made;
        test_problem_make(&spec, &made);
        made.problem.dropout_seed = 0;
        made.problem.dropout_p = p[n];
        test_run(subject->backend, &made);
        double v = test_at(attn_tensor_find(&made.problem, ATTN_V), (int64_t[]){0, 0, 0, 0});
        double out = test_at(attn_tensor_find(&made.problem, ATTN_OUT), (int64_t[]){0, 0, 0, 0});
        double want = n == 1 ? 0 : v / (1 - p[n]);
        assert_true(fabs(out - want) <= 1e-6);
        test_problem_free(&made);
    }
}

/* What no backend knows yet, then what this one does not. */
static void refuses_what_it_does_not_know(void **state)
{
    static const struct test_spec unknown[] = {
        {.name = "op", .op = 255, .sq = 2, .sk = 2, .dq = 2, .e = 2},
        {.name = "score", .score = 6, .sq = 2, .sk = 2, .dq = 2},
        {.name = "type", .dtype = ATTN_F8_E4M3, .sq = 2, .sk = 2, .dq = 2},
        {.name = "flag", .flags = ATTN_FLAG_APPROXIMATE, .sq = 2, .sk = 2, .dq = 2},
        {.name = "stream", .flags = ATTN_FLAG_STREAM, .sq = 2, .sk = 2, .dq = 2},
        {.name = "new flag", .flags = 1ull << 40, .sq = 2, .sk = 2, .dq = 2},
        {.name = "widths", .sq = 2, .sk = 2, .dq = 2, .dk = 3},
        {.name = "groups", .hq = 3, .hkv = 2, .sq = 2, .sk = 2, .dq = 2},
    };
    const struct test_subject *subject = *state;
    for (size_t s = 0; s < sizeof(unknown) / sizeof(unknown[0]); s++)
        test_spec_refused(subject->backend, &unknown[s]);
    for (size_t s = 0; s < subject->n_refused; s++)
        test_spec_refused(subject->backend, &subject->refused[s]);
}

/* The formulas of the operator are those of dot products. */
static void refuses_gradients_of_other_scores(void **state)
{
    const struct test_subject *subject = *state;
    struct test_spec spec = {.op = ATTN_OP_ATTENTION_BACKWARD, .sq = 4, .sk = 6, .dq = 8};
    spec.dtype = subject->dtypes[0];
    for (spec.score = ATTN_SCORE_SCALED_DOT; spec.score <= ATTN_SCORE_ADDITIVE; spec.score++) {
        const bool dot = spec.score == ATTN_SCORE_SCALED_DOT || spec.score == ATTN_SCORE_DOT;
        struct test_problem made;
        char why[256] = "";
        spec.dh = spec.score == ATTN_SCORE_ADDITIVE ? 8 : 0;
        test_problem_make(&spec, &made);
        const int result =
            subject->backend->supports(&made.problem, &test_services, why, sizeof(why));
        print_message("gradients of score %u: %s\n", spec.score, why);
        assert_int_equal(result, dot ? ATTN_OK : ATTN_UNSUPPORTED);
        assert_true(dot || strstr(why, "gradients are those of dot products"));
        test_problem_free(&made);
    }
}

static void refuses_unknown_tensors(void **state)
{
    const struct test_subject *subject = *state;
    const struct test_spec spec = {.name = "tensor", .sq = 2, .sk = 2, .dq = 2, .with = WITH_LSE};
    for (int n = 0; n < 5; n++) {
        struct test_problem made;
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
        test_problem_refused(subject->backend, &made.problem);
        test_problem_free(&made);
    }
}

int test_common(struct test_subject *subject)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(matches_the_oracle, subject),
        cmocka_unit_test_prestate(test_keeps_nan_to_its_rows, subject),
        cmocka_unit_test_prestate(empty_and_dropped_rows_differ, subject),
        cmocka_unit_test_prestate(dropped_values_take_no_part, subject),
        cmocka_unit_test_prestate(underflow_is_not_a_mask, subject),
        cmocka_unit_test_prestate(philox_agrees_with_the_paper, subject),
        cmocka_unit_test_prestate(refuses_what_it_does_not_know, subject),
        cmocka_unit_test_prestate(refuses_gradients_of_other_scores, subject),
        cmocka_unit_test_prestate(refuses_unknown_tensors, subject),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
