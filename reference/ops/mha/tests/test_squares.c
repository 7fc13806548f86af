/* SPDX-License-Identifier: Apache-2.0 */
/* test_squares.c - on generic fills errors of projections add in squares: right kernels stay within
 * the bound, and it is narrow enough to refuse wrong ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reference/dtype.h"
#include "reference/reference.h"
#include "reference/tests/kernels.h"
#include "reference/tests/made.h"

enum { S = 64, LONG = 256, MOST = LONG * 144 };

static const uint32_t types[] = {ATTN_BF16, ATTN_F16, ATTN_F32};

/* Heads of `width` columns, two to each key head if there are four. */
static void make_heads(struct made *m, uint32_t type, int64_t hq, int64_t s, int64_t width,
                       int features, uint64_t seed)
{
    made_create(m, &(struct made_spec){.op = ATTN_OP_MHA,
                                       .dtype = type,
                                       .hq = hq,
                                       .hkv = 2,
                                       .sq = s,
                                       .dk = width,
                                       .features = features,
                                       .seed = seed});
}

static void make(struct made *m, uint32_t type, int64_t s, int64_t width, int features,
                 uint64_t seed)
{
    make_heads(m, type, 2, s, width, features, seed);
}

static void reference(const struct attn_problem *p, const struct attn_numerics *numerics,
                      enum ref_fill_kind kind, double *value, double *bound)
{
    struct ref_request request = {.numerics = numerics, .fill = kind, .threads = 1};
    struct ref_result result = {.output[0].value = value, .output[0].bound = bound};
    char why[256];

    request.units[0].count = ref_output_units(p, 0);
    assert_true(request.units[0].count * ref_output_width(p, 0) <= MOST);
    if (ref_compute(p, &request, &result, why, sizeof(why)) != ATTN_OK)
        fail_msg("%s", why);
}

/* The largest error over its bound. */
static double ratio(const double *got, const double *value, const double *bound, int64_t count)
{
    double worst = 0.0;

    for (int64_t x = 0; x < count; x++)
        worst = fmax(worst, isnan(got[x]) ? INFINITY : fabs(got[x] - value[x]) / bound[x]);
    return worst;
}

static double root_mean_square(const double *x, int64_t count)
{
    double sum = 0.0;

    for (int64_t i = 0; i < count; i++)
        sum += x[i] * x[i];
    return sqrt(sum / (double)count);
}

static void right_kernels_are_accepted(void **state)
{
    static const struct kernel kernels[] = {
        {.name = "f32", .acc = ATTN_F32, .tile = 16},
        {.name = "p in bf16", .acc = ATTN_F32, .p_type = ATTN_BF16},
        {.name = "all in f16", .acc = ATTN_F16, .tile = 16},
    };
    static const int features[] = {0,
                                   MADE_PROJ_BIAS | MADE_RESIDUAL,
                                   MADE_NO_WO,
                                   MADE_SOFTCAP | MADE_CAUSAL,
                                   MADE_KEEP | MADE_CAUSAL,
                                   MADE_SINK | MADE_BIAS};
    static double got[MOST], lse[4 * S], weights[4 * S * S], value[MOST], bound[MOST];

    (void)state;
    for (size_t k = 0; k < 3; k++)
        for (uint64_t c = 0; c < 12; c++) {
            struct made m;
            const struct attn_numerics numerics = kernel_numerics(&kernels[k]);
            make_heads(&m, types[c % 3], 4, S, 32, features[c % 6], 40 + c);
            const int64_t count = S * ref_output_width(&m.problem, 0);
            reference(&m.problem, &numerics, REF_FILL_GENERIC, value, bound);
            kernel_run(&kernels[k], &m, got, lse, weights);
            const double worst = ratio(got, value, bound, count);
            if (!(worst <= 1.0))
                fail_msg("%s, type %u, seed %d: ratio %.3g", kernels[k].name, types[c % 3], (int)c,
                         worst);
            made_free(&m);
        }
}

/* Errors added up as they are make the bound several times wider. */
static void squares_are_narrower(void **state)
{
    static double value[MOST], likely[MOST], worst[MOST];
    static const struct kernel kernel = {.acc = ATTN_F32, .tile = 16};
    const struct attn_numerics numerics = kernel_numerics(&kernel);

    (void)state;
    for (size_t t = 0; t < 3; t++)
        for (int wo = 0; wo < 2; wo++) {
            struct made m;
            make(&m, types[t], LONG, 64, wo ? 0 : MADE_NO_WO, 7);
            const int64_t count = LONG * ref_output_width(&m.problem, 0);
            reference(&m.problem, &numerics, REF_FILL_STRUCTURED, value, worst);
            reference(&m.problem, &numerics, REF_FILL_GENERIC, value, likely);
            const double times = root_mean_square(worst, count) / root_mean_square(likely, count);
            if (!(times > (wo ? 3.0 : 1.4)))
                fail_msg("type %u, W_o %d: %.3g times", types[t], wo, times);
            made_free(&m);
        }
}

/* Equal rows round alike: there the errors do not add in squares. */
static void equal_rows_add_up(void **state)
{
    static double value[MOST], likely[MOST], worst[MOST];
    static const struct kernel kernel = {.acc = ATTN_F32, .tile = 16};
    const struct attn_numerics numerics = kernel_numerics(&kernel);
    struct made m;

    (void)state;
    make(&m, ATTN_BF16, S, 32, 0, 7);
    made_tensor(&m, ATTN_X_Q)->stride[1] = 0;
    const int64_t count = S * ref_output_width(&m.problem, 0);
    reference(&m.problem, &numerics, REF_FILL_STRUCTURED, value, worst);
    reference(&m.problem, &numerics, REF_FILL_GENERIC, value, likely);
    assert_true(root_mean_square(likely, count) > 0.8 * root_mean_square(worst, count));
    made_free(&m);
}

/* What a wrong kernel computes is the right answer of another problem. */
static void wrong_kernels_are_refused(void **state)
{
    static double value[MOST], bound[MOST], got[MOST];
    static const struct kernel kernel = {.acc = ATTN_F32, .p_type = ATTN_BF16, .tile = 16};
    const struct attn_numerics numerics = kernel_numerics(&kernel);

    (void)state;
    for (size_t t = 0; t < 3; t++)
        for (int bug = 0; bug < 3; bug++) {
            struct made m;
            if (bug == 2 && types[t] == ATTN_BF16)
                continue;
            make(&m, types[t], S, 32, 0, 11);
            const int64_t count = S * ref_output_width(&m.problem, 0);
            reference(&m.problem, &numerics, REF_FILL_GENERIC, value, bound);
            struct attn_tensor *q = made_tensor(&m, ATTN_W_Q), *k = made_tensor(&m, ATTN_W_K);
            void *data = q->data;
            if (bug == 0) /* uniform weights */
                m.problem.scale = 0.0;
            if (bug == 1) { /* W_q and W_k exchanged */
                q->data = k->data;
                k->data = data;
            }
            if (bug == 2)
                m.problem.scale *= 1.1;
            reference(&m.problem, NULL, REF_FILL_GENERIC, got, NULL);
            if (!(ratio(got, value, bound, count) > 1.0))
                fail_msg("type %u, bug %d: ratio %.3g", types[t], bug,
                         ratio(got, value, bound, count));
            made_free(&m);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_kernels_are_accepted),
        cmocka_unit_test(squares_are_narrower),
        cmocka_unit_test(equal_rows_add_up),
        cmocka_unit_test(wrong_kernels_are_refused),
    };

    return cmocka_run_group_tests_name("squares", tests, NULL, NULL);
}
