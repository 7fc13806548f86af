/* SPDX-License-Identifier: Apache-2.0 */
/* test_blas.c - the blas backend against a double loop, its exp against libm, and what it refuses.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "../tests/common.h"
#include "blas.h"

static const struct test_spec own[] = {
    {.name = "several blocks of rows", .sq = 67, .sk = 9000, .dq = 3, .b = 1, .with = WITH_LSE},
};

static const struct test_spec refused[] = {
    {.name = "f16", .dtype = ATTN_F16, .sq = 2, .sk = 2, .dq = 2},
    {.name = "bf16", .dtype = ATTN_BF16, .sq = 2, .sk = 2, .dq = 2},
    {.name = "determinism of a threaded BLAS",
     .flags = ATTN_FLAG_DETERMINISTIC,
     .sq = 2,
     .sk = 2,
     .dq = 2},
};

/* Error of exp over a fine sample of its range: no multiple of a power of two, so that mantissas of
 * all kinds occur. */
static void exp_keeps_its_bound(void **state)
{
    (void)state;
    double worst = 0;
    for (uint32_t bits = 0x33000000u; bits <= 0x42aeac4fu; bits += 97) { /* 2^-25 .. 87.3365 */
        float x;
        memcpy(&x, &bits, sizeof(x));
        worst = fmax(worst, fabs((double)attn_blas_exp(-x) / exp(-(double)x) - 1));
    }
    print_message("exp: %.3f of what is declared\n", worst / ATTN_BLAS_E_EXP);
    assert_true(worst <= ATTN_BLAS_E_EXP);
    assert_true(attn_blas_exp(0) == 1 && attn_blas_exp(-0.0f) == 1);
    assert_true(attn_blas_exp(-87.4f) == 0 && attn_blas_exp(-1e30f) == 0);
    assert_true(attn_blas_exp(-INFINITY) == 0);
    assert_true(isnan(attn_blas_exp(NAN)));
}

static void knows_what_blas_can_take(void **state)
{
    (void)state;
    struct attn_blas_matrix m;
    assert_int_equal(attn_blas_matrix(4, 3, 5, 1, &m), 0);
    assert_true(!m.transposed && m.ld == 5);
    assert_int_equal(attn_blas_matrix(4, 3, 1, 4, &m), 0);
    assert_true(m.transposed && m.ld == 4);
    assert_int_equal(attn_blas_matrix(1, 3, 0, 7, &m), 0);
    assert_true(m.transposed && m.ld == 7);
    assert_int_equal(attn_blas_matrix(0, 3, 3, 1, &m), 0);
    assert_int_equal(attn_blas_matrix(4, 3, 0, 1, &m), -1); /* one row for all */
    assert_int_equal(attn_blas_matrix(4, 3, 6, 2, &m), -1); /* every second column */
    assert_int_equal(attn_blas_matrix(4, 3, (int64_t)1 << 31, 1, &m), -1);
}

int main(void)
{
    const uint32_t dtypes[] = {ATTN_F32, ATTN_F64, 0};
    struct test_subject blas = {.backend = attn_plugin.backends[0],
                                .dtypes = dtypes,
                                .own = own,
                                .n_own = sizeof(own) / sizeof(own[0]),
                                .refused = refused,
                                .n_refused = sizeof(refused) / sizeof(refused[0])};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exp_keeps_its_bound),
        cmocka_unit_test(knows_what_blas_can_take),
    };
    int failed = test_common(&blas);
    return failed + cmocka_run_group_tests(tests, NULL, NULL);
}
