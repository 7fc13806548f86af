/* SPDX-License-Identifier: Apache-2.0 */
/* test_statistics.c - against tables, hand-made samples, and simulated coverage. */
#include "results/statistics.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "results/figures.h"

static void near(double got, double want, double tolerance)
{
    if (!(fabs(got - want) <= tolerance))
        fail_msg("got %.9g, want %.9g", got, want);
}

static void student_quantiles(void **state)
{
    (void)state;
    /* Published tables, to the digits of exact evaluation. */
    static const struct {
        double df, t;
    } table[] = {{1, 12.706204736}, {2, 4.302652730},  {3, 3.182446305},  {4, 2.776445105},
                 {5, 2.570581836},  {8, 2.306004135},  {10, 2.228138852}, {30, 2.042272456},
                 {60, 2.000297822}, {120, 1.979930405}};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        near(attn_student_t975(table[i].df), table[i].t, 1e-6);
    near(attn_student_t975(1e6), 1.959966, 2e-6);
    near(attn_student_t975(1e12), 1.959963985, 1e-6);
    assert_true(attn_student_t975(0.2) == attn_student_t975(1));
    /* Real degrees of freedom: continuous and falling. */
    double before = attn_student_t975(1);
    for (double df = 1.05; df < 40; df += 0.05) {
        double t = attn_student_t975(df);
        assert_true(t < before);
        before = t;
    }
}

static void quantiles(void **state)
{
    (void)state;
    const double x[] = {1, 2, 4, 8};
    near(attn_quantile_sorted(x, 4, 0), 1, 0);
    near(attn_quantile_sorted(x, 4, 0.5), 3, 1e-15);
    near(attn_quantile_sorted(x, 4, 0.25), 1.75, 1e-15);
    near(attn_quantile_sorted(x, 4, 0.9), 6.8, 1e-14);
    near(attn_quantile_sorted(x, 4, 1), 8, 0);
    near(attn_quantile_sorted(x, 1, 0.9), 1, 0);
    assert_true(isnan(attn_quantile_sorted(x, 0, 0.5)));
}

static void summary_by_hand(void **state)
{
    (void)state;
    const double r0[] = {3, 1, 2}, r1[] = {4}, r2[] = {8, 2};
    const double *samples[] = {r0, r1, NULL, r2};
    const size_t counts[] = {3, 1, 0, 2};
    struct attn_summary s;
    assert_int_equal(attn_summarise(samples, counts, 4, &s), 0);
    assert_int_equal(s.n, 6);
    assert_int_equal(s.rounds, 3);
    near(s.min, 1, 0);
    near(s.median, 2.5, 0);
    near(s.p10, 1.5, 1e-15);
    near(s.p90, 6, 1e-15);
    /* Round medians 2, 4, 5: log mean 1.22963, sd 0.47781; t 4.30265 on 2 df. */
    near(s.lo, 1.043595, 1e-6);
    near(s.hi, 11.207477, 1e-5);

    assert_int_equal(attn_summarise(samples, counts, 1, &s), 0);
    assert_int_equal(s.rounds, 1);
    assert_true(s.lo == 0 && isinf(s.hi));
    const size_t none[] = {0, 0};
    assert_int_equal(attn_summarise(samples, none, 2, &s), -1);
}

static void order_statistics(void **state)
{
    (void)state;
    double values[20];
    const double *samples[20];
    size_t counts[20];
    for (size_t i = 0; i < 20; i++) {
        values[i] = (double)(20 - i);
        samples[i] = &values[i];
        counts[i] = 1;
    }
    struct attn_summary s;
    /* k of the published table (95 %): n=6 -> 1, 8 -> 1, 9 -> 2, 12 -> 3, 20 -> 6. */
    static const size_t table[][2] = {{6, 1}, {8, 1}, {9, 2}, {12, 3}, {20, 6}};
    for (size_t i = 0; i < 5; i++) {
        size_t n = table[i][0], k = table[i][1];
        assert_int_equal(attn_summarise(samples, counts, n, &s), 0);
        near(s.lo, (double)(20 - n + k), 0);
        near(s.hi, (double)(20 - k + 1), 0);
    }
}

/* SplitMix64 (Steele, Lea and Flood 2014); Box-Muller. */
static double normal(uint64_t *state)
{
    double u[2];
    for (int i = 0; i < 2; i++) {
        uint64_t z = *state += 0x9e3779b97f4a7c15u;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        u[i] = ((double)((z ^ (z >> 31)) >> 11) + 0.5) * 0x1p-53;
    }
    return sqrt(-2 * log(u[0])) * cos(2 * 3.14159265358979323846 * u[1]);
}

/* Share of simulated runs whose interval holds the true median, 1. Each round has drift of its own
 * and three samples with noise. */
static double coverage(size_t rounds, int runs, uint64_t seed)
{
    int hit = 0;
    for (int run = 0; run < runs; run++) {
        double values[16][3];
        const double *samples[16];
        size_t counts[16];
        for (size_t r = 0; r < rounds; r++) {
            double drift = 0.05 * normal(&seed);
            for (int i = 0; i < 3; i++)
                values[r][i] = exp(drift + 0.01 * normal(&seed));
            samples[r] = values[r];
            counts[r] = 3;
        }
        struct attn_summary s;
        assert_int_equal(attn_summarise(samples, counts, rounds, &s), 0);
        hit += s.lo <= 1 && 1 <= s.hi;
    }
    return (double)hit / runs;
}

static void interval_coverage(void **state)
{
    (void)state;
    static const size_t rounds[] = {2, 3, 5, 6, 7, 9, 12};
    for (size_t i = 0; i < sizeof rounds / sizeof rounds[0]; i++) {
        double share = coverage(rounds[i], 2000, 7 + i);
        /* Order statistics are conservative: up to 98.4 % at 7 rounds. */
        if (share < 0.935 || share > (rounds[i] < 6 ? 0.98 : 0.992))
            fail_msg("%zu rounds: coverage %.3f", rounds[i], share);
    }
}

static void ratio_by_hand(void **state)
{
    (void)state;
    const double a[] = {1, 1, 1}, b[] = {2, 2, 2};
    struct attn_ratio r = attn_ratio_of(a, 3, b, 3);
    near(r.ratio, 2, 1e-12);
    near(r.lo, 2, 1e-12);
    near(r.hi, 2, 1e-12);
    r = attn_ratio_of(a, 1, b, 3);
    near(r.ratio, 2, 1e-12);
    assert_true(r.lo == 0 && isinf(r.hi));
    /* Equal spread of logs 0, 0.1, 0.2 on both sides: df 4, half 2.776445 * sqrt(2 * 0.01/3). */
    double x[3], y[3];
    for (int i = 0; i < 3; i++) {
        x[i] = exp(0.1 * i);
        y[i] = 3 * x[i];
    }
    r = attn_ratio_of(x, 3, y, 3);
    double half = 2.776445105 * sqrt(0.02 / 3);
    near(log(r.lo), log(3) - half, 1e-7);
    near(log(r.hi), log(3) + half, 1e-7);
    struct attn_ratio swapped = attn_ratio_of(y, 3, x, 3);
    near(swapped.lo * r.hi, 1, 1e-12);
}

static void ratio_coverage(void **state)
{
    (void)state;
    int hit = 0;
    uint64_t seed = 99;
    for (int run = 0; run < 2000; run++) {
        double a[5], b[4];
        for (int i = 0; i < 5; i++)
            a[i] = exp(0.02 * normal(&seed));
        for (int i = 0; i < 4; i++)
            b[i] = 1.5 * exp(0.06 * normal(&seed));
        struct attn_ratio r = attn_ratio_of(a, 5, b, 4);
        hit += r.lo <= 1.5 && 1.5 <= r.hi;
    }
    assert_in_range(hit, 1860, 1960);
}

static void slopes(void **state)
{
    (void)state;
    const double x[] = {1, 2, 4, 8}, y[] = {3, 12, 48, 192}, same[] = {3, 3, 3, 3};
    near(attn_loglog_slope(x, y, 4), 2, 1e-12);
    near(attn_loglog_slope(x, same, 4), 0, 1e-12);
    assert_true(isnan(attn_loglog_slope(same, y, 4)));
    assert_true(isnan(attn_loglog_slope(x, y, 1)));
}

/* p-values from published tables of t; and p is 0.05 where the interval ends at the margin. */
static void p_of_ratios(void **state)
{
    (void)state;
    struct attn_ratio r = {.ratio = exp(0.2228138852), .error = 0.1, .df = 10};
    near(attn_ratio_p(&r, 0), 0.05, 1e-9);
    near(attn_ratio_p(&r, expm1(0.2228138852 - 0.1812461123)), 0.1, 1e-8);
    near(attn_ratio_p(&r, 0.25), 1, 0);
    r.ratio = exp(-0.3169272673);
    near(attn_ratio_p(&r, 0), 0.01, 1e-9);

    const double a[] = {1, 1.02, 0.97, 1.01}, b[] = {1.3, 1.36, 1.31};
    r = attn_ratio_of(a, 4, b, 3);
    near(attn_ratio_p(&r, r.lo - 1), 0.05, 1e-9);
    r = attn_ratio_of(b, 3, a, 4);
    near(attn_ratio_p(&r, 1 / r.hi - 1), 0.05, 1e-9);

    r = attn_ratio_of(a, 1, b, 3); /* an error that is not known proves nothing */
    near(attn_ratio_p(&r, 0), 1, 0);
    r = attn_ratio_of(a, 0, b, 3);
    assert_true(isnan(r.ratio));
    near(attn_ratio_p(&r, 0), 1, 0);
}

/* By hand: the least of p n / rank from the largest p down, in the order that p came in. */
static void false_discoveries(void **state)
{
    (void)state;
    static const double p[] = {0.01, 0.04, 0.9, 0.032, 0.005},
                        want[] = {0.025, 0.05, 0.9, 0.05, 0.025};
    double adjusted[5];
    assert_int_equal(attn_false_discovery(p, 5, adjusted), 0);
    for (int i = 0; i < 5; i++)
        near(adjusted[i], want[i], 1e-15);
    /* In place, and alone. */
    double in_place[] = {0.5, 0.5};
    assert_int_equal(attn_false_discovery(in_place, 2, in_place), 0);
    near(in_place[0], 0.5, 0);
    near(in_place[1], 0.5, 0);
    assert_int_equal(attn_false_discovery(p, 1, adjusted), 0);
    near(adjusted[0], 0.01, 0);
    assert_int_equal(attn_false_discovery(NULL, 0, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(student_quantiles), cmocka_unit_test(quantiles),
        cmocka_unit_test(summary_by_hand),   cmocka_unit_test(order_statistics),
        cmocka_unit_test(interval_coverage), cmocka_unit_test(ratio_by_hand),
        cmocka_unit_test(ratio_coverage),    cmocka_unit_test(slopes),
        cmocka_unit_test(p_of_ratios),       cmocka_unit_test(false_discoveries),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
