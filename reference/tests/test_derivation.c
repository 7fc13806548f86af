/* SPDX-License-Identifier: Apache-2.0 */
/* test_derivation.c - steps of BOUND.md one at a time: right kernels that go to the edge of what
 * they declare, where a term that is left out shows; and what may leave the range of a type. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "reference/reference.h"
#include "reference/tests/made.h"

#define MAX_OUT 64

struct answer {
    double out[MAX_OUT], bound[MAX_OUT], lse[MAX_OUT], lse_bound[MAX_OUT];
};

static struct answer answer_of(const struct made *m, const struct attn_numerics *numerics)
{
    struct answer x;
    struct ref_result result = {.output[0].value = x.out,
                                .output[0].bound = x.bound,
                                .output[1].value = x.lse,
                                .output[1].bound = x.lse_bound};
    struct ref_units rows = {ref_output_units(&m->problem, 0), NULL};
    char why[256];

    assert_true(rows.count * ref_output_width(&m->problem, 0) <= MAX_OUT);
    assert_true(rows.count * m->problem.hq <= MAX_OUT);
    if (ref_compute(
            &m->problem,
            &(struct ref_request){
                .units = {rows}, .numerics = numerics, .fill = REF_FILL_STRUCTURED, .threads = 1},
            &result, why, sizeof(why)) != ATTN_OK)
        fail_msg("%s", why);
    return x;
}

/* One row of keys whose score is their bias, and whose v is one column. */
static void make_row(struct made *m, int64_t keys, uint32_t dtype, int features, const double *bias,
                     const double *v)
{
    made_create(m, &(struct made_spec){.sq = 1,
                                       .sk = keys,
                                       .dk = 1,
                                       .dv = 1,
                                       .dtype = dtype,
                                       .features = features | MADE_BIAS});
    made_set(made_tensor(m, ATTN_Q), 0, 0.0);
    for (int64_t j = 0; j < keys; j++) {
        made_set(made_tensor(m, ATTN_BIAS), j, bias[j]);
        made_set(made_tensor(m, ATTN_V), j, v[j]);
    }
}

/* Within the bound, and within `times` of it, lest it be of no use. */
static void assert_within(double got, double truth, double bound, double times)
{
    double error = fabs(got - truth);

    if (!(error <= bound) || !(error * times >= bound))
        fail_msg("error %.3g, bound %.3g", error, bound);
}

/* 1 - p of a p that is rounded to f32 loses p / (1-p) roundings. */
static void dropout_rates_are_rounded(void **state)
{
    double worst = 0.0;

    (void)state;
    for (int x = 0; x < 100; x++) {
        struct made m;
        make_row(&m, 1, ATTN_F32, MADE_KEEP, (double[]){0.0}, (double[]){1.0});
        made_set(made_tensor(&m, ATTN_KEEP), 0, 1.0);
        m.problem.dropout_p = 0.98 + 1e-4 * x;
        struct answer a = answer_of(&m, &(struct attn_numerics){.acc_type = ATTN_F32});
        float factor = 1.0f / (1.0f - (float)m.problem.dropout_p);
        double error = fabs((double)factor - a.out[0]);
        if (!(error <= a.bound[0]))
            fail_msg("p = %g: error %.3g, bound %.3g", m.problem.dropout_p, error, a.bound[0]);
        worst = fmax(worst, error / a.bound[0]);
        made_free(&m);
    }
    assert_true(worst > 0.2);
}

/* Splits weighted by exp(lse_split - lse) need not sum to 1: the rounding of lse is common to all,
 * and shows even where v is constant. */
static void merged_splits_share_an_error(void **state)
{
    struct made m;
    double worst = 0.0;

    (void)state;
    for (int x = 0; x < 50; x++) {
        double s = 1000.0 + 0.37 * x;
        make_row(&m, 2, ATTN_F32, 0, (double[]){s, s}, (double[]){1.0, 1.0});
        struct answer a = answer_of(
            &m, &(struct attn_numerics){.acc_type = ATTN_F32, .splits = 2, .e_exp = 0x1p-23});
        float lse = (float)((double)(float)s + log(2.0));
        double got = (double)(2.0f * expf((float)s - lse));
        if (!(fabs(got - 1.0) <= a.bound[0]))
            fail_msg("s = %g: error %.3g, bound %.3g", s, fabs(got - 1.0), a.bound[0]);
        worst = fmax(worst, fabs(got - 1.0) / a.bound[0]);
        made_free(&m);
    }
    assert_true(worst > 0.05);
}

/* Keys 0, 8, 12 in tiles of one, tau = 8: the second is exp(+8), later rescaled by exp(-12). The
 * arguments of its exps add up to 20, not to 12 - 8, and each may be wrong by e_arg |x|. */
static void a_lazy_maximum_lags_twice(void **state)
{
    const double e = 0x1p-12, bias[] = {0.0, 8.0, 12.0};
    const struct attn_numerics numerics = {
        .acc_type = ATTN_F32, .key_tile = 1, .tau = 8.0, .e_arg = e, .denominator = 1};
    struct made m;

    (void)state;
    make_row(&m, 3, ATTN_F32, 0, bias, (double[]){1.0, 1.0, -1.0});
    struct answer a = answer_of(&m, &numerics);
    double first = exp(-12.0) * (1.0 + 12.0 * e),
           second = exp(-4.0) * (1 + 8.0 * e) * (1 + 12.0 * e);
    assert_within((first + second - 1.0) / (first + second + 1.0), a.out[0], a.bound[0], 4.0);
    made_free(&m);
}

/* Scores below the least normal number of f16 are gone where such a store flushes. */
static void stored_scores_underflow(void **state)
{
    const struct attn_numerics numerics = {
        .acc_type = ATTN_F32, .score_type = ATTN_F16, .ftz = 1, .e_exp = 0x1p-23};
    struct made m;

    (void)state;
    make_row(&m, 2, ATTN_F32, 0, (double[]){6e-5, -6e-5}, (double[]){1.0, -1.0});
    struct answer a = answer_of(&m, &numerics);
    assert_within(0.0, a.out[0], a.bound[0], 4.0);
    made_free(&m);
}

static void outputs_underflow(void **state)
{
    const struct attn_numerics numerics = {.acc_type = ATTN_F32, .ftz = 1, .e_exp = 0x1p-23};
    struct made m;

    (void)state;
    make_row(&m, 2, ATTN_F16, 0, (double[]){0.0, 0.0}, (double[]){3e-5, 4e-5});
    struct answer a = answer_of(&m, &numerics);
    assert_within(0.0, a.out[0], a.bound[0], 4.0);
    made_free(&m);
}

/* A subnormal v that is flushed is lost as dropout has magnified it. */
static void dropped_out_values_underflow(void **state)
{
    const struct attn_numerics numerics = {.acc_type = ATTN_F32, .ftz = 1};
    struct made m;

    (void)state;
    make_row(&m, 1, ATTN_F32, MADE_KEEP, (double[]){0.0}, (double[]){1e-38});
    made_set(made_tensor(&m, ATTN_KEEP), 0, 1.0);
    m.problem.dropout_p = 0.99;
    struct answer a = answer_of(&m, &numerics);
    assert_within(0.0, a.out[0], a.bound[0], 8.0);
    made_free(&m);
}

/* Where scores are wrong by any amount the weights are still weights. */
static void no_score_makes_the_bound_void(void **state)
{
    struct made m;

    (void)state;
    make_row(&m, 3, ATTN_F32, 0, (double[]){1e30, -1e30, 1e30}, (double[]){3.0, -1.0, 2.0});
    struct answer a = answer_of(&m, &(struct attn_numerics){.acc_type = ATTN_F32, .e_exp = 1e-7});
    assert_true(a.out[0] == 2.5);
    assert_true(a.bound[0] > 3.4999 && a.bound[0] < 3.51);
    assert_true(isfinite(a.lse_bound[0]));
    made_free(&m);
}

/* What p v sums to before it is divided: n max |v| where the maximum is not known beforehand, the
 * sum of p times A where it is, A where p is divided first. */
static void sums_may_overflow(void **state)
{
    static const struct {
        struct attn_numerics numerics;
        double v[3];
        bool known;
    } table[] = {
        {{.acc_type = ATTN_F16}, {3e4, 3e4, 3e4}, false},
        {{.acc_type = ATTN_F16}, {2e4, 2e4, 2e4}, true},
        {{.acc_type = ATTN_F16, .p_normalised = 1}, {6e4, 6e4, 6e4}, true},
        {{.acc_type = ATTN_F32}, {3e4, 3e4, 3e4}, true},
        {{.acc_type = ATTN_F16, .tau = 2}, {2e4, 2e4, 2e4}, false},
        /* the first key weighs nothing: but before it is rescaled */
        {{.acc_type = ATTN_F16}, {-5e4, 2e4, 2e4}, true},
        {{.acc_type = ATTN_F16, .key_tile = 1}, {-5e4, 2e4, 2e4}, false},
        {{.acc_type = ATTN_F16, .splits = 3}, {-5e4, 2e4, 2e4}, false},
        {{.acc_type = ATTN_F32, .p_type = ATTN_F16, .tau = 12, .key_tile = 1}, {1, 1, 1}, false},
        {{.acc_type = ATTN_F32, .p_type = ATTN_F16, .tau = 10, .key_tile = 1}, {1, 1, 1}, true},
        {{.acc_type = ATTN_F32, .p_type = ATTN_BF16, .tau = 12, .key_tile = 1}, {1, 1, 1}, true},
    };

    (void)state;
    for (size_t t = 0; t < sizeof(table) / sizeof(*table); t++) {
        const double weightless = table[t].v[0] < 0.0 ? -30.0 : 0.0;
        struct made m;
        make_row(&m, 3, ATTN_F32, 0, (double[]){weightless, 0.0, 0.0}, table[t].v);
        struct answer a = answer_of(&m, &table[t].numerics);
        if (isfinite(a.bound[0]) != table[t].known)
            fail_msg("row %zu of the table: bound %g", t, a.bound[0]);
        made_free(&m);
    }
}

/* One wide product of every kind of score, in f16 sums. */
static void sums_towards_scores_may_overflow(void **state)
{
    static const struct {
        uint32_t score, role;
        double value, scale;
        bool known;
    } table[] = {
        {ATTN_SCORE_DOT, ATTN_K, 6e4, 1.0, false},
        {ATTN_SCORE_DOT, ATTN_K, 2e4, 1.0, true},
        /* q^T M k is small, M k is not */
        {ATTN_SCORE_BILINEAR, ATTN_SCORE_M, 6e4, 1.0, false},
        {ATTN_SCORE_BILINEAR, ATTN_SCORE_M, 1e4, 1.0, true},
        {ATTN_SCORE_GAUSSIAN, ATTN_K, 300.0, 1.0, false},
        {ATTN_SCORE_GAUSSIAN, ATTN_K, 100.0, 1.0, true},
        {ATTN_SCORE_ADDITIVE, ATTN_SCORE_WK, 6e4, 1.0, false},
        {ATTN_SCORE_ADDITIVE, ATTN_SCORE_WK, 1e4, 1.0, true},
        {ATTN_SCORE_ADDITIVE, ATTN_SCORE_WV, 6e4, 1.0, false},
        {ATTN_SCORE_ADDITIVE, ATTN_SCORE_WV, 2e4, 1.0, true},
        {ATTN_SCORE_ADDITIVE, ATTN_SCORE_WV, 2e4, 4.0, false},
    };

    (void)state;
    for (size_t t = 0; t < sizeof(table) / sizeof(*table); t++) {
        struct made m;
        struct answer a;
        made_create(&m, &(struct made_spec){.score = table[t].score,
                                            .sk = 2,
                                            .dk = 1,
                                            .dtype = ATTN_F32,
                                            .features = MADE_SCALE,
                                            .scale = table[t].scale});
        for (uint32_t x = 0; x < m.problem.n_tensors; x++)
            for (int64_t c = 0; c < made_count(&m.tensors[x]); c++)
                made_set(&m.tensors[x], c,
                         m.tensors[x].role == table[t].role ? table[t].value : 1.0);
        if (table[t].score == ATTN_SCORE_BILINEAR)
            made_set(made_tensor(&m, ATTN_Q), 0, 1e-6);
        a = answer_of(&m, &(struct attn_numerics){.acc_type = ATTN_F16});
        if (isfinite(a.bound[0]) != table[t].known || isfinite(a.lse_bound[0]) != table[t].known)
            fail_msg("row %zu of the table: bounds %g, %g", t, a.bound[0], a.lse_bound[0]);
        made_free(&m);
    }
}

/* Of three cells one is NaN, so the row is; one that ends at -inf would have the weight 0 in it. */
static void weights_of_nan_rows_may_be_lost(void **state)
{
    static const double far[] = {-6e4, -1e4};

    (void)state;
    for (int known = 0; known < 2; known++) {
        struct made m;
        double out, bound, weights[3], weights_bound[3];
        struct ref_result result = {.output[0].value = &out,
                                    .output[0].bound = &bound,
                                    .output[2].value = weights,
                                    .output[2].bound = weights_bound};
        char why[256];
        make_row(&m, 3, ATTN_F32, 0, (double[]){NAN, far[known], 0.0}, (double[]){1.0, 1.0, 1.0});
        assert_int_equal(ref_compute(&m.problem,
                                     &(struct ref_request){
                                         .units = {{1, NULL}},
                                         .numerics = &(struct attn_numerics){.acc_type = ATTN_F16},
                                         .fill = REF_FILL_STRUCTURED,
                                         .threads = 1},
                                     &result, why, sizeof(why)),
                         ATTN_OK);
        assert_true(isnan(out) && bound == 0.0);
        assert_true(isnan(weights[1]));
        assert_int_equal(isfinite(weights_bound[1]), known);
        made_free(&m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dropout_rates_are_rounded),
        cmocka_unit_test(merged_splits_share_an_error),
        cmocka_unit_test(a_lazy_maximum_lags_twice),
        cmocka_unit_test(stored_scores_underflow),
        cmocka_unit_test(outputs_underflow),
        cmocka_unit_test(dropped_out_values_underflow),
        cmocka_unit_test(no_score_makes_the_bound_void),
        cmocka_unit_test(sums_may_overflow),
        cmocka_unit_test(sums_towards_scores_may_overflow),
        cmocka_unit_test(weights_of_nan_rows_may_be_lost),
    };

    return cmocka_run_group_tests_name("derivation", tests, NULL, NULL);
}
