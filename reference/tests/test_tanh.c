/* SPDX-License-Identifier: Apache-2.0 */
/* test_tanh.c - tanh of doubles against MPFR, and where it must be exact. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <mpfr.h>
#include <string.h>

#include "reference/tanh.h"

/* Largest error measured: 1.86 ulp, on a finer grid. The bound counts with 2 (REFERENCE_E_TANH of bound.c). */
#define MOST_ULP 2.0
#define COUNT    200000

static double ulps_off(double got, double x)
{
    mpfr_t truth;
    double ulp, error;
    int exponent;

    mpfr_init2(truth, 160);
    mpfr_set_d(truth, x, MPFR_RNDN);
    mpfr_tanh(truth, truth, MPFR_RNDN);
    frexp(mpfr_get_d(truth, MPFR_RNDN), &exponent);
    ulp = ldexp(1.0, exponent - 53);
    mpfr_sub_d(truth, truth, got, MPFR_RNDN);
    error = fabs(mpfr_get_d(truth, MPFR_RNDN)) / ulp;
    mpfr_clear(truth);
    return error;
}

/* Evenly over exponents from 2^-30 on, where the series in x alone decides, and over [-21, 21]. */
static void agrees_with_mpfr(void **state)
{
    static double x[COUNT], y[COUNT];
    double worst = 0.0;

    (void)state;
    for (int i = 0; i < COUNT; i++) {
        double at = (i + 0.5) / COUNT;
        x[i] = i % 2 ? exp2(-30.0 + 35.0 * at) : 42.0 * at - 21.0;
        x[i] = i % 4 == 1 ? -x[i] : x[i];
    }
    ref_tanh(x, COUNT, y);
    for (int i = 0; i < COUNT; i++)
        worst = fmax(worst, ulps_off(y[i], x[i]));
    print_message("largest error: %.3f ulp\n", worst);
    assert_true(worst > 0.4 && worst <= MOST_ULP);
}

static void knows_its_edges(void **state)
{
    const double x[] = {0.0,        -0.0,  INFINITY, -INFINITY, 0x1p-1074,
                        -0x1p-1022, 1e300, -40.0,    0x1p-60,   -0x1p-500};
    const double want[] = {0.0,        -0.0, 1.0,  -1.0,    0x1p-1074,
                           -0x1p-1022, 1.0,  -1.0, 0x1p-60, -0x1p-500};
    double y[10], nan = NAN;

    (void)state;
    ref_tanh(x, 10, y);
    for (int i = 0; i < 10; i++)
        if (memcmp(&y[i], &want[i], sizeof(double)) != 0)
            fail_msg("tanh(%a) is %a", x[i], y[i]);
    ref_tanh(&nan, 1, &nan);
    assert_true(isnan(nan));
}

/* Whatever way the loop goes through them, vectors or not. */
static void an_element_stands_alone(void **state)
{
    double x[13], y[13], one;

    (void)state;
    for (int i = 0; i < 13; i++)
        x[i] = 0.37 * i - 2.0;
    ref_tanh(x, 13, y);
    for (int i = 0; i < 13; i++) {
        ref_tanh(&x[i], 1, &one);
        assert_true(one == y[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_mpfr),
        cmocka_unit_test(knows_its_edges),
        cmocka_unit_test(an_element_stands_alone),
    };

    return cmocka_run_group_tests_name("tanh", tests, NULL, NULL);
}
