/* SPDX-License-Identifier: Apache-2.0 */
/* test_blas_core.c - a processor with AVX2 does not run OpenBLAS's kernels for SSE3. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cblas.h>
#include <cmocka.h>

#include "../blas.h"

enum { N = 96 };

#if defined(__x86_64__)
static float product_of_ones(void)
{
    static float a[N * N], c[N * N];
    for (int i = 0; i < N * N; i++)
        a[i] = 1;
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, N, N, N, 1, a, N, a, N, 0, c, N);
    return c[N * N - 1];
}
#endif

/* As if the processor were unknown to OpenBLAS. */
static void chooses_again(void **state)
{
    (void)state;
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (!openblas_get_corename || !gotoblas_dynamic_init || !gotoblas_dynamic_quit ||
        !__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
        skip();
    setenv("OPENBLAS_CORETYPE", "Prescott", 1);
    gotoblas_dynamic_quit();
    gotoblas_dynamic_init();
    assert_string_equal(openblas_get_corename(), "Prescott");
    attn_blas_choose_core(); /* the user's word stands */
    assert_string_equal(openblas_get_corename(), "Prescott");
    unsetenv("OPENBLAS_CORETYPE");
    attn_blas_choose_core();
    assert_string_not_equal(openblas_get_corename(), "Prescott");
    assert_null(getenv("OPENBLAS_CORETYPE"));
    assert_true(product_of_ones() == N);
#else
    skip();
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chooses_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
