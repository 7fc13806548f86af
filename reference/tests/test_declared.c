/* SPDX-License-Identifier: Apache-2.0 */
/* test_declared.c - what only some kernels declare: each such kernel is accepted with its
 * declaration and refused without it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "reference/reference.h"
#include "reference/tests/kernels.h"
#include "reference/tests/made.h"

#define MAX_CELLS 8192

struct ratios {
    double out, lse;
};

static double ratio(const double *got, const double *truth, const double *bound, int64_t count)
{
    double worst = 0.0;

    for (int64_t x = 0; x < count; x++)
        if (got[x] != truth[x])
            worst = fmax(worst, fabs(got[x] - truth[x]) / bound[x]);
    return worst;
}

static void bounds_of(struct made *m, const struct attn_numerics *numerics, enum ref_fill_kind fill,
                      struct ref_result *result)
{
    char why[256];

    if (ref_compute(&m->problem,
                    &(struct ref_request){.units = {{ref_output_units(&m->problem, 0), NULL}},
                                          .numerics = numerics,
                                          .fill = fill,
                                          .threads = 1},
                    result, why, sizeof(why)) != ATTN_OK)
        fail_msg("%s", why);
}

static struct ratios measure(const struct kernel *kernel, struct made *m, enum ref_fill_kind fill)
{
    static double got[2][MAX_CELLS], weights[65536], truth[2][MAX_CELLS], bound[2][MAX_CELLS];
    const struct attn_problem *p = &m->problem;
    const struct attn_numerics numerics = kernel_numerics(kernel);
    struct ref_result result = {.output = {{truth[0], bound[0]}, {truth[1], bound[1]}}};

    assert_true(p->hq * p->sq * p->dv <= MAX_CELLS && p->hq * p->sq * p->sk <= 65536);
    bounds_of(m, &numerics, fill, &result);
    kernel_run(kernel, m, got[0], got[1], weights);
    return (struct ratios){ratio(got[0], truth[0], bound[0], p->hq * p->sq * p->dv),
                           ratio(got[1], truth[1], bound[1], p->hq * p->sq)};
}

/* Runs a kernel on `cases` problems with its declaration and without: the largest ratio with it is
 * at most 1 and at least `sharp`, that without it above 1. */
static void assert_declared(const struct kernel *kernel, const struct made_spec *first, int cases,
                            enum ref_fill_kind fill, double sharp)
{
    struct ratios most[2] = {{0.0, 0.0}, {0.0, 0.0}};

    for (int c = 0; c < cases; c++)
        for (int silent = 0; silent < 2; silent++) {
            struct kernel k = *kernel;
            struct made_spec spec = *first;
            struct made m;
            struct ratios x;
            k.silent = silent;
            spec.seed = first->seed + (uint64_t)c;
            made_create(&m, &spec);
            x = measure(&k, &m, fill);
            most[silent].out = fmax(most[silent].out, x.out);
            most[silent].lse = fmax(most[silent].lse, x.lse);
            made_free(&m);
        }
    print_message("%-24s ratios %.3f %.3f declared, %.3f %.3f not\n", kernel->name, most[0].out,
                  most[0].lse, most[1].out, most[1].lse);
    assert_true(most[0].out <= 1.0 && most[0].lse <= 1.0);
    assert_true(fmax(most[0].out, most[0].lse) >= sharp);
    assert_true(fmax(most[1].out, most[1].lse) > 1.0);
}

/* Unfused: every step of the score goes through memory. */
static void scores_may_be_stored_often(void **state)
{
    static const uint32_t types[] = {ATTN_BF16, ATTN_F16};

    (void)state;
    for (size_t t = 0; t < 2; t++) {
        const struct kernel k = {
            .name = "unfused", .acc = ATTN_F32, .score_type = types[t], .stores = true};
        assert_declared(&k,
                        &(struct made_spec){.hq = 2,
                                            .sq = 4,
                                            .sk = 12,
                                            .dk = 8,
                                            .dv = 4,
                                            .dtype = types[t],
                                            .features = MADE_BIAS | MADE_SOFTCAP | MADE_ALIBI},
                        60, REF_FILL_GENERIC, 0.1);
    }
}

static void products_of_p_and_v_may_be_rounded(void **state)
{
    const struct kernel k = {.name = "tf32 in p v", .acc = ATTN_F32, .tile = 16, .tf32_pv = true};

    (void)state;
    assert_declared(&k,
                    &(struct made_spec){.sq = 8, .sk = 24, .dk = 16, .dv = 8, .dtype = ATTN_F32},
                    10, REF_FILL_GENERIC, 0.1);
}

/* slope * j is far larger than the slope times a small distance. */
static void alibi_may_be_added_by_key(void **state)
{
    const struct kernel k = {.name = "ALiBi by key", .acc = ATTN_F32, .tile = 64, .by_key = true};

    (void)state;
    assert_declared(&k,
                    &(struct made_spec){.sq = 2,
                                        .sk = KERNEL_KEYS,
                                        .dk = 4,
                                        .dv = 4,
                                        .off = KERNEL_KEYS - 2,
                                        .dtype = ATTN_F32,
                                        .features = MADE_ALIBI | MADE_CAUSAL},
                    12, REF_FILL_GENERIC, 0.02);
}

static void p_may_be_rounded_at_random(void **state)
{
    const struct kernel k = {
        .name = "p rounded at random", .acc = ATTN_F32, .p_type = ATTN_BF16, .stochastic = true};

    (void)state;
    assert_declared(&k, &(struct made_spec){.sq = 16, .sk = 2, .dk = 1, .dv = 4, .dtype = ATTN_F32},
                    40, REF_FILL_STRUCTURED, 0.1);
}

/* Keys that go up and down, in tiles of one, with an exp that is e_exp wrong each time. The key
 * that comes first goes through each rescaling: `every` one, or those that raise the maximum. */
static double first_key_of_many(const double *bias, int n, double e, bool every)
{
    double max = bias[0], weight = 1.0, sum = 1.0;

    for (int j = 1; j < n; j++) {
        const double up = fmax(max, bias[j]);
        const double factor = up > max || every ? exp(max - up) * (1.0 + e) : 1.0;
        weight *= factor;
        sum = sum * factor + exp(bias[j] - up);
        max = up;
    }
    return weight / sum;
}

static void only_a_rise_may_rescale(void **state)
{
    enum { KEYS = 64 };
    const double e = 0x1p-10;
    double bias[KEYS], out[2], bound[2], seen[2];
    uint64_t random = 3;

    (void)state;
    for (int declared = 0; declared < 2; declared++) {
        const struct attn_numerics numerics = {.acc_type = ATTN_F32,
                                               .key_tile = 1,
                                               .e_exp = e,
                                               .denominator = 1,
                                               .rescale_on_rise = (uint32_t)declared};
        struct ref_result result = {.output = {{&out[declared], &bound[declared]}}};
        struct made m;
        made_create(
            &m,
            &(struct made_spec){
                .sq = 1, .sk = KEYS, .dk = 1, .dv = 1, .dtype = ATTN_F32, .features = MADE_BIAS});
        made_set(made_tensor(&m, ATTN_Q), 0, 0.0);
        for (int j = 0; j < KEYS; j++) {
            made_set(made_tensor(&m, ATTN_BIAS), j, declared ? bias[j] : made_normal(&random));
            bias[j] = made_get(made_tensor(&m, ATTN_BIAS), j);
            made_set(made_tensor(&m, ATTN_V), j, j == 0);
        }
        bounds_of(&m, &numerics, REF_FILL_STRUCTURED, &result);
        made_free(&m);
    }
    for (int every = 0; every < 2; every++)
        seen[every] = fabs(first_key_of_many(bias, KEYS, e, every) - out[0]);
    print_message("bounds %.3g and %.3g, errors %.3g on rises, %.3g always\n", bound[1], bound[0],
                  seen[0], seen[1]);
    assert_true(seen[0] <= bound[1] && seen[1] <= bound[0]);
    assert_true(seen[1] > bound[1] && seen[0] * 20.0 > bound[1]);
}

static void empty_rows_may_have_an_lse_of_inf(void **state)
{
    static const uint32_t rules[] = {ATTN_EMPTY_ZERO, ATTN_EMPTY_INF};

    (void)state;
    for (int sink = 0; sink < 2; sink++)
        for (int r = 0; r < 2; r++) {
            const struct attn_numerics numerics = {.acc_type = ATTN_F32, .empty_row = rules[r]};
            double out[4], out_bound[4], lse[4], lse_bound[4];
            struct ref_result result = {.output = {{out, out_bound}, {lse, lse_bound}}};
            struct made m;
            made_create(&m, &(struct made_spec){.sq = 4,
                                                .sk = 2,
                                                .dk = 1,
                                                .off = -2,
                                                .dtype = ATTN_F32,
                                                .features = MADE_CAUSAL | (sink ? MADE_SINK : 0)});
            bounds_of(&m, &numerics, REF_FILL_GENERIC, &result);
            assert_true(out[0] == 0.0);
            if (sink)
                assert_true(isfinite(lse[0]));
            else
                assert_true(isinf(lse[0]) && (lse[0] > 0.0) == (r == 1) && lse_bound[0] == 0.0);
            assert_true(isfinite(lse[3]));
            made_free(&m);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scores_may_be_stored_often),
        cmocka_unit_test(products_of_p_and_v_may_be_rounded),
        cmocka_unit_test(alibi_may_be_added_by_key),
        cmocka_unit_test(p_may_be_rounded_at_random),
        cmocka_unit_test(only_a_rise_may_rescale),
        cmocka_unit_test(empty_rows_may_have_an_lse_of_inf),
    };

    return cmocka_run_group_tests_name("declared", tests, NULL, NULL);
}
