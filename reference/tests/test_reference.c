/* SPDX-License-Identifier: Apache-2.0 */
/* test_reference.c - values known by hand, identities, non-finite numbers, empty rows, requests. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reference/reference.h"
#include "reference/tests/made.h"

#define MAX_CELLS 4096

/* Everything a problem of a few rows can give. */
struct results {
    double out[MAX_CELLS], out_bound[MAX_CELLS], lse[MAX_CELLS], lse_bound[MAX_CELLS];
    double weights[MAX_CELLS], weights_bound[MAX_CELLS], scores[3][MAX_CELLS];
    int64_t allowed[MAX_CELLS];
};

static const struct attn_numerics plain_f32 = {
    .struct_size = sizeof(struct attn_numerics), .acc_type = ATTN_F32, .e_exp = 0x1p-23};

static void compute_rows(struct made *m, const struct attn_numerics *numerics,
                         const struct ref_rows *rows, int threads, struct results *r)
{
    struct ref_result result = {.out = r->out,
                                .out_bound = r->out_bound,
                                .lse = r->lse,
                                .lse_bound = r->lse_bound,
                                .weights = r->weights,
                                .weights_bound = r->weights_bound,
                                .scores = {r->scores[0], r->scores[1], r->scores[2]},
                                .allowed = r->allowed};
    char why[256];

    if (ref_compute(&m->problem, rows, numerics, REF_FILL_GENERIC, threads, &result, why,
                    sizeof(why)) != ATTN_OK)
        fail_msg("%s", why);
}

static void compute(struct made *m, const struct attn_numerics *numerics, struct results *r)
{
    struct ref_rows rows = {ref_row_count(&m->problem), NULL};
    compute_rows(m, numerics, &rows, 1, r);
}

static void set_all(struct attn_tensor *t, const double *values)
{
    for (int64_t x = 0; x < made_count(t); x++)
        made_set(t, x, values[x]);
}

static void assert_near(double a, double b)
{
    if (!(fabs(a - b) <= 1e-14 * (1.0 + fabs(b))))
        fail_msg("%.17g is not %.17g", a, b);
}

/* Two keys with logits 0 and ln 3: weights 1/4 and 3/4, each worked out on paper. */
static void two_keys_by_hand(void **state)
{
    struct made_spec spec = {.score = ATTN_SCORE_DOT, .sq = 1, .sk = 2, .dk = 1};
    struct results r;
    struct made m;

    (void)state;
    made_create(&m, &spec);
    set_all(made_tensor(&m, ATTN_Q), (const double[]){1});
    set_all(made_tensor(&m, ATTN_K), (const double[]){0, log(3)});
    set_all(made_tensor(&m, ATTN_V), (const double[]){8, -4});
    compute(&m, NULL, &r);
    assert_near(r.weights[0], 0.25);
    assert_near(r.weights[1], 0.75);
    assert_near(r.out[0], -1.0);
    assert_near(r.lse[0], log(4));
    assert_int_equal(r.allowed[0], 2);
    /* Twice the scale: logits 0 and ln 9. */
    m.problem.scale = 2.0;
    compute(&m, NULL, &r);
    assert_near(r.out[0], 0.8 - 3.6);
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
    set_all(made_tensor(&m, ATTN_Q), (const double[]){1});
    set_all(made_tensor(&m, ATTN_K), (const double[]){0, log(3)});
    set_all(made_tensor(&m, ATTN_V), (const double[]){8, -4});
    made_set(made_tensor(&m, ATTN_SINK), 0, log(4));
    compute(&m, NULL, &r);
    assert_near(r.weights[0], 1.0 / 8);
    assert_near(r.weights[1], 3.0 / 8);
    assert_near(r.out[0], -0.5);
    assert_near(r.lse[0], log(8));
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
    set_all(made_tensor(&m, ATTN_Q), (const double[]){1, 2, 0, 0});
    set_all(made_tensor(&m, ATTN_K), (const double[]){2, 2, 9, 9});
    made_set(made_tensor(&m, ATTN_BIAS), 0, 0.25);
    made_set(made_tensor(&m, ATTN_ALIBI), 0, 0.5);
    compute(&m, NULL, &r);
    assert_near(r.scores[0][0], 3.0);
    assert_near(r.scores[1][0], 1.5 * tanh(2.0));
    assert_near(r.scores[2][0], 1.5 * tanh(2.0) + 0.25 - 1.0);
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
    set_all(made_tensor(&m, ATTN_Q), (const double[]){1, 2});
    set_all(made_tensor(&m, ATTN_K), (const double[]){4, -2});
    compute(&m, NULL, &r);
    assert_near(r.scores[0][0], -12.5);
    made_free(&m);

    made_create(&m, &bilinear);
    set_all(made_tensor(&m, ATTN_Q), (const double[]){1, 10});
    set_all(made_tensor(&m, ATTN_K), (const double[]){1, 2, 3});
    set_all(made_tensor(&m, ATTN_SCORE_M), (const double[]){1, 0, 2, 0, 3, 1});
    compute(&m, NULL, &r);
    assert_near(r.scores[0][0], 7 + 10 * 9);
    made_free(&m);

    made_create(&m, &additive);
    set_all(made_tensor(&m, ATTN_Q), (const double[]){2});
    set_all(made_tensor(&m, ATTN_K), (const double[]){1, -1});
    set_all(made_tensor(&m, ATTN_SCORE_WQ), (const double[]){0.5, -0.25});
    set_all(made_tensor(&m, ATTN_SCORE_WK), (const double[]){1, 2, 3, 1});
    set_all(made_tensor(&m, ATTN_SCORE_WV), (const double[]){10, 100});
    compute(&m, NULL, &r);
    assert_near(r.scores[0][0], 10 * tanh(0.0) + 100 * tanh(1.5));
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
    set_all(made_tensor(&m, ATTN_LEN), (const double[]){2, 6});
    compute(&m, NULL, &r);
    for (int c = 0; c < 8; c++)
        assert_near(r.out[c], expected[c]);
    for (int j = 0; j < 10; j++) {
        assert_near(r.weights[j], j < 2 ? 0.5 : 0.0);
        assert_near(r.weights[10 + j], j < 6 ? 1.0 / 6 : 0.0);
    }
    made_free(&m);
}

static const struct made_spec usual = {.hq = 4, .hkv = 2, .sq = 6, .sk = 9, .dk = 5, .seed = 11};

static void values_of_one_give_one(void **state)
{
    struct results r;
    struct made m;

    (void)state;
    made_create(&m, &usual);
    for (int64_t x = 0; x < made_count(made_tensor(&m, ATTN_V)); x++)
        made_set(made_tensor(&m, ATTN_V), x, 1.0);
    compute(&m, NULL, &r);
    for (int64_t x = 0; x < made_count(made_tensor(&m, ATTN_OUT)); x++)
        assert_near(r.out[x], 1.0);
    made_free(&m);
}

static void keys_may_be_permuted(void **state)
{
    struct results r, s;
    struct made m;
    struct attn_tensor *k, *v;

    (void)state;
    made_create(&m, &usual);
    k = made_tensor(&m, ATTN_K);
    v = made_tensor(&m, ATTN_V);
    compute(&m, NULL, &r);
    for (int64_t g = 0; g < 2; g++) /* reverse the keys of each head */
        for (int64_t j = 0; j < 4; j++)
            for (int64_t c = 0; c < 5; c++) {
                int64_t a = (g * 9 + j) * 5 + c, b = (g * 9 + 8 - j) * 5 + c;
                double ka = made_get(k, a), va = made_get(v, a);
                made_set(k, a, made_get(k, b));
                made_set(v, a, made_get(v, b));
                made_set(k, b, ka);
                made_set(v, b, va);
            }
    compute(&m, NULL, &s);
    for (int64_t x = 0; x < made_count(made_tensor(&m, ATTN_OUT)); x++)
        assert_near(r.out[x], s.out[x]);
    made_free(&m);
}

static void a_shift_of_all_logits_moves_lse_alone(void **state)
{
    struct made_spec spec = usual;
    struct results r, s;
    struct made m;

    (void)state;
    spec.features = MADE_BIAS;
    made_create(&m, &spec);
    compute(&m, NULL, &r);
    for (int64_t x = 0; x < made_count(made_tensor(&m, ATTN_BIAS)); x++)
        made_set(made_tensor(&m, ATTN_BIAS), x, made_get(made_tensor(&m, ATTN_BIAS), x) + 3.0);
    compute(&m, NULL, &s);
    for (int64_t x = 0; x < made_count(made_tensor(&m, ATTN_OUT)); x++)
        assert_near(r.out[x], s.out[x]);
    for (int64_t x = 0; x < 24; x++)
        assert_near(r.lse[x] + 3.0, s.lse[x]);
    made_free(&m);
}

static void the_future_does_not_matter(void **state)
{
    struct made_spec spec = usual;
    struct results r, s;
    struct made m;

    (void)state;
    spec.features = MADE_CAUSAL;
    spec.hq = spec.hkv = 1;
    made_create(&m, &spec);
    compute(&m, &plain_f32, &r);
    for (int64_t x = 4 * 5; x < 9 * 5; x++) {
        made_set(made_tensor(&m, ATTN_K), x, NAN);
        made_set(made_tensor(&m, ATTN_V), x, INFINITY);
    }
    compute(&m, &plain_f32, &s);
    assert_memory_equal(r.out, s.out, 4 * 5 * sizeof(double));
    assert_memory_equal(r.out_bound, s.out_bound, 4 * 5 * sizeof(double));
    assert_memory_equal(r.lse, s.lse, 4 * sizeof(double));
    assert_true(isnan(s.out[4 * 5]));
    made_free(&m);
}

static void grouped_heads_are_repeated_heads(void **state)
{
    struct made_spec repeated = usual;
    struct results r, s;
    struct made m, n;

    (void)state;
    repeated.hkv = 4;
    made_create(&m, &usual);
    made_create(&n, &repeated);
    for (int64_t x = 0; x < made_count(made_tensor(&m, ATTN_Q)); x++)
        made_set(made_tensor(&n, ATTN_Q), x, made_get(made_tensor(&m, ATTN_Q), x));
    for (int64_t h = 0; h < 4; h++)
        for (int64_t x = 0; x < 45; x++) {
            int64_t from = h / 2 * 45 + x;
            made_set(made_tensor(&n, ATTN_K), h * 45 + x, made_get(made_tensor(&m, ATTN_K), from));
            made_set(made_tensor(&n, ATTN_V), h * 45 + x, made_get(made_tensor(&m, ATTN_V), from));
        }
    compute(&m, NULL, &r);
    compute(&n, NULL, &s);
    assert_memory_equal(r.out, s.out, 4 * 6 * 5 * sizeof(double));
    made_free(&m);
    made_free(&n);
}

/* Identity projections without W_o: the heads of x side by side. */
static void identity_projections_are_attention(void **state)
{
    struct made_spec mha = {.op = ATTN_OP_MHA,
                            .hq = 2,
                            .sq = 5,
                            .dk = 3,
                            .features = MADE_NO_WO | MADE_CAUSAL,
                            .seed = 21};
    struct made_spec plain = {.hq = 2, .sq = 5, .dk = 3, .features = MADE_CAUSAL, .seed = 22};
    static const uint32_t weights[] = {ATTN_W_Q, ATTN_W_K, ATTN_W_V};
    static const uint32_t operands[] = {ATTN_Q, ATTN_K, ATTN_V};
    struct results r, s;
    struct made m, n;

    (void)state;
    made_create(&m, &mha);
    made_create(&n, &plain);
    for (int w = 0; w < 3; w++) {
        for (int64_t x = 0; x < 36; x++)
            made_set(made_tensor(&m, weights[w]), x, x / 6 == x % 6);
        for (int64_t x = 0; x < 30; x++) /* [h,i,c] from [i,h*3+c] */
            made_set(made_tensor(&n, operands[w]), x,
                     made_get(made_tensor(&m, ATTN_X_Q), x / 3 % 5 * 6 + x / 15 * 3 + x % 3));
    }
    compute(&m, NULL, &r);
    compute(&n, NULL, &s);
    for (int64_t x = 0; x < 30; x++)
        assert_near(r.out[x / 3 % 5 * 6 + x / 15 * 3 + x % 3], s.out[x]);
    made_free(&m);
    made_free(&n);
}

static void requested_rows_are_rows_of_the_whole(void **state)
{
    static const int64_t index[] = {0, 5, 6, 13, 23};
    static const int64_t mha_index[] = {1, 4, 9};
    struct made_spec mha = {.op = ATTN_OP_MHA, .b = 2, .hq = 2, .sq = 5, .dk = 3, .seed = 5};
    struct results r, s;
    struct made m;

    (void)state;
    made_create(&m, &usual);
    compute(&m, &plain_f32, &r);
    compute_rows(&m, &plain_f32, &(struct ref_rows){5, index}, 3, &s);
    for (int x = 0; x < 5; x++) {
        assert_memory_equal(s.out + x * 5, r.out + index[x] * 5, 5 * sizeof(double));
        assert_memory_equal(s.out_bound + x * 5, r.out_bound + index[x] * 5, 5 * sizeof(double));
        assert_memory_equal(s.weights + x * 9, r.weights + index[x] * 9, 9 * sizeof(double));
        assert_true(s.lse[x] == r.lse[index[x]]);
    }
    made_free(&m);
    made_create(&m, &mha);
    compute(&m, &plain_f32, &r);
    compute_rows(&m, &plain_f32, &(struct ref_rows){3, mha_index}, 2, &s);
    for (int x = 0; x < 3; x++) {
        assert_memory_equal(s.out + x * 9, r.out + mha_index[x] * 9, 9 * sizeof(double));
        assert_memory_equal(s.weights + x * 10, r.weights + mha_index[x] * 10, 10 * sizeof(double));
    }
    made_free(&m);
}

static void threads_do_not_matter(void **state)
{
    struct results r, s;
    struct made m;
    struct ref_rows rows = {24, NULL};

    (void)state;
    made_create(&m, &usual);
    compute_rows(&m, &plain_f32, &rows, 1, &r);
    compute_rows(&m, &plain_f32, &rows, 4, &s);
    assert_memory_equal(r.out, s.out, 24 * 5 * sizeof(double));
    assert_memory_equal(r.out_bound, s.out_bound, 24 * 5 * sizeof(double));
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
    compute(&m, &plain_f32, &r);
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
    compute(&m, NULL, &r);
    assert_int_equal(r.allowed[0], 2);
    assert_true(r.weights[1] == 0.0 && isfinite(r.out[0]));
    made_set(made_tensor(&m, ATTN_K), 1, INFINITY); /* makes the row NaN */
    compute(&m, NULL, &r);
    assert_int_equal(r.allowed[0], 3);
    assert_true(isnan(r.out[0]) && isnan(r.weights[0]) && isnan(r.lse[0]));
    made_set(made_tensor(&m, ATTN_BIAS), 1, -INFINITY); /* forbids it, NaN or not */
    made_set(made_tensor(&m, ATTN_V), 1, NAN);
    compute(&m, NULL, &r);
    assert_int_equal(r.allowed[0], 2);
    assert_true(isfinite(r.out[0]) && r.weights[1] == 0.0);
    made_set(made_tensor(&m, ATTN_V), 0, INFINITY); /* an allowed value, IEEE */
    compute(&m, NULL, &r);
    assert_true(r.out[0] == INFINITY && isfinite(r.lse[0]));
    made_free(&m);
}

static void dropped_values_take_no_part(void **state)
{
    struct made_spec spec = {.sq = 1, .sk = 2, .dk = 1, .features = MADE_KEEP, .seed = 2};
    struct results r;
    struct made m;

    (void)state;
    made_create(&m, &spec);
    set_all(made_tensor(&m, ATTN_K), (const double[]){1, 1});
    set_all(made_tensor(&m, ATTN_V), (const double[]){NAN, 3});
    set_all(made_tensor(&m, ATTN_KEEP), (const double[]){0, 1});
    compute(&m, &plain_f32, &r);
    assert_near(r.out[0], 3 * 0.5 / 0.75);
    assert_near(r.weights[0], 0.5); /* before dropout */
    assert_true(isfinite(r.out_bound[0]));
    made_free(&m);
}

static void empty_rows_follow_the_declared_rule(void **state)
{
    struct made_spec spec = {.sq = 2, .sk = 2, .dk = 1, .features = MADE_LEN, .seed = 3};
    struct attn_numerics numerics = plain_f32;
    struct results r;
    struct made m;

    (void)state;
    made_create(&m, &spec);
    made_set(made_tensor(&m, ATTN_LEN), 0, 0);
    set_all(made_tensor(&m, ATTN_V), (const double[]){1, 4});
    compute(&m, NULL, &r);
    assert_true(r.out[0] == 0.0 && r.weights[0] == 0.0 && r.lse[0] == -INFINITY);
    assert_int_equal(r.allowed[0], 0);
    numerics.empty_row = ATTN_EMPTY_NAN;
    compute(&m, &numerics, &r);
    assert_true(isnan(r.out[1]) && isnan(r.weights[3]) && isnan(r.lse[1]));
    numerics.empty_row = ATTN_EMPTY_UNIFORM;
    compute(&m, &numerics, &r);
    assert_near(r.out[0], 2.5);
    assert_near(r.weights[1], 0.5);
    assert_true(r.out_bound[0] > 0.0 && r.out_bound[0] < 1e-5);
    made_free(&m);

    spec.features |= MADE_SINK;
    made_create(&m, &spec);
    made_set(made_tensor(&m, ATTN_LEN), 0, 0);
    made_set(made_tensor(&m, ATTN_SINK), 0, 1.5);
    compute(&m, &plain_f32, &r);
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
    compute(&m, &plain_f32, &r);
    for (int x = 0; x < 24; x++)
        assert_true(r.out[x] == 0.0);
    assert_true(r.lse[5] == -INFINITY && r.allowed[5] == 0);
    made_free(&m);
}

/* Strides in place of copies: one K and V for all, and a mask of one row. */
static void strides_of_zero_broadcast(void **state)
{
    struct made_spec spec = {
        .b = 2, .hq = 2, .sq = 3, .sk = 4, .dk = 2, .features = MADE_MASK, .seed = 13};
    static const uint32_t roles[] = {ATTN_K, ATTN_V, ATTN_MASK};
    struct results r, s;
    struct made m;

    (void)state;
    made_create(&m, &spec);
    for (int t = 0; t < 3; t++) { /* every head a copy of the first */
        struct attn_tensor *x = made_tensor(&m, roles[t]);
        int64_t block = t < 2 ? 8 : 4;
        for (int64_t i = block; i < made_count(x); i++)
            made_set(x, i, made_get(x, i % block));
    }
    compute(&m, NULL, &r);
    for (int t = 0; t < 3; t++) {
        struct attn_tensor *x = made_tensor(&m, roles[t]);
        x->stride[0] = x->stride[1] = 0;
        if (t == 2)
            x->stride[2] = 0;
    }
    compute(&m, NULL, &s);
    assert_memory_equal(r.out, s.out, 24 * sizeof(double));
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
        cmocka_unit_test(values_of_one_give_one),
        cmocka_unit_test(keys_may_be_permuted),
        cmocka_unit_test(a_shift_of_all_logits_moves_lse_alone),
        cmocka_unit_test(the_future_does_not_matter),
        cmocka_unit_test(grouped_heads_are_repeated_heads),
        cmocka_unit_test(identity_projections_are_attention),
        cmocka_unit_test(requested_rows_are_rows_of_the_whole),
        cmocka_unit_test(threads_do_not_matter),
        cmocka_unit_test(nan_in_an_allowed_key_shows),
        cmocka_unit_test(infinite_scores_have_their_classes),
        cmocka_unit_test(dropped_values_take_no_part),
        cmocka_unit_test(empty_rows_follow_the_declared_rule),
        cmocka_unit_test(no_keys_at_all),
        cmocka_unit_test(strides_of_zero_broadcast),
    };

    return cmocka_run_group_tests_name("reference", tests, NULL, NULL);
}
