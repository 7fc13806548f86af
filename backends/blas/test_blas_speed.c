/* SPDX-License-Identifier: Apache-2.0 */
/* test_blas_speed.c - projections of multi-head attention run at the rate of the bare product.
 *
 * The median of the ratios of pairs of calls, one behind the other, in processor time of one
 * thread: what else the machine does falls on both. */
#include <cblas.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "blas.h"

/* BERT-base: 12 heads of 64. */
enum { WIDTH = 768, MOST_ROWS = 512, PAIRS = 61 };

void openblas_set_num_threads(int threads) __attribute__((weak));

static float x[MOST_ROWS * WIDTH], w[WIDTH * WIDTH], bias[WIDTH], y[MOST_ROWS * WIDTH];

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void bare_product(int64_t rows)
{
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)rows, WIDTH, WIDTH, 1, x, WIDTH, w,
                WIDTH, 0, y, WIDTH);
}

static void projection(int64_t rows, int has_bias)
{
    const struct attn_blas_view x_view = {.data = (char *)x,
                                          .dtype = ATTN_F32,
                                          .rank = 3,
                                          .shape = {1, rows, WIDTH},
                                          .stride = {rows * WIDTH, WIDTH, 1}};
    const struct attn_blas_view w_view = {.data = (char *)w,
                                          .dtype = ATTN_F32,
                                          .rank = 2,
                                          .shape = {WIDTH, WIDTH},
                                          .stride = {WIDTH, 1}};
    const struct attn_blas_view bias_view = {.data = (char *)bias,
                                             .dtype = has_bias ? ATTN_F32 : 0,
                                             .rank = 1,
                                             .shape = {WIDTH},
                                             .stride = {1}};
    attn_blas_project_f32(&x_view, 0, &w_view, &bias_view, y);
}

static int ascending(const void *a, const void *b)
{
    double first = *(const double *)a, second = *(const double *)b;
    return (first > second) - (first < second);
}

/* The projection's rate as a part of the product's. */
static double relative_rate(int64_t rows, int has_bias)
{
    double ratios[PAIRS];
    for (int n = -3; n < PAIRS; n++) { /* the first ones warm up */
        double start = seconds();
        bare_product(rows);
        double middle = seconds();
        projection(rows, has_bias);
        double end = seconds();
        if (n >= 0)
            ratios[n] = (middle - start) / (end - middle);
    }
    qsort(ratios, PAIRS, sizeof(*ratios), ascending);
    return ratios[PAIRS / 2];
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
        for (int has_bias = 0; has_bias < 2; has_bias++) {
            double rate = relative_rate(rows, has_bias);
            print_message("%d rows, %s bias: %.3f of sgemm's rate\n", (int)rows,
                          has_bias ? "with" : "without", rate);
            assert_true(rate >= 0.9);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(projections_run_at_the_rate_of_sgemm)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
