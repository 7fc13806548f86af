/* SPDX-License-Identifier: Apache-2.0 */
/* test_weights.c - weight functions other than softmax, and the gate: known values, identities,
 * rules; and the bound held against kernels that round every operation. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reference/bound.h"
#include "reference/dtype.h"
#include "reference/tests/results.h"
#include "reference/weight.h"

static const int64_t all[] = {ATTN_WEIGHT_SIGMOID, ATTN_WEIGHT_RELU2, ATTN_WEIGHT_LAPLACE};
#define ALL (sizeof(all) / sizeof(*all))

static struct results got, other;

static void near(double a, double b, double part)
{
    if (!(fabs(a - b) <= part * fabs(b)))
        fail_msg("%.17g is not %.17g", a, b);
}

static void values_are_known(void **unused)
{
    static const struct {
        int64_t f;
        double s, value;
    } known[] = {{ATTN_WEIGHT_SIGMOID, 0.0, 0.5},
                 {ATTN_WEIGHT_SIGMOID, 1.0, 0.73105857863000487925},
                 {ATTN_WEIGHT_SIGMOID, -1.0, 0.26894142136999512075},
                 {ATTN_WEIGHT_SIGMOID, -700.0, 9.8596765437597708567e-305},
                 {ATTN_WEIGHT_SIGMOID, 800.0, 1.0},
                 {ATTN_WEIGHT_SIGMOID, INFINITY, 1.0},
                 {ATTN_WEIGHT_RELU2, 3.0, 9.0},
                 {ATTN_WEIGHT_RELU2, -3.0, 0.0},
                 {ATTN_WEIGHT_RELU2, 0.0, 0.0},
                 {ATTN_WEIGHT_RELU2, INFINITY, INFINITY},
                 {ATTN_WEIGHT_LAPLACE, M_SQRT1_2, 0.5},
                 {ATTN_WEIGHT_LAPLACE, 1.0, 0.85043000814423091617},
                 {ATTN_WEIGHT_LAPLACE, 0.0, 0.0060944410924014434462},
                 {ATTN_WEIGHT_LAPLACE, INFINITY, 1.0}};
    (void)unused;
    for (size_t n = 0; n < sizeof(known) / sizeof(*known); n++) {
        const double value = ref_weight_find(known[n].f)->value(known[n].s);
        if (value != known[n].value)
            near(value, known[n].value, 1e-14);
    }
    for (size_t f = 0; f < ALL; f++)
        assert_true(isnan(ref_weight_find(all[f])->value(NAN)));
    assert_null(ref_weight_find(ATTN_WEIGHT_SOFTMAX));
    assert_null(ref_weight_find(4));
}

/* No score within ds moves f by more than `spread`, and one moves it by nearly as much. */
static void spreads_hold(void **unused)
{
    const struct ref_arithmetic exact = {0};
    (void)unused;
    for (size_t f = 0; f < ALL; f++) {
        const struct ref_weight *w = ref_weight_find(all[f]);
        for (double s = -20; s <= 20; s += 0.37)
            for (double ds = 1e-3; ds < 30; ds *= 3) {
                const double spread = w->spread(&exact, s, ds);
                double most = 0;
                for (int step = -100; step <= 100; step++) {
                    const double off = w->value(s + ds * step / 100) - w->value(s);
                    most = fmax(most, fabs(off));
                }
                const double rounding = 1e-15 * (1 + w->value(s + ds));
                if (!(most <= spread * (1 + 1e-12) + rounding))
                    fail_msg("%s at %g moves by %g within %g, not %g", w->name, s, most, ds,
                             spread);
                if (all[f] != ATTN_WEIGHT_LAPLACE || ds < 0.01)
                    assert_true(most + rounding >= spread * 0.9);
            }
    }
}

static struct made_spec spec_of(int64_t f, int features, uint64_t seed)
{
    return (struct made_spec){.features = features | MADE_SCALE,
                              .b = 2,
                              .hq = 2,
                              .hkv = 1,
                              .sq = 5,
                              .sk = 11,
                              .dk = 6,
                              .dv = 4,
                              .scale = 0.6,
                              .seed = seed,
                              .weight_fn = f};
}

/* out is the gate times the sum of f(score) v, added up in the simplest way. */
static void the_formula_holds(void **unused)
{
    const int features = MADE_CAUSAL | MADE_BIAS | MADE_MASK | MADE_KEEP | MADE_GATE;
    (void)unused;
    for (size_t f = 0; f < ALL; f++) {
        struct made_spec spec = spec_of(all[f], features, f);
        struct made m;
        spec.off = 4;
        made_create(&m, &spec);
        results_compute(&m, NULL, &got);
        const struct attn_problem *p = &m.problem;
        for (int64_t row = 0; row < p->b * p->hq * p->sq; row++) {
            const int64_t b = row / p->sq / p->hq, h = row / p->sq % p->hq, i = row % p->sq;
            for (int64_t c = 0; c < p->dv; c++) {
                double sum = 0;
                for (int64_t j = 0; j < p->sk; j++) {
                    const double s = got.scores[2][row * p->sk + j];
                    const double kept =
                        made_get(made_tensor(&m, ATTN_KEEP), row * p->sk + j) / (1 - p->dropout_p);
                    const double w =
                        ref_allowed(p, b, h, i, j) ? ref_weight_find(all[f])->value(s) : 0.0;
                    assert_true(got.weights[row * p->sk + j] == w);
                    sum +=
                        w * kept * made_get(made_tensor(&m, ATTN_V), (b * p->sk + j) * p->dv + c);
                }
                results_assert_near(got.out[row * p->dv + c],
                                    sum * made_get(made_tensor(&m, ATTN_GATE), row * p->dv + c));
            }
        }
        made_free(&m);
    }
}

/* Half of the keys, and the other half: their outputs add up. */
static void parts_of_the_keys_add_up(void **unused)
{
    (void)unused;
    for (size_t f = 0; f < ALL; f++) {
        struct made_spec spec = spec_of(all[f], MADE_MASK, 3);
        static double sum[RESULTS_CELLS];
        struct made m;
        made_create(&m, &spec);
        struct attn_tensor *mask = made_tensor(&m, ATTN_MASK);
        for (int64_t x = 0; x < made_count(mask); x++)
            made_set(mask, x, 1);
        results_compute(&m, NULL, &got);
        memset(sum, 0, sizeof sum);
        for (int part = 0; part < 2; part++) {
            for (int64_t x = 0; x < made_count(mask); x++)
                made_set(mask, x, (x % m.problem.sk < 6) == part);
            results_compute(&m, NULL, &other);
            for (int64_t x = 0; x < 80; x++)
                sum[x] += other.out[x];
        }
        for (int64_t x = 0; x < 80; x++)
            results_assert_near(sum[x], got.out[x]);
        made_free(&m);
    }
}

/* A softmax with a gate is a softmax, times the gate. */
static void a_gate_multiplies(void **unused)
{
    struct made_spec spec = spec_of(ATTN_WEIGHT_SOFTMAX, MADE_GATE | MADE_BIAS, 5);
    struct made m;
    (void)unused;
    made_create(&m, &spec);
    results_compute(&m, NULL, &got);
    struct attn_tensor *gate = made_tensor(&m, ATTN_GATE);
    static double was[RESULTS_CELLS];
    for (int64_t x = 0; x < made_count(gate); x++) {
        was[x] = made_get(gate, x);
        made_set(gate, x, 1);
    }
    results_compute(&m, NULL, &other);
    for (int64_t x = 0; x < made_count(gate); x++)
        assert_true(got.out[x] == was[x] * other.out[x]);
    assert_false(ref_is_softmax(&m.problem));
    made_free(&m);
}

/* Rows without keys, NaN and infinities: OP.md has the rules. */
static void special_values_follow_the_rules(void **unused)
{
    (void)unused;
    for (size_t f = 0; f < ALL; f++) {
        struct made_spec spec = spec_of(all[f], MADE_BIAS | MADE_KEEP | MADE_LEN, 6);
        struct attn_numerics numerics = results_f32;
        struct made m;
        numerics.empty_row = ATTN_EMPTY_NAN; /* of a softmax */
        made_create(&m, &spec);
        struct attn_tensor *keep = made_tensor(&m, ATTN_KEEP), *bias = made_tensor(&m, ATTN_BIAS);
        const int64_t sk = m.problem.sk, dv = m.problem.dv;
        made_set(made_tensor(&m, ATTN_LEN), 0, 0);
        made_set(made_tensor(&m, ATTN_LEN), 1, (double)sk);
        for (int64_t x = 0; x < made_count(keep); x++)
            made_set(keep, x, 1);
        const int64_t row = 10; /* the first of batch 1 */
        made_set(bias, row * sk + 3, NAN);
        made_set(bias, (row + 1) * sk + 3, NAN);
        made_set(keep, (row + 1) * sk + 3, 0);
        made_set(bias, (row + 2) * sk + 3, INFINITY);
        made_set(bias, (row + 3) * sk + 3, -INFINITY);
        results_compute(&m, &numerics, &got);
        for (int64_t c = 0; c < dv; c++) {
            assert_true(got.out[c] == 0 && got.out_bound[c] < 1e-37);
            assert_true(isnan(got.out[row * dv + c]) && got.out_bound[row * dv + c] == 0);
            assert_true(isfinite(got.out[(row + 1) * dv + c]));
            assert_true(isfinite(got.out_bound[(row + 1) * dv + c]));
            assert_true(isfinite(got.out[(row + 2) * dv + c]) == (all[f] != ATTN_WEIGHT_RELU2));
            assert_true(isfinite(got.out_bound[(row + 2) * dv + c]));
        }
        assert_true(isnan(got.weights[row * sk + 3]) && got.weights_bound[row * sk + 3] == 0);
        assert_true(isfinite(got.weights[row * sk + 4]));
        assert_true(got.weights[(row + 2) * sk + 3] ==
                    (all[f] == ATTN_WEIGHT_RELU2 ? INFINITY : 1));
        assert_true(got.weights[(row + 3) * sk + 3] == 0);
        assert_int_equal(got.allowed[row + 3], sk - 1);
        made_free(&m);
    }
}

static void refuses(struct attn_problem *p, const char *word)
{
    char why[256] = "";
    assert_int_equal(ref_check_problem(p, why, sizeof why), ATTN_INVALID);
    if (!strstr(why, word))
        fail_msg("%s", why);
}

static void what_does_not_combine_is_refused(void **unused)
{
    struct made_spec spec = spec_of(ATTN_WEIGHT_RELU2, MADE_SINK, 1);
    struct made m;
    (void)unused;
    made_create(&m, &spec);
    refuses(&m.problem, "sink");
    m.problem.flags = 0;
    refuses(&m.problem, "weight function");
    m.problem.flags = ATTN_FLAG_WEIGHT;
    m.problem.weight_fn = 4;
    refuses(&m.problem, "weight function");
    made_free(&m);
    spec.features = MADE_SCALE;
    made_create(&m, &spec);
    m.tensors[m.problem.n_tensors++] = (struct attn_tensor){
        .role = ATTN_LSE, .dtype = ATTN_F64, .rank = 3, .shape = {2, 2, 5}, .stride = {10, 5, 1}};
    refuses(&m.problem, "lse");
    made_free(&m);
}

/* ---- the bound ---- */

struct kernel {
    const char *name;
    uint32_t dtype, acc, p_type; /* of the problem; of every operation; of stored p, 0: acc */
    bool by_tanh;                /* a sigmoid made of tanh */
};

static const struct kernel kernels[] = {
    {"f32", ATTN_F32, ATTN_F32, 0, false},
    {"f32, sigmoid by tanh", ATTN_F32, ATTN_F32, 0, true},
    {"bf16, sums in f32", ATTN_BF16, ATTN_F32, 0, false},
    {"bf16, sums in f32, p in bf16", ATTN_BF16, ATTN_F32, ATTN_BF16, false},
    {"f16, sums in f32, p in f16", ATTN_F16, ATTN_F32, ATTN_F16, false},
    {"all in f16", ATTN_F16, ATTN_F16, 0, false},
    {"all in bf16", ATTN_BF16, ATTN_BF16, 0, false},
};
#define KERNELS (sizeof(kernels) / sizeof(*kernels))

static double to_type(uint32_t type, double x)
{
    double bits;

    attn_dtype_store(type, &bits, 0, x);
    return attn_dtype_load(type, &bits, 0);
}

static double r(const struct kernel *k, double x)
{
    return to_type(k->acc, x);
}

static double sigmoid(const struct kernel *k, double s)
{
    const double e = r(k, exp(-fabs(s)));
    if (k->by_tanh)
        return r(k, 0.5 + r(k, 0.5 * r(k, tanh(r(k, 0.5 * s)))));
    return s >= 0 ? r(k, 1 / r(k, 1 + e)) : r(k, e / r(k, 1 + e));
}

static double weight(const struct kernel *k, int64_t f, double s)
{
    const double steep = r(k, sqrt(2 * M_PI)), mean = r(k, M_SQRT1_2);
    if (f == ATTN_WEIGHT_SIGMOID)
        return sigmoid(k, s);
    if (f == ATTN_WEIGHT_RELU2)
        return s > 0 ? r(k, s * s) : 0;
    return r(k, 0.5 * erfc(r(k, r(k, mean - s) * steep)));
}

static struct attn_numerics numerics_of(const struct kernel *k, int64_t f)
{
    const double u = attn_dtype_roundoff(k->acc), few = f == ATTN_WEIGHT_SIGMOID ? 3.01 : 1.01;
    const bool absolute = k->by_tanh && f == ATTN_WEIGHT_SIGMOID;
    return (struct attn_numerics){.struct_size = sizeof(struct attn_numerics),
                                  .acc_type = k->acc,
                                  .p_type = k->p_type,
                                  .e_f = f == ATTN_WEIGHT_RELU2 || absolute ? 0 : few * u,
                                  .a_f = absolute ? 2 * u : 0};
}

/* One row of a kernel. `factor`: of the scale, which is wrong if it is not 1. */
static void run_row(const struct kernel *k, struct made *m, int64_t row, double factor, double *out)
{
    const struct attn_problem *p = &m->problem;
    const int64_t b = row / p->sq / p->hq, h = row / p->sq % p->hq, i = row % p->sq;
    const struct attn_tensor *keep = attn_tensor_find(p, ATTN_KEEP);
    const struct attn_tensor *bias = attn_tensor_find(p, ATTN_BIAS);
    const struct attn_tensor *gate = attn_tensor_find(p, ATTN_GATE);

    for (int64_t c = 0; c < p->dv; c++)
        out[c] = 0;
    for (int64_t j = 0; j < p->sk; j++) {
        double s = 0;
        if (!ref_allowed(p, b, h, i, j) || (keep && made_get(keep, row * p->sk + j) == 0))
            continue;
        for (int64_t c = 0; c < p->dk; c++)
            s = r(k, s + r(k, made_get(made_tensor(m, ATTN_Q), row * p->dk + c) *
                                  made_get(made_tensor(m, ATTN_K), (b * p->sk + j) * p->dk + c)));
        s = r(k, r(k, p->scale * factor) * s);
        s = bias ? r(k, s + made_get(bias, row * p->sk + j)) : s;
        s = weight(k, p->weight_fn, s);
        s = k->p_type ? to_type(k->p_type, s) : s;
        for (int64_t c = 0; c < p->dv; c++)
            out[c] =
                r(k,
                  out[c] + r(k, s * made_get(made_tensor(m, ATTN_V), (b * p->sk + j) * p->dv + c)));
    }
    for (int64_t c = 0; c < p->dv; c++) {
        out[c] = keep ? r(k, out[c] / r(k, 1 - p->dropout_p)) : out[c];
        out[c] = gate ? r(k, out[c] * made_get(gate, row * p->dv + c)) : out[c];
        out[c] = to_type(p->dtype, out[c]);
    }
}

/* The largest error of a kernel over its bound. */
static double worst_ratio(const struct kernel *k, struct made *m, double factor)
{
    const struct attn_numerics numerics = numerics_of(k, m->problem.weight_fn);
    const int64_t dv = m->problem.dv, rows = ref_output_units(&m->problem, 0);
    double worst = 0, out[64];

    results_compute(m, &numerics, &got);
    for (int64_t row = 0; row < rows; row++) {
        run_row(k, m, row, factor, out);
        for (int64_t c = 0; c < dv; c++) {
            const double bound = got.out_bound[row * dv + c];
            if (isfinite(out[c]) && isfinite(bound))
                worst = fmax(worst, fabs(out[c] - got.out[row * dv + c]) / bound);
        }
    }
    return worst;
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static struct made_spec random_spec(int64_t f, uint32_t dtype, uint64_t seed)
{
    static const int features[] = {0,
                                   MADE_CAUSAL,
                                   MADE_BIAS | MADE_GATE,
                                   MADE_KEEP,
                                   MADE_GATE,
                                   MADE_MASK | MADE_BIAS,
                                   MADE_BIAS | MADE_KEEP | MADE_GATE};
    struct made_spec spec = spec_of(f, features[seed % 7], seed);
    spec.dtype = dtype;
    spec.sq = 4;
    spec.sk = 1 + (int64_t)(seed * 37 % 120);
    spec.dk = 1 + (int64_t)(seed * 5 % 16);
    spec.dv = 8;
    spec.off = spec.sk / 2;
    spec.scale = seed % 3 ? 1 / sqrt((double)spec.dk) : 1 / (double)spec.sk;
    spec.spread = seed % 5 == 4 ? 3 : 1;
    return spec;
}

static void the_bound_holds(void **unused)
{
    enum { SEEDS = 70 };
    (void)unused;
    for (size_t n = 0; n < KERNELS; n++)
        for (size_t f = 0; f < ALL; f++) {
            double ratios[SEEDS];
            if (kernels[n].by_tanh && all[f] != ATTN_WEIGHT_SIGMOID)
                continue;
            for (uint64_t seed = 0; seed < SEEDS; seed++) {
                const struct made_spec spec = random_spec(all[f], kernels[n].dtype, seed);
                struct made m;
                made_create(&m, &spec);
                for (int64_t x = 0; seed % 4 == 3 && x < made_count(made_tensor(&m, ATTN_V)); x++)
                    made_set(made_tensor(&m, ATTN_V), x,
                             fabs(made_get(made_tensor(&m, ATTN_V), x)));
                ratios[seed] = worst_ratio(&kernels[n], &m, 1);
                if (!(ratios[seed] <= 1))
                    fail_msg("%s, %s, seed %d: %.3g of the bound", kernels[n].name,
                             ref_weight_find(all[f])->name, (int)seed, ratios[seed]);
                made_free(&m);
            }
            qsort(ratios, SEEDS, sizeof *ratios, ascending);
            print_message("%s, %s: largest ratio %.3f, median %.3f\n", kernels[n].name,
                          ref_weight_find(all[f])->name, ratios[SEEDS - 1], ratios[SEEDS / 2]);
            assert_true(ratios[SEEDS - 1] > 0.01);
        }
}

/* A scale that is 2 % off exceeds the bound of f32 many times over. */
static void the_bound_refuses(void **unused)
{
    (void)unused;
    for (size_t f = 0; f < ALL; f++)
        for (uint64_t seed = 3; seed < 40; seed++) {
            const struct made_spec spec = random_spec(all[f], ATTN_F32, seed);
            struct made m;
            made_create(&m, &spec);
            assert_true(worst_ratio(&kernels[0], &m, 1.02) > 20);
            made_free(&m);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(values_are_known),
                                       cmocka_unit_test(spreads_hold),
                                       cmocka_unit_test(the_formula_holds),
                                       cmocka_unit_test(parts_of_the_keys_add_up),
                                       cmocka_unit_test(a_gate_multiplies),
                                       cmocka_unit_test(special_values_follow_the_rules),
                                       cmocka_unit_test(what_does_not_combine_is_refused),
                                       cmocka_unit_test(the_bound_holds),
                                       cmocka_unit_test(the_bound_refuses)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
