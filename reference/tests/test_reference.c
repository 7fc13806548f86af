/* SPDX-License-Identifier: Apache-2.0 */
/* test_reference.c - values known by hand, classes of non-finite numbers, empty rows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "reference/tests/results.h"

/* Two keys with logits 0 and ln 3: weights 1/4 and 3/4, each worked out on paper. */
static void two_keys_by_hand(void **state)
{
    struct made_spec spec = {.score = ATTN_SCORE_DOT, .sq = 1, .sk = 2, .dk = 1};
    struct results r;
    struct made m;

    (void)state;
    made_create(&m, &spec);
    results_set_all(made_tensor(&m, ATTN_Q), (const double[]){1});
    results_set_all(made_tensor(&m, ATTN_K), (const double[]){0, log(3)});
    results_set_all(made_tensor(&m, ATTN_V), (const double[]){8, -4});
    results_compute(&m, NULL, &r);
    results_assert_near(r.weights[0], 0.25);
    results_assert_near(r.weights[1], 0.75);
    results_assert_near(r.out[0], -1.0);
    results_assert_near(r.lse[0], log(4));
    assert_int_equal(r.allowed[0], 2);
    /* Twice the scale: logits 0 and ln 9. */
    m.problem.scale = 2.0;
    results_compute(&m, NULL, &r);
    results_assert_near(r.out[0], 0.8 - 3.6);
    made_free(&m);
}

static void sink_by_hand(void **state)
{
    struct made_spec spec = {
        .score = ATTN_SCORE_DOT, .sq = 1, .sk = 2, .dk = 1, .features = MADE_SINK};
    struct results r;
    struct made m;

    (void)state;
    made_create(&m, &spec);
    results_set_all(made_tensor(&m, ATTN_Q), (const double[]){1});
    results_set_all(made_tensor(&m, ATTN_K), (const double[]){0, log(3)});
    results_set_all(made_tensor(&m, ATTN_V), (const double[]){8, -4});
    made_set(made_tensor(&m, ATTN_SINK), 0, log(4));
    results_compute(&m, NULL, &r);
    results_assert_near(r.weights[0], 1.0 / 8);
    results_assert_near(r.weights[1], 3.0 / 8);
    results_assert_near(r.out[0], -0.5);
    results_assert_near(r.lse[0], log(8));
    made_free(&m);
}

/* The three stages of one cell: q.k = 6, scale 1/2, softcap 1.5, bias 0.25, slope 0.5 at distance
 * |0 + off - 0| = 2. */
static void stages_by_hand(void **state)
{
    struct made_spec spec = {.sq = 1,
                             .sk = 1,
                             .dk = 4,
                             .dv = 1,
                             .features = MADE_SOFTCAP | MADE_BIAS | MADE_ALIBI,
                             .off = 2};
    struct results r;
    struct made m;

    (void)state;
    made_create(&m, &spec);
    results_set_all(made_tensor(&m, ATTN_Q), (const double[]){1, 2, 0, 0});
    results_set_all(made_tensor(&m, ATTN_K), (const double[]){2, 2, 9, 9});
    made_set(made_tensor(&m, ATTN_BIAS), 0, 0.25);
    made_set(made_tensor(&m, ATTN_ALIBI), 0, 0.5);
    results_compute(&m, NULL, &r);
    results_assert_near(r.scores[0][0], 3.0);
    results_assert_near(r.scores[1][0], 1.5 * tanh(2.0));
    results_assert_near(r.scores[2][0], 1.5 * tanh(2.0) + 0.25 - 1.0);
    made_free(&m);
}

static void other_scores_by_hand(void **state)
{
    struct made_spec gaussian = {.score = ATTN_SCORE_GAUSSIAN, .sq = 1, .sk = 1, .dk = 2};
    struct made_spec bilinear = {.score = ATTN_SCORE_BILINEAR, .sq = 1, .sk = 1, .dq = 2, .dk = 3};
    struct made_spec additive = {
        .score = ATTN_SCORE_ADDITIVE, .sq = 1, .sk = 1, .dq = 1, .dk = 2, .dh = 2};
    struct results r;
    struct made m;

    (void)state;
    made_create(&m, &gaussian);
    results_set_all(made_tensor(&m, ATTN_Q), (const double[]){1, 2});
    results_set_all(made_tensor(&m, ATTN_K), (const double[]){4, -2});
    results_compute(&m, NULL, &r);
    results_assert_near(r.scores[0][0], -12.5);
    made_free(&m);

    made_create(&m, &bilinear);
    results_set_all(made_tensor(&m, ATTN_Q), (const double[]){1, 10});
    results_set_all(made_tensor(&m, ATTN_K), (const double[]){1, 2, 3});
    results_set_all(made_tensor(&m, ATTN_SCORE_M), (const double[]){1, 0, 2, 0, 3, 1});
    results_compute(&m, NULL, &r);
    results_assert_near(r.scores[0][0], 7 + 10 * 9);
    made_free(&m);

    made_create(&m, &additive);
    results_set_all(made_tensor(&m, ATTN_Q), (const double[]){2});
    results_set_all(made_tensor(&m, ATTN_K), (const double[]){1, -1});
    results_set_all(made_tensor(&m, ATTN_SCORE_WQ), (const double[]){0.5, -0.25});
    results_set_all(made_tensor(&m, ATTN_SCORE_WK), (const double[]){1, 2, 3, 1});
    results_set_all(made_tensor(&m, ATTN_SCORE_WV), (const double[]){10, 100});
    results_compute(&m, NULL, &r);
    results_assert_near(r.scores[0][0], 10 * tanh(0.0) + 100 * tanh(1.5));
    made_free(&m);
}

/* Toy answer of the textbooks: equal keys, values 0..39, 2 and 6 valid keys, additive scores. */
static void textbook_answer(void **state)
{
    static const double expected[] = {2, 3, 4, 5, 10, 11, 12, 13};
    struct made_spec spec = {.score = ATTN_SCORE_ADDITIVE,
                             .b = 2,
                             .sq = 1,
                             .sk = 10,
                             .dq = 20,
                             .dk = 2,
                             .dv = 4,
                             .dh = 8,
                             .features = MADE_LEN};
    struct results r;
    struct made m;

    (void)state;
    made_create(&m, &spec);
    for (int64_t x = 0; x < 40; x++)
        made_set(made_tensor(&m, ATTN_K), x, 1.0);
    for (int64_t x = 0; x < 80; x++)
        made_set(made_tensor(&m, ATTN_V), x, (double)(x % 40));
    results_set_all(made_tensor(&m, ATTN_LEN), (const double[]){2, 6});
    results_compute(&m, NULL, &r);
    for (int c = 0; c < 8; c++)
        results_assert_near(r.out[c], expected[c]);
    for (int j = 0; j < 10; j++) {
        results_assert_near(r.weights[j], j < 2 ? 0.5 : 0.0);
        results_assert_near(r.weights[10 + j], j < 6 ? 1.0 / 6 : 0.0);
    }
    made_free(&m);
}

static void nan_in_an_allowed_key_shows(void **state)
{
    struct made_spec spec = {.sq = 2, .sk = 3, .dk = 2, .features = MADE_CAUSAL, .seed = 9};
    struct results r;
    struct made m;

    (void)state;
    made_create(&m, &spec);
    made_set(made_tensor(&m, ATTN_K), 1 * 2, NAN);
    results_compute(&m, &results_f32, &r);
    assert_true(isfinite(r.out[0]) && isfinite(r.lse[0]));
    assert_true(r.weights[0] == 1.0 && r.weights[1] == 0.0);
    assert_true(isnan(r.out[2]) && isnan(r.out[3]) && isnan(r.lse[1]));
    assert_true(isnan(r.weights[3]) && isnan(r.weights[4]) && r.weights[5] == 0.0);
    assert_true(r.out_bound[2] == 0.0 && r.lse_bound[1] == 0.0);
    made_free(&m);
}

static void infinite_scores_have_their_classes(void **state)
{
    struct made_spec spec = {
        .score = ATTN_SCORE_DOT, .sq = 1, .sk = 3, .dk = 1, .features = MADE_BIAS, .seed = 2};
    struct results r;
    struct made m;

    (void)state;
    made_create(&m, &spec);
    made_set(made_tensor(&m, ATTN_Q), 0, 1.0);
    made_set(made_tensor(&m, ATTN_K), 1, -INFINITY); /* counts as not allowed */
    results_compute(&m, NULL, &r);
    assert_int_equal(r.allowed[0], 2);
    assert_true(r.weights[1] == 0.0 && isfinite(r.out[0]));
    made_set(made_tensor(&m, ATTN_K), 1, INFINITY); /* makes the row NaN */
    results_compute(&m, NULL, &r);
    assert_int_equal(r.allowed[0], 3);
    assert_true(isnan(r.out[0]) && isnan(r.weights[0]) && isnan(r.lse[0]));
    made_set(made_tensor(&m, ATTN_BIAS), 1, -INFINITY); /* forbids it, NaN or not */
    made_set(made_tensor(&m, ATTN_V), 1, NAN);
    results_compute(&m, NULL, &r);
    assert_int_equal(r.allowed[0], 2);
    assert_true(isfinite(r.out[0]) && r.weights[1] == 0.0);
    made_set(made_tensor(&m, ATTN_V), 0, INFINITY); /* an allowed value, IEEE */
    results_compute(&m, NULL, &r);
    assert_true(r.out[0] == INFINITY && isfinite(r.lse[0]));
    made_free(&m);
}

/* 0 * Inf: which class a backend returns is certain only where the weight cannot underflow. */
static void an_infinity_is_certain_or_not(void **state)
{
    struct made_spec spec = {
        .score = ATTN_SCORE_DOT, .sq = 1, .sk = 2, .dk = 1, .dtype = ATTN_F32, .seed = 2};
    struct results r;
    struct made m;

    (void)state;
    made_create(&m, &spec);
    made_set(made_tensor(&m, ATTN_Q), 0, 1.0);
    results_set_all(made_tensor(&m, ATTN_V), (const double[]){INFINITY, 1});
    results_set_all(made_tensor(&m, ATTN_K), (const double[]){-80, 0});
    results_compute(&m, &results_f32, &r);
    assert_true(r.out[0] == INFINITY && r.out_bound[0] == 0.0);
    results_set_all(made_tensor(&m, ATTN_K), (const double[]){-90, 0});
    results_compute(&m, &results_f32, &r);
    assert_true(r.out[0] == INFINITY && r.out_bound[0] == INFINITY);
    results_set_all(made_tensor(&m, ATTN_V), (const double[]){NAN, 1});
    results_compute(&m, &results_f32, &r);
    assert_true(isnan(r.out[0]) && r.out_bound[0] == 0.0);
    made_free(&m);
}

static void dropped_values_take_no_part(void **state)
{
    struct made_spec spec = {.sq = 1, .sk = 2, .dk = 1, .features = MADE_KEEP, .seed = 2};
    struct results r;
    struct made m;

    (void)state;
    made_create(&m, &spec);
    results_set_all(made_tensor(&m, ATTN_K), (const double[]){1, 1});
    results_set_all(made_tensor(&m, ATTN_V), (const double[]){NAN, 3});
    results_set_all(made_tensor(&m, ATTN_KEEP), (const double[]){0, 1});
    results_compute(&m, &results_f32, &r);
    results_assert_near(r.out[0], 3 * 0.5 / 0.75);
    results_assert_near(r.weights[0], 0.5); /* before dropout */
    assert_true(isfinite(r.out_bound[0]));
    made_free(&m);
}

static void empty_rows_follow_the_declared_rule(void **state)
{
    struct made_spec spec = {.sq = 2, .sk = 2, .dk = 1, .features = MADE_LEN, .seed = 3};
    struct attn_numerics numerics = results_f32;
    struct results r;
    struct made m;

    (void)state;
    made_create(&m, &spec);
    made_set(made_tensor(&m, ATTN_LEN), 0, 0);
    results_set_all(made_tensor(&m, ATTN_V), (const double[]){1, 4});
    results_compute(&m, NULL, &r);
    assert_true(r.out[0] == 0.0 && r.weights[0] == 0.0 && r.lse[0] == -INFINITY);
    assert_int_equal(r.allowed[0], 0);
    numerics.empty_row = ATTN_EMPTY_NAN;
    results_compute(&m, &numerics, &r);
    assert_true(isnan(r.out[1]) && isnan(r.weights[3]) && isnan(r.lse[1]));
    numerics.empty_row = ATTN_EMPTY_UNIFORM;
    results_compute(&m, &numerics, &r);
    results_assert_near(r.out[0], 2.5);
    results_assert_near(r.weights[1], 0.5);
    assert_true(r.out_bound[0] > 0.0 && r.out_bound[0] < 1e-5);
    made_free(&m);

    spec.features |= MADE_SINK;
    made_create(&m, &spec);
    made_set(made_tensor(&m, ATTN_LEN), 0, 0);
    made_set(made_tensor(&m, ATTN_SINK), 0, 1.5);
    results_compute(&m, &results_f32, &r);
    assert_true(r.out[0] == 0.0 && r.weights[1] == 0.0 && r.lse[1] == 1.5);
    made_free(&m);
}

static void no_keys_at_all(void **state)
{
    struct made_spec spec = {.hq = 2, .sq = 3, .sk = -1, .dk = 4};
    struct results r;
    struct made m;

    (void)state;
    made_create(&m, &spec);
    memset(&r, 1, sizeof(r));
    results_compute(&m, &results_f32, &r);
    for (int x = 0; x < 24; x++)
        assert_true(r.out[x] == 0.0);
    assert_true(r.lse[5] == -INFINITY && r.allowed[5] == 0);
    made_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_keys_by_hand),
        cmocka_unit_test(sink_by_hand),
        cmocka_unit_test(stages_by_hand),
        cmocka_unit_test(other_scores_by_hand),
        cmocka_unit_test(textbook_answer),
        cmocka_unit_test(nan_in_an_allowed_key_shows),
        cmocka_unit_test(infinite_scores_have_their_classes),
        cmocka_unit_test(an_infinity_is_certain_or_not),
        cmocka_unit_test(dropped_values_take_no_part),
        cmocka_unit_test(empty_rows_follow_the_declared_rule),
        cmocka_unit_test(no_keys_at_all),
    };

    return cmocka_run_group_tests_name("reference", tests, NULL, NULL);
}
