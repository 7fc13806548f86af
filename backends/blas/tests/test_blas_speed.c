/* SPDX-License-Identifier: Apache-2.0 */
/* test_blas_speed.c - projections of multi-head attention run at the rate of the bare product. */
#include <cblas.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "../../tests/pace.h"
#include "../blas.h"

/* BERT-base: 12 heads of 64. */
enum { WIDTH = 768, MOST_ROWS = 512, PAIRS = 61 };

struct call {
    int64_t rows;
    int has_bias;
};

void openblas_set_num_threads(int threads) __attribute__((weak));

static float x[MOST_ROWS * WIDTH], w[WIDTH * WIDTH], bias[WIDTH], y[MOST_ROWS * WIDTH];

static void bare_product(void *context)
{
    const struct call *call = context;
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)call->rows, WIDTH, WIDTH, 1, x, WIDTH,
                w, WIDTH, 0, y, WIDTH);
}

static void projection(void *context)
{
    const struct call *call = context;
    const int64_t rows = call->rows;
    const struct attn_tensor x_view = {.data = x,
                                       .dtype = ATTN_F32,
                                       .rank = 3,
                                       .shape = {1, rows, WIDTH},
                                       .stride = {rows * WIDTH, WIDTH, 1}};
    const struct attn_tensor w_view = {
        .data = w, .dtype = ATTN_F32, .rank = 2, .shape = {WIDTH, WIDTH}, .stride = {WIDTH, 1}};
    const struct attn_tensor bias_view = {.data = bias,
                                          .dtype = call->has_bias ? ATTN_F32 : 0,
                                          .rank = 1,
                                          .shape = {WIDTH},
                                          .stride = {1}};
    attn_blas_project_f32(&x_view, 0, &w_view, &bias_view, y);
}

static double relative_rate(void *context)
{
    const struct call *call = context;
    const struct pace_work ours = {projection, context}, peer = {bare_product, context};
    double rate = pace_ratio(&ours, &peer, PAIRS, NULL);
    print_message("%d rows, %s bias: %.3f of sgemm's rate\n", (int)call->rows,
                  call->has_bias ? "with" : "without", rate);
    return rate;
}

static void projections_run_at_the_rate_of_sgemm(void **state)
{
    (void)state;
    for (size_t n = 0; n < sizeof(x) / sizeof(x[0]); n++)
        x[n] = (float)(n % 17) - 8;
    for (size_t n = 0; n < sizeof(w) / sizeof(w[0]); n++)
        w[n] = (float)(n % 13) / 16 - 0.25f;
    if (openblas_set_num_threads)
        openblas_set_num_threads(1);
    for (int64_t rows = 128; rows <= MOST_ROWS; rows *= 2)
        for (int has_bias = 0; has_bias < 2; has_bias++)
            pace_hold(relative_rate, &(struct call){rows, has_bias}, 0.9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(projections_run_at_the_rate_of_sgemm)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
