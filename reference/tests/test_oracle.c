/* SPDX-License-Identifier: Apache-2.0 */
/* test_oracle.c - the reference against MPFR: every score, mask and extra, in every type. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>

#include "reference/reference.h"
#include "reference/tests/made.h"
#include "reference/tests/oracle.h"

#define ULP 0x1p-52

/* Largest errors measured over all cases below, in ulps of the natural size of each result (sum
 * p |v| for out, p for weights, 1 + |lse| for lse): 24.8, 46.8 and 12.9, in multi-head attention,
 * whose logits reach 30 and are sums of terms that cancel, which 1 + |lse| does not know of; 26.4,
 * 37.4 and 4.9 in attention, where a scale of 2.5 makes logits and their errors as much larger
 * (without it 11.3, 21.0 and 4.9). Asserted with little room. */
#define OUT_ULPS    30.0
#define WEIGHT_ULPS 50.0
#define LSE_ULPS    14.0

/* A backend in f64 with perfect functions: what remains is the reference's own error. */
static const struct attn_numerics exact_double = {.struct_size = sizeof(struct attn_numerics),
                                                  .acc_type = ATTN_F64};

/* Open, narrow and one-sided. */
static const int64_t windows[5][2] = {{2, 1}, {-1, 1}, {2, -1}, {0, 0}, {-1, -1}};

struct worst {
    double out, weights, lse;
};

struct buffers {
    double *out, *out_bound, *lse, *lse_bound, *weights, *weights_bound;
    int64_t elements, rows, cells;
};

static double *doubles(int64_t count)
{
    double *array = calloc((size_t)count + 1, sizeof(double));
    assert_non_null(array);
    return array;
}

static struct ref_result make_result(struct made *m, struct buffers *x)
{
    const struct attn_problem *p = &m->problem;

    x->elements = ref_output_units(p, 0) * ref_output_width(p, 0);
    x->rows = p->b * p->hq * p->sq;
    x->cells = x->rows * p->sk;
    x->out = doubles(x->elements);
    x->out_bound = doubles(x->elements);
    x->lse = doubles(x->rows);
    x->lse_bound = doubles(x->rows);
    x->weights = doubles(x->cells);
    x->weights_bound = doubles(x->cells);
    return (struct ref_result){.output[0].value = x->out,
                               .output[0].bound = x->out_bound,
                               .output[1].value = x->lse,
                               .output[1].bound = x->lse_bound,
                               .output[2].value = x->weights,
                               .output[2].bound = x->weights_bound};
}

static void free_buffers(struct buffers *x)
{
    free(x->out);
    free(x->out_bound);
    free(x->lse);
    free(x->lse_bound);
    free(x->weights);
    free(x->weights_bound);
}

/* Place of [b,h,i] in a result: attention counts heads before rows, mha rows before heads. */
static int64_t place(const struct attn_problem *p, int64_t row)
{
    int64_t i = row % p->sq, h = row / p->sq % p->hq, b = row / p->sq / p->hq;

    return p->op == ATTN_OP_MHA ? (b * p->sq + i) * p->hq + h : row;
}

/* The error in ulps of `size`; also, in f64, that the error is within the bound. */
static double check(double computed, double bound, double truth, double size, bool bounded)
{
    double error = fabs(computed - truth);

    if (computed == truth)
        return 0.0;
    assert_true(isfinite(computed) && isfinite(truth));
    if (bounded && !(error <= bound))
        fail_msg("%.17g is not within %.3g of %.17g", computed, bound, truth);
    return size > 0.0 ? error / size / ULP : INFINITY;
}

static void compare(const struct made_spec *spec, struct worst *worst)
{
    struct made m;
    struct oracle o;
    struct buffers x;
    char why[256];

    made_create(&m, spec);
    const struct attn_problem *p = &m.problem;
    if (p->flags & ATTN_FLAG_WINDOW) {
        m.problem.window_left = windows[spec->seed % 5][0];
        m.problem.window_right = windows[spec->seed % 5][1];
    }
    struct ref_result result = make_result(&m, &x);
    struct ref_units rows = {ref_output_units(p, 0), NULL};
    if (ref_compute(p,
                    &(struct ref_request){.units = {rows},
                                          .numerics = &exact_double,
                                          .fill = REF_FILL_STRUCTURED,
                                          .threads = 2},
                    &result, why, sizeof(why)) != ATTN_OK)
        fail_msg("%s", why);
    oracle_compute(&m, &o);
    bool bounded = p->dtype == ATTN_F64;
    for (int64_t c = 0; c < x.elements; c++)
        worst->out =
            fmax(worst->out, check(x.out[c], x.out_bound[c], o.out[c], o.size[c], bounded));
    for (int64_t r = 0; r < x.rows; r++) {
        int64_t at = place(p, r);
        worst->lse = fmax(
            worst->lse, check(x.lse[at], x.lse_bound[at], o.lse[r], 1.0 + fabs(o.lse[r]), bounded));
        for (int64_t j = 0; j < p->sk; j++)
            worst->weights = fmax(
                worst->weights, check(x.weights[at * p->sk + j], x.weights_bound[at * p->sk + j],
                                      o.weights[r * p->sk + j], o.weights[r * p->sk + j], bounded));
    }
    oracle_free(&o);
    free_buffers(&x);
    made_free(&m);
}

static void assert_worst(const struct worst *worst)
{
    print_message("largest errors in ulps: out %.2f, weights %.2f, lse %.2f\n", worst->out,
                  worst->weights, worst->lse);
    assert_true(worst->out <= OUT_ULPS);
    assert_true(worst->weights <= WEIGHT_ULPS);
    assert_true(worst->lse <= LSE_ULPS);
    /* Something was compared: doubles cannot all be right to the last bit. */
    assert_true(worst->out > 0.1);
}

/* Each case is broadcast, shares its score parameters among heads and has another scale in turn. A
 * negative scale turns the order of the keys round, 0 makes them equal. */
static const double scales[] = {0.0, -0.7, 0.01, 2.5, -1e-12};

static void vary(struct made_spec *spec)
{
    if (spec->seed % 2)
        spec->features |= MADE_BROADCAST;
    if (spec->seed / 2 % 2)
        spec->features |= MADE_SHARED;
    if (spec->seed % 3 == 0) {
        spec->features |= MADE_SCALE;
        spec->scale = scales[spec->seed / 3 % 5];
    }
}

static const int feature_sets[] = {
    0,
    MADE_CAUSAL,
    MADE_CAUSAL | MADE_BR,
    MADE_WINDOW,
    MADE_WINDOW | MADE_CAUSAL | MADE_BR,
    MADE_LEN,
    MADE_LEN2D,
    MADE_LEN | MADE_BR | MADE_CAUSAL,
    MADE_MASK,
    MADE_MASK | MADE_CAUSAL,
    MADE_BIAS,
    MADE_ALIBI,
    MADE_BIAS | MADE_ALIBI | MADE_BR,
    MADE_SOFTCAP,
    MADE_SINK,
    MADE_SINK | MADE_MASK | MADE_SOFTCAP,
    MADE_KEEP,
    MADE_PHILOX,
    MADE_PHILOX | MADE_SINK | MADE_CAUSAL,
    MADE_MASK | MADE_BIAS | MADE_ALIBI | MADE_SOFTCAP | MADE_SINK | MADE_KEEP | MADE_WINDOW,
    MADE_MASK | MADE_BIAS | MADE_KEEP,
};
static const uint32_t dtypes[] = {ATTN_F64, ATTN_F32, ATTN_F16, ATTN_BF16};

static void attention_agrees(void **state)
{
    struct worst worst = {0, 0, 0};
    uint64_t seed = 1;

    (void)state;
    for (uint32_t score = ATTN_SCORE_SCALED_DOT; score <= ATTN_SCORE_DISENTANGLED; score++)
        for (size_t f = 0; f < sizeof(feature_sets) / sizeof(*feature_sets); f++)
            for (size_t d = 0; d < 4; d++) {
                bool free_width = score == ATTN_SCORE_BILINEAR || score == ATTN_SCORE_ADDITIVE;
                struct made_spec spec = {.score = score,
                                         .dtype = dtypes[d],
                                         .b = 2,
                                         .hq = 4,
                                         .hkv = 2,
                                         .sq = 5,
                                         .sk = 7,
                                         .dk = 6,
                                         .dq = free_width ? 4 : 6,
                                         .dv = 3,
                                         .dh = 5,
                                         .features = feature_sets[f],
                                         .off = (int64_t)(seed % 3) - 1,
                                         .seed = seed,
                                         .parts = (int64_t)(seed % 3),
                                         .variant = (int64_t)(seed / 3 % 2)};
                if (seed / 6 % 2)
                    spec.features |= MADE_REL_POS;
                seed++;
                compare(&spec, &worst);
                vary(&spec);
                compare(&spec, &worst);
            }
    assert_worst(&worst);
}

static void edges_agree(void **state)
{
    static const struct made_spec specs[] = {
        {.sq = 3, .sk = -1, .dk = 4, .features = MADE_SINK},
        {.sq = 3, .sk = -1, .dk = 4},
        {.sq = 1, .sk = 1, .dk = 1, .seed = 3},
        {.sq = 9, .sk = 2, .dk = 2, .features = MADE_CAUSAL | MADE_BR, .seed = 4},
        {.sq = 2, .sk = 40, .dk = 3, .features = MADE_CAUSAL, .off = 30, .seed = 5},
        {.sq = 4, .sk = 30, .dk = 16, .spread = 12.0, .seed = 6},
        {.sq = 4, .sk = 30, .dk = 16, .spread = 1e-3, .features = MADE_SINK, .seed = 7},
        {.sq = 4, .sk = 9, .dk = 5, .features = MADE_SCALE, .scale = 1e6, .seed = 8},
        {.sq = 4, .sk = 9, .dk = 5, .features = MADE_SCALE | MADE_BIAS, .scale = -1e15, .seed = 9},
        {.sq = 4,
         .sk = 9,
         .dk = 5,
         .features = MADE_SCALE | MADE_SOFTCAP,
         .scale = 1e300,
         .seed = 10},
        {.sq = 4,
         .sk = 9,
         .dk = 5,
         .features = MADE_SCALE | MADE_BIAS,
         .scale = 1e-300,
         .seed = 11},
    };
    struct worst worst = {0, 0, 0}, large = {0, 0, 0};

    (void)state;
    for (uint32_t score = ATTN_SCORE_SCALED_DOT; score <= ATTN_SCORE_DISENTANGLED; score++)
        for (size_t s = 0; s < sizeof(specs) / sizeof(*specs); s++) {
            struct made_spec spec = specs[s];
            spec.score = score;
            compare(&spec, spec.spread > 10.0 || fabs(spec.scale) > 1e3 ? &large : &worst);
        }
    assert_worst(&worst);
    /* Large logits: errors of a double's exp grow with its argument, here up to 700, so only the
     * bound, which compare has looked at, is asserted. */
}

static void mha_agrees(void **state)
{
    static const int extras[] = {0, MADE_PROJ_BIAS, MADE_NO_WO | MADE_PROJ_BIAS,
                                 MADE_HEAD_MASK | MADE_RESIDUAL, MADE_RESIDUAL | MADE_NO_WO};
    struct worst worst = {0, 0, 0};
    uint64_t seed = 100;

    (void)state;
    for (uint32_t score = ATTN_SCORE_SCALED_DOT; score <= ATTN_SCORE_ADDITIVE; score++)
        for (size_t f = 0; f < sizeof(feature_sets) / sizeof(*feature_sets); f++)
            for (size_t d = 0; d < 4; d++, seed++) {
                bool free_width = score == ATTN_SCORE_BILINEAR || score == ATTN_SCORE_ADDITIVE;
                int cross = seed / 3 % 2 ? MADE_CROSS : 0;
                struct made_spec spec = {.op = ATTN_OP_MHA,
                                         .score = score,
                                         .dtype = dtypes[d],
                                         .b = 2,
                                         .hq = 4,
                                         .hkv = 2,
                                         .sq = 4,
                                         .sk = cross ? 6 : 4,
                                         .dk = 3,
                                         .dq = free_width ? 2 : 3,
                                         .dv = 2,
                                         .dh = 4,
                                         .features = extras[seed % 5] | feature_sets[f] | cross,
                                         .off = (int64_t)(seed % 3) - 1,
                                         .seed = seed};
                compare(&spec, &worst);
                vary(&spec);
                compare(&spec, &worst);
            }
    assert_worst(&worst);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_agrees),
        cmocka_unit_test(edges_agree),
        cmocka_unit_test(mha_agrees),
    };

    return cmocka_run_group_tests_name("oracle", tests, NULL, NULL);
}
