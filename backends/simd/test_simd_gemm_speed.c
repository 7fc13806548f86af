/* SPDX-License-Identifier: Apache-2.0 */
/* test_simd_gemm_speed.c - projections against sgemm, one thread each, as a ratio in one process.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include <cblas.h>
#include <cmocka.h>

#include "gemm.h"

#define PAIRS 75 /* interleaved, so that both meet the same disturbances */

struct shape {
    const char *name;
    int rows, inner, columns;
};

/* Processor time of all threads: waiting for a processor is not the product's doing. */
static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *samples)
{
    qsort(samples, PAIRS, sizeof *samples, compare);
    return samples[PAIRS / 2];
}

static float *floats(int64_t count)
{
    float *made = aligned_alloc(64, ((size_t)count * sizeof *made + 63) / 64 * 64);
    assert_non_null(made);
    for (int64_t n = 0; n < count; n++)
        made[n] = (float)(n * 7 % 13) * 0.1f - 0.6f;
    return made;
}

/* The median of sgemm's time over ours: packing x and adding the bias is in ours, packing w is not,
 * since `bind` does it; sgemm has no such call. */
static double rate_against_sgemm(const struct attn_flash_isa *isa, const struct shape *shape)
{
    const int64_t m = shape->rows, e = shape->inner, n = shape->columns;
    float *x = floats(m * e), *w = floats(n * e), *y = floats(m * n), *theirs = floats(m * n);
    float *packed = floats(attn_gemm_packed(n, e, isa->nr)), *scratch = floats(ATTN_GEMM_SCRATCH);
    const struct attn_tensor weights = {.rank = 2, .shape = {n, e}, .stride = {e, 1}, .data = w};
    attn_gemm_pack(&weights, NULL, isa->nr, packed);
    const struct attn_gemm job = {.rows = m,
                                  .batch_rows = m,
                                  .inner = e,
                                  .columns = n,
                                  .x = {x, {m * e, e, 1}},
                                  .y = {y, {m * n, n, 1}},
                                  .packed = packed};
    const struct attn_gemm_part all = {0, m, 0, n};
    double ours[PAIRS], library[PAIRS], ratios[PAIRS];
    for (int p = -2; p < PAIRS; p++) { /* the first two warm up */
        double start = seconds();
        isa->run_gemm(&job, &all, scratch);
        double middle = seconds();
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, shape->rows, shape->columns,
                    shape->inner, 1, x, shape->inner, w, shape->inner, 0, theirs, shape->columns);
        if (p < 0)
            continue;
        ours[p] = middle - start;
        library[p] = seconds() - middle;
        ratios[p] = library[p] / ours[p];
    }
    for (int64_t c = 0; c < m * n; c++)
        assert_float_equal(y[c], theirs[c], 1e-3);
    double ratio = median(ratios), gigaflops = 2e-9 * (double)(m * e * n);
    print_message("%s, %s: %.1f GFLOP/s, sgemm %.1f, ratio %.3f\n", isa->name, shape->name,
                  gigaflops / median(ours), gigaflops / median(library), ratio);
    free(x), free(w), free(y), free(theirs), free(packed), free(scratch);
    return ratio;
}

static void reaches_the_rate_of_sgemm(void **state)
{
    (void)state;
    static const struct shape shapes[] = {
        {"BERT-base, 128 rows", 128, 768, 768}, {"BERT-base, 384 rows", 384, 768, 768},
        {"BERT-base, 512 rows", 512, 768, 768}, {"ViT-B/16, 197 rows", 197, 768, 768},
        {"MiniLM, 128 rows", 128, 384, 384},
    };
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
        skip();
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        assert_true(rate_against_sgemm(&attn_flash_f32_avx2, &shapes[s]) >= 0.9);
        if (__builtin_cpu_supports("avx512f"))
            assert_true(rate_against_sgemm(&attn_flash_f32_avx512, &shapes[s]) >= 0.9);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(reaches_the_rate_of_sgemm)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
