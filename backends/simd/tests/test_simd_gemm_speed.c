/* SPDX-License-Identifier: Apache-2.0 */
/* test_simd_gemm_speed.c - projections in f32 beside sgemm, which packs w in each call: it has no
 * other way; and beside sgemv where there is one row. */
#include "gemm_speed.h"

#include <cblas.h>

static void sgemm(const struct product_pair *pair)
{
    const int m = pair->shape->rows, e = pair->shape->inner, n = pair->shape->columns;
    if (m == 1)
        cblas_sgemv(CblasRowMajor, CblasNoTrans, n, e, 1, pair->w, e, pair->x, 1, 0, pair->theirs,
                    1);
    else
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, m, n, e, 1, pair->x, e, pair->w, e, 0,
                    pair->theirs, n);
}

static void reaches_the_rate_of_sgemm(void **state)
{
    (void)state;
    const struct attn_flash_isa *const isas[] = {&attn_flash_avx2, &attn_flash_avx512};
    const int there[] = {__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"),
                         __builtin_cpu_supports("avx512f")};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (int i = 0; i < 2; i++) {
            struct product_pair pair = {.isa = isas[i],
                                        .shape = &shapes[s],
                                        .dtype = ATTN_F32,
                                        .library = sgemm,
                                        .name = "sgemm"};
            if (!there[i])
                continue;
            pair_open(&pair);
            hold_rate(&pair, 0.95, 1e-3);
            pair_close(&pair);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(reaches_the_rate_of_sgemm)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
