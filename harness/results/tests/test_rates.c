/* SPDX-License-Identifier: Apache-2.0 */
/* test_rates.c - limits of rates beside those of SciPy, and what the rule resolves. */
#include "results/rates.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "results/paired.h"

static void near(double got, double want, double tolerance)
{
    if (!(fabs(got - want) <= tolerance))
        fail_msg("got %.12g, want %.12g", got, want);
}

/* scipy.stats.binom.cdf and .sf, scipy.stats.beta.ppf(0.95, k + 1, n - k) and
 * scipy.stats.beta.ppf(0.05, k, n - k + 1). */
static void limits_of_a_rate(void **state)
{
    (void)state;
    near(attn_binomial_at_most(20, 24, 0.95), 0.029782496908, 1e-11);
    near(attn_binomial_at_least(2, 24, 0.01), 0.023854431118, 1e-11);
    near(attn_binomial_at_least(0, 24, 0.01), 1, 0);
    near(attn_binomial_at_least(25, 24, 0.01), 0, 0);
    near(attn_rate_most(0, 24), 0.117346156155, 1e-11);
    near(attn_rate_most(1, 10), 0.394163302437, 1e-11);
    near(attn_rate_most(10, 10), 1, 0);
    near(attn_rate_most(0, 0), 1, 0);
    near(attn_rate_least(23, 24), 0.817107530244, 1e-11);
    near(attn_rate_least(10, 10), 0.741134449107, 1e-11);
    near(attn_rate_least(0, 0), 0, 0);
}

/* Normal quantiles as deviations: `least` of a look at 16 such pairs is what 95 % find. */
static void resolution(void **state)
{
    (void)state;
    static const double quantiles[] = {-1.863, -1.318, -1.010, -0.776, -0.579, -0.402,
                                       -0.237, -0.078, 0.078,  0.237,  0.402,  0.579,
                                       0.776,  1.010,  1.318,  1.863};
    enum { N = sizeof quantiles / sizeof quantiles[0] };
    double off[N], wide[N];
    for (size_t i = 0; i < N; i++) {
        off[i] = 0.01 * quantiles[i];
        wide[i] = 0.02 * quantiles[i];
    }
    const double m = ATTN_PAIRED_MARGIN;
    const double least = attn_paired_judge(off, N, m).least - m;
    const double found = attn_paired_resolves(off, N, m) - m;
    assert_true(found > 0.7 * least && found < 1.3 * least);
    /* Noise twice as wide hides effects twice as large. */
    near(attn_paired_resolves(wide, N, m) - m, 2 * found, 0.02 * found);
    const double none[ATTN_PAIRS_LEAST] = {0};
    near(attn_paired_resolves(none, ATTN_PAIRS_LEAST, m), m, 2e-5);
    assert_true(isnan(attn_paired_resolves(none, ATTN_PAIRS_LEAST - 1, m)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(limits_of_a_rate),
                                       cmocka_unit_test(resolution)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
