/* SPDX-License-Identifier: Apache-2.0 */
/* test_stalls.c - sums of p in a narrow type, key by key: from some length on they stall, and the
 * errors are all of one sign. Right kernels stay within the bound; f32 pays nothing for that. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>

#include "reference/bound.h"
#include "reference/dtype.h"
#include "reference/reference.h"
#include "reference/tests/made.h"

struct answer {
    double out, bound, lse, lse_bound;
};

static double to_type(uint32_t type, double x)
{
    double bits;

    attn_dtype_store(type, &bits, 0, x);
    return attn_dtype_load(type, &bits, 0);
}

/* One row whose scores are `spread` times random numbers, and whose v is positive. */
static void make_row(struct made *m, int64_t keys, double spread, uint64_t seed)
{
    uint64_t random = seed;

    made_create(m, &(struct made_spec){.sq = 1,
                                       .sk = keys,
                                       .dk = 1,
                                       .dv = 1,
                                       .dtype = ATTN_F32,
                                       .features = MADE_BIAS,
                                       .seed = seed});
    made_set(made_tensor(m, ATTN_Q), 0, 0.0);
    for (int64_t j = 0; j < keys; j++) {
        made_set(made_tensor(m, ATTN_BIAS), j, spread * made_normal(&random));
        made_set(made_tensor(m, ATTN_V), j, made_uniform(&random));
    }
}

static struct answer answer_of(const struct made *m, uint32_t type, enum ref_fill_kind kind)
{
    const double u = attn_dtype_roundoff(type);
    const struct attn_numerics numerics = {
        .acc_type = type, .denominator = 1, .e_exp = 1.001 * u, .e_log = 1.001 * u};
    struct answer x;
    struct ref_result result = {.output[0].value = &x.out,
                                .output[0].bound = &x.bound,
                                .output[1].value = &x.lse,
                                .output[1].bound = &x.lse_bound};
    char why[256];

    if (ref_compute(&m->problem,
                    &(struct ref_request){
                        .units = {{1, NULL}}, .numerics = &numerics, .fill = kind, .threads = 1},
                    &result, why, sizeof(why)) != ATTN_OK)
        fail_msg("%s", why);
    return x;
}

/* Key by key, every operation rounded to `type`. */
static void run(const struct made *m, uint32_t type, double *out, double *lse)
{
    const struct attn_tensor *bias = attn_tensor_find(&m->problem, ATTN_BIAS);
    const struct attn_tensor *v = attn_tensor_find(&m->problem, ATTN_V);
    double max = -INFINITY, sum = 0.0, weighed = 0.0;

    for (int64_t j = 0; j < m->problem.sk; j++)
        max = fmax(max, to_type(type, made_get(bias, j)));
    for (int64_t j = 0; j < m->problem.sk; j++) {
        const double s = to_type(type, made_get(bias, j));
        const double p = to_type(type, exp(to_type(type, s - max)));
        sum = to_type(type, sum + p);
        weighed = to_type(type, weighed + to_type(type, p * to_type(type, made_get(v, j))));
    }
    *out = to_type(type, weighed / sum);
    *lse = to_type(type, max + to_type(type, log(sum)));
}

static void right_kernels_are_accepted(void **state)
{
    static const uint32_t types[] = {ATTN_F16, ATTN_BF16, ATTN_F32};
    static const int64_t keys[] = {512, 2048, 8192, 32768};
    static const double spreads[] = {1e-3, 0.3, 1.0, 3.0};

    (void)state;
    for (size_t t = 0; t < 3; t++)
        for (size_t n = 0; n < 4; n++)
            for (size_t s = 0; s < 4; s++) {
                struct made m;
                double out, lse;
                make_row(&m, keys[n], spreads[s], 100 * t + 10 * n + s);
                const struct answer x = answer_of(&m, types[t], REF_FILL_GENERIC);
                run(&m, types[t], &out, &lse);
                /* 32768 numbers near 1, rounded up half an ulp each, leave the range of f16. */
                assert_int_equal(isinf(x.lse_bound), types[t] == ATTN_F16 && n == 3 && s == 0);
                if (!(fabs(out - x.out) <= x.bound) || !(fabs(lse - x.lse) <= x.lse_bound))
                    fail_msg("type %u, %d keys, spread %g: out off by %.3g of %.3g, lse by %.3g of "
                             "%.3g",
                             types[t], (int)keys[n], spreads[s], fabs(out - x.out), x.bound,
                             fabs(lse - x.lse), x.lse_bound);
                /* The bound is about what is lost, not a multiple of it. */
                if (types[t] != ATTN_F32 && n >= 2 && s < 3 && isfinite(x.lse_bound) &&
                    !(fabs(lse - x.lse) >= 0.2 * x.lse_bound))
                    fail_msg("type %u, %d keys, spread %g: lse off by %.3g, bound %.3g", types[t],
                             (int)keys[n], spreads[s], fabs(lse - x.lse), x.lse_bound);
                made_free(&m);
            }
}

/* In f32, weights of usual spread are far above what a sum of 32768 keys resolves: the chain still
 * grows with the square root of its length. */
static void f32_grows_by_the_root(void **state)
{
    struct made m;
    double before = 0.0;

    (void)state;
    for (int64_t keys = 2048; keys <= 32768; keys *= 16) {
        make_row(&m, keys, 1.0, 5);
        const struct answer likely = answer_of(&m, ATTN_F32, REF_FILL_GENERIC);
        const struct answer worst = answer_of(&m, ATTN_F32, REF_FILL_STRUCTURED);
        if (before > 0.0 && !(worst.bound / likely.bound > 3.0 * before))
            fail_msg("worst over likely: %.3g, then %.3g", before, worst.bound / likely.bound);
        before = worst.bound / likely.bound;
        made_free(&m);
    }
}

/* lambda follows from the number of chains: 2 chains exp(-lambda^2/2) is the share of delta. */
static void lambda_states_its_probability(void **state)
{
    (void)state;
    for (double chains = 1.0; chains < 1e13; chains *= 10.0) {
        const double lambda = ref_lambda(chains);
        assert_true(fabs(2.0 * chains * exp(-0.5 * lambda * lambda) / REF_DELTA_SHARE - 1.0) <
                    1e-9);
    }
    const struct attn_numerics nearest = {.acc_type = ATTN_F32};
    const struct attn_numerics truncating = {.acc_type = ATTN_F32, .acc_toward_zero = 1};
    assert_true(ref_delta(&nearest, REF_FILL_GENERIC) == REF_DELTA_SHARE);
    assert_true(ref_delta(&nearest, REF_FILL_STRUCTURED) == 0.0);
    assert_true(ref_delta(&truncating, REF_FILL_GENERIC) == 0.0);
}

/* More rows, keys or columns: more chains. */
static void chains_grow_with_the_problem(void **state)
{
    static const struct made_spec specs[] = {
        {.sq = 2, .sk = 16, .dk = 8},
        {.sq = 3, .sk = 16, .dk = 8},
        {.sq = 3, .sk = 17, .dk = 8},
        {.sq = 3, .sk = 17, .dk = 9},
        {.score = ATTN_SCORE_BILINEAR, .sq = 3, .sk = 17, .dk = 9},
    };
    double before = 0.0;

    (void)state;
    for (size_t s = 0; s < sizeof(specs) / sizeof(*specs); s++) {
        struct made m;
        struct ref_request all = {.fill = REF_FILL_GENERIC};
        made_create(&m, &specs[s]);
        ref_request_all(&m.problem, &all);
        assert_true(ref_chains(&m.problem, &all) > before);
        before = ref_chains(&m.problem, &all);
        made_free(&m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_kernels_are_accepted),
        cmocka_unit_test(f32_grows_by_the_root),
        cmocka_unit_test(lambda_states_its_probability),
        cmocka_unit_test(chains_grow_with_the_problem),
    };

    return cmocka_run_group_tests_name("stalls", tests, NULL, NULL);
}
