/* SPDX-License-Identifier: Apache-2.0 */
/* test_bound.c - the bound accepts every correct kernel and rejects planted errors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reference/reference.h"
#include "reference/tests/kernels.h"
#include "reference/tests/made.h"

#define MAX_CELLS 8192

enum fill { FILL_NORMAL, FILL_POSITIVE, FILL_CONSTANT, FILL_STAIRCASE, FILL_LARGE, FILLS };

static const struct kernel kernels[] = {
    {.name = "three passes", .acc = ATTN_F32},
    {.name = "online, tiles of 4", .acc = ATTN_F32, .tile = 4},
    {.name = "online, tiles of 1", .acc = ATTN_F32, .tile = 1},
    {.name = "lazy rescale", .acc = ATTN_F32, .tile = 8, .tau = 8.0},
    {.name = "splits", .acc = ATTN_F32, .splits = 3},
    {.name = "p in bf16", .acc = ATTN_F32, .tile = 16, .p_type = ATTN_BF16},
    {.name = "p in f16, summed as stored",
     .acc = ATTN_F32,
     .tile = 16,
     .p_type = ATTN_F16,
     .sums_stored = true},
    {.name = "normalised p in bf16", .acc = ATTN_F32, .p_type = ATTN_BF16, .normalised = true},
    {.name = "scores in bf16", .acc = ATTN_F32, .score_type = ATTN_BF16, .p_type = ATTN_BF16},
    {.name = "truncating", .acc = ATTN_F32, .tile = 8, .truncates = true},
    {.name = "all in f16", .acc = ATTN_F16, .tile = 8},
    {.name = "all in bf16", .acc = ATTN_BF16, .tile = 8},
    {.name = "gaussian by norms", .acc = ATTN_F32, .by_norms = true},
    {.name = "partial sums of 16 in f16",
     .acc = ATTN_F32,
     .tile = 64,
     .p_type = ATTN_F16,
     .partial = ATTN_F16,
     .terms = 16},
    {.name = "partial sums of 4 in bf16",
     .acc = ATTN_F32,
     .p_type = ATTN_BF16,
     .by_norms = true,
     .partial = ATTN_BF16,
     .terms = 4},
};
#define KERNELS (sizeof(kernels) / sizeof(*kernels))

struct ratios {
    double out, lse, weights;
};

static int64_t pick(uint64_t *state, int64_t below)
{
    return (int64_t)(made_uniform(state) * (double)below);
}

/* Changes q, k, v (of attention) from normal random numbers to a family. */
static void apply_fill(struct made *m, enum fill fill)
{
    struct attn_tensor *q = made_tensor(m, ATTN_Q), *k = made_tensor(m, ATTN_K);
    struct attn_tensor *v = made_tensor(m, ATTN_V);

    for (int64_t x = 0; fill == FILL_POSITIVE && x < made_count(v); x++)
        made_set(v, x, fabs(made_get(v, x)));
    for (int64_t x = 0; fill == FILL_CONSTANT && x < made_count(k); x++)
        made_set(k, x, made_get(k, x % m->problem.dk));
    for (int64_t x = 0; fill == FILL_CONSTANT && x < made_count(v); x++)
        made_set(v, x, 0.7);
    for (int64_t x = 0; fill == FILL_LARGE && x < made_count(q); x++)
        made_set(q, x, 8.0 * made_get(q, x));
    /* Every key scores higher than the one before it: each tile must rescale. */
    for (int64_t x = 0; fill == FILL_STAIRCASE && x < made_count(q); x++)
        made_set(q, x, 1.0);
    for (int64_t x = 0; fill == FILL_STAIRCASE && x < made_count(k); x++)
        made_set(k, x, 0.1 * (double)(x / m->problem.dk % m->problem.sk));
}

/* Largest error over bound; an exact result counts as 0 whatever its bound. */
static double ratio(const double *got, const double *truth, const double *bound, int64_t count)
{
    double worst = 0.0;

    for (int64_t x = 0; x < count; x++) {
        double error = fabs(got[x] - truth[x]);
        if (got[x] == truth[x])
            continue;
        assert_true(!isnan(bound[x]));
        if (!(error <= bound[x]))
            worst = fmax(worst, isnan(error) || bound[x] == 0.0 ? INFINITY : error / bound[x]);
        else
            worst = fmax(worst, error / bound[x]);
    }
    return worst;
}

static struct ratios measure(const struct kernel *kernel, struct made *m, enum ref_fill_kind kind)
{
    static double got[3][MAX_CELLS], truth[3][MAX_CELLS], bound[3][MAX_CELLS];
    static double turned[2][MAX_CELLS];
    const struct attn_problem *p = &m->problem;
    struct attn_numerics numerics = kernel_numerics(kernel);
    struct ref_result result = {.output[0].value = truth[0],
                                .output[0].bound = bound[0],
                                .output[1].value = truth[1],
                                .output[1].bound = bound[1],
                                .output[2].value = truth[2],
                                .output[2].bound = bound[2]};
    struct ref_units rows = {ref_output_units(p, 0), NULL};
    char why[256];

    assert_true(p->hq * p->sq * p->sk <= MAX_CELLS);
    memset(got, 0, sizeof(got));
    if (ref_compute(p,
                    &(struct ref_request){
                        .units = {rows}, .numerics = &numerics, .fill = kind, .threads = 1},
                    &result, why, sizeof(why)) != ATTN_OK)
        fail_msg("%s", why);
    kernel_run(kernel, m, got[0], got[1], got[2]);
    for (int64_t x = 0; p->op == ATTN_OP_MHA && x < p->hq * p->sq; x++) {
        int64_t to = x % p->sq * p->hq + x / p->sq; /* [h,i] to [i,h] */
        turned[0][to] = got[1][x];
        memcpy(turned[1] + to * p->sk, got[2] + x * p->sk, (size_t)p->sk * sizeof(double));
    }
    if (p->op == ATTN_OP_MHA)
        memcpy(got[1], turned, sizeof(turned));
    return (struct ratios){
        ratio(got[0], truth[0], bound[0], rows.count * ref_output_width(p, 0)),
        ratio(got[1], truth[1], bound[1], p->hq * p->sq),
        ratio(got[2], truth[2], bound[2], p->hq * p->sq * p->sk),
    };
}

static void assert_accepted(const struct kernel *kernel, const struct made_spec *spec,
                            const struct ratios *x)
{
    if (!(x->out <= 1.0) || !(x->lse <= 1.0) || !(x->weights <= 1.0))
        fail_msg("%s: score %u type %u sk %d dk %d features 0x%x seed %d: ratios %.3g %.3g %.3g",
                 kernel->name, spec->score, spec->dtype, (int)spec->sk, (int)spec->dk,
                 (unsigned)spec->features, (int)spec->seed, x->out, x->lse, x->weights);
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* A bound that is sharp enough to be of use: half of the cases come within this of it. */
static void assert_sharp(const char *name, double *ratios, size_t count, double least)
{
    qsort(ratios, count, sizeof(*ratios), ascending);
    print_message("%-28s %4d cases, ratio median %.4f, largest %.4f\n", name, (int)count,
                  ratios[count / 2], ratios[count - 1]);
    if (!(ratios[count / 2] >= least))
        fail_msg("%s: the median ratio is %.3g, under %.3g", name, ratios[count / 2], least);
}

static const int features[] = {0,
                               MADE_CAUSAL,
                               MADE_LEN,
                               MADE_BIAS | MADE_ALIBI,
                               MADE_SOFTCAP,
                               MADE_SINK,
                               MADE_KEEP,
                               MADE_SINK | MADE_PHILOX | MADE_BIAS | MADE_SOFTCAP | MADE_MASK};
static const uint32_t dtypes[] = {ATTN_F32, ATTN_F32, ATTN_BF16, ATTN_F16};

static struct made_spec random_spec(uint64_t seed, uint64_t *state)
{
    return (struct made_spec){.score = ATTN_SCORE_SCALED_DOT,
                              .hq = 2,
                              .hkv = 1,
                              .sq = 3,
                              .sk = 1 + pick(state, seed % 4 ? 40 : 200),
                              .dk = 1 + pick(state, 32),
                              .dv = 1 + pick(state, 8),
                              .features = features[pick(state, 8)],
                              .dtype = dtypes[pick(state, 4)],
                              .seed = seed};
}

#define CASES 200

static void correct_kernels_are_accepted(void **state)
{
    uint64_t random = 7;

    (void)state;
    for (size_t k = 0; k < KERNELS; k++) {
        double outs[CASES];
        for (int c = 0; c < CASES; c++) {
            struct made_spec spec = random_spec((uint64_t)(k * CASES) + (uint64_t)c, &random);
            enum fill fill = (enum fill)(c % FILLS);
            struct made m;
            /* A split says nothing of sinks: the kernel merges keys alone. f16 sums overflow. */
            if (kernels[k].splits)
                spec.features &= ~MADE_SINK;
            if (fill == FILL_STAIRCASE || kernels[k].acc == ATTN_F16)
                spec.dk = 1 + spec.dk % 8;
            made_create(&m, &spec);
            apply_fill(&m, fill);
            struct ratios x =
                measure(&kernels[k], &m,
                        fill == FILL_CONSTANT || fill == FILL_STAIRCASE ? REF_FILL_STRUCTURED
                                                                        : REF_FILL_GENERIC);
            assert_accepted(&kernels[k], &spec, &x);
            outs[c] = x.out;
            made_free(&m);
        }
        assert_sharp(kernels[k].name, outs, CASES, 0.01);
    }
}

/* Where the growth of a sum over keys is what counts, and the probabilistic constants matter. */
static void long_rows_are_accepted(void **state)
{
    (void)state;
    for (size_t k = 0; k < KERNELS; k++)
        for (uint64_t c = 0; c < 9; c++) {
            struct made_spec spec = {
                .sq = 1, .sk = KERNEL_KEYS, .dk = 8, .dv = 2, .dtype = ATTN_F32, .seed = c};
            enum fill fill = (enum fill)(c % 3);
            struct made m;
            if (kernels[k].acc != ATTN_F32)
                continue;
            made_create(&m, &spec);
            apply_fill(&m, fill);
            struct ratios x = measure(
                &kernels[k], &m, fill == FILL_CONSTANT ? REF_FILL_STRUCTURED : REF_FILL_GENERIC);
            assert_accepted(&kernels[k], &spec, &x);
            made_free(&m);
        }
}

static void other_scores_are_accepted(void **state)
{
    uint64_t random = 11;

    (void)state;
    for (uint32_t score = ATTN_SCORE_DOT; score <= ATTN_SCORE_DISENTANGLED; score++)
        for (size_t k = 0; k < KERNELS; k++)
            for (uint64_t c = 0; c < 12; c++) {
                struct made_spec spec = random_spec(c + 1000 * k, &random);
                struct made m;
                spec.score = score;
                spec.sk = 1 + spec.sk % 40;
                spec.dk = 1 + spec.dk % 12;
                spec.dh = 1 + pick(&random, 12);
                spec.parts = (int64_t)(c % 3);
                spec.variant = (int64_t)(c / 3 % 2);
                if (kernels[k].splits)
                    spec.features &= ~MADE_SINK;
                made_create(&m, &spec);
                struct ratios x = measure(&kernels[k], &m, REF_FILL_GENERIC);
                assert_accepted(&kernels[k], &spec, &x);
                made_free(&m);
            }
}

static void multi_head_attention_is_accepted(void **state)
{
    static const int extras[] = {0, MADE_PROJ_BIAS, MADE_PROJ_BIAS | MADE_RESIDUAL,
                                 MADE_NO_WO | MADE_PROJ_BIAS};
    uint64_t random = 13;
    double outs[160];
    size_t count = 0;

    (void)state;
    for (uint64_t c = 0; c < 160; c++) {
        struct made_spec spec = {.op = ATTN_OP_MHA,
                                 .score = 1 + (uint32_t)(c % 5),
                                 .dtype = dtypes[c % 4],
                                 .hq = 4,
                                 .hkv = 2,
                                 .sq = 1 + pick(&random, 12),
                                 .dk = 1 + pick(&random, 8),
                                 .features = extras[pick(&random, 4)] | features[pick(&random, 3)],
                                 .seed = c};
        /* Heads that nobody narrows: kernels in f32 and the two all in low precision. */
        const struct kernel *kernel = &kernels[c % 6 == 5 ? 11 : c % 6];
        struct made m;
        made_create(&m, &spec);
        struct ratios x = measure(kernel, &m, REF_FILL_GENERIC);
        assert_accepted(kernel, &spec, &x);
        outs[count++] = x.out;
        made_free(&m);
    }
    assert_sharp("multi-head attention", outs, count, 0.005);
}

/* What a tolerance of 1e-2 lets pass, the bound does not, in f32, in every one of many cases. */
static void planted_errors_are_rejected(void **state)
{
    static const struct kernel planted[] = {
        {.name = "scale x 1.02", .acc = ATTN_F32, .tile = 8, .bug = BUG_SCALE},
        {.name = "output x 1.05", .acc = ATTN_F32, .tile = 8, .bug = BUG_OUTPUT},
        {.name = "key dropped", .acc = ATTN_F32, .tile = 8, .bug = BUG_KEY},
    };

    (void)state;
    for (size_t k = 0; k < 3; k++)
        for (uint64_t c = 0; c < 40; c++) {
            struct made_spec spec = {
                .sq = 4, .sk = 16, .dk = 16, .dtype = ATTN_F32, .seed = 500 + c};
            struct made m;
            made_create(&m, &spec);
            struct ratios x = measure(&planted[k], &m, REF_FILL_STRUCTURED);
            if (!(x.out > 100.0))
                fail_msg("%s, seed %d: ratio %.3g", planted[k].name, (int)c, x.out);
            made_free(&m);
        }
}

/* In bf16 with p in bf16, scale and output errors are still seen over 256 keys. */
static void planted_errors_are_rejected_in_bf16(void **state)
{
    static const struct kernel planted = {.name = "output x 1.05",
                                          .acc = ATTN_F32,
                                          .p_type = ATTN_BF16,
                                          .tile = 64,
                                          .bug = BUG_OUTPUT};

    (void)state;
    for (uint64_t c = 0; c < 10; c++) {
        struct made_spec spec = {.sq = 4, .sk = 256, .dk = 16, .dtype = ATTN_BF16, .seed = c};
        struct made m;
        made_create(&m, &spec);
        struct ratios x = measure(&planted, &m, REF_FILL_GENERIC);
        if (!(x.out > 1.0))
            fail_msg("seed %d: ratio %.3g", (int)c, x.out);
        made_free(&m);
    }
}

/* Logits that leave exp no room: the bound stays a number, and is finite where it can be. */
static void extreme_logits_have_bounds(void **state)
{
    struct made_spec spec = {
        .sq = 1, .sk = 3, .dk = 1, .dtype = ATTN_F32, .features = MADE_BIAS, .seed = 1};
    static const double bias[][3] = {{0, -1e30, 1}, {-3e38, -3e38, -3e38}, {1e30, 0, 5}};
    struct made m;

    (void)state;
    made_create(&m, &spec);
    for (size_t x = 0; x < 3; x++) {
        double out, bound, lse, lse_bound, weights[3], weights_bound[3];
        struct attn_numerics numerics = kernel_numerics(&kernels[1]);
        struct ref_result result = {.output[0].value = &out,
                                    .output[0].bound = &bound,
                                    .output[1].value = &lse,
                                    .output[1].bound = &lse_bound,
                                    .output[2].value = weights,
                                    .output[2].bound = weights_bound};
        char why[256];
        for (int64_t j = 0; j < 3; j++)
            made_set(made_tensor(&m, ATTN_BIAS), j, bias[x][j]);
        assert_int_equal(ref_compute(&m.problem,
                                     &(struct ref_request){.units = {{1, NULL}},
                                                           .numerics = &numerics,
                                                           .fill = REF_FILL_GENERIC,
                                                           .threads = 1},
                                     &result, why, sizeof(why)),
                         ATTN_OK);
        assert_true(isfinite(out) && isfinite(lse));
        assert_true(!isnan(bound) && !isnan(lse_bound) && !isnan(weights_bound[1]));
        if (x == 0)
            assert_true(bound < 1e-4 && weights_bound[1] < 1e-30);
    }
    made_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(correct_kernels_are_accepted),
        cmocka_unit_test(long_rows_are_accepted),
        cmocka_unit_test(other_scores_are_accepted),
        cmocka_unit_test(multi_head_attention_is_accepted),
        cmocka_unit_test(planted_errors_are_rejected),
        cmocka_unit_test(planted_errors_are_rejected_in_bf16),
        cmocka_unit_test(extreme_logits_have_bounds),
    };

    return cmocka_run_group_tests_name("bound", tests, NULL, NULL);
}
