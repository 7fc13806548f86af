/* SPDX-License-Identifier: Apache-2.0 */
/* test_paired.c - the looks at paired ratios, by hand, and the sequence with its confirmation.
 * test_figures.py simulates the rates of false verdicts. */
#include "results/paired.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "results/figures.h"

static void near(double got, double want, double tolerance)
{
    if (!(fabs(got - want) <= tolerance))
        fail_msg("got %.12g, want %.12g", got, want);
}

/* Eight pairs: the trimmed mean of 2 to 7 is 4.5. The Winsorised values 2 2 3 4 5 6 7 7 have the
 * sum of squares 30 around 4.5, so the error is sqrt(30 / (6 * 5)) = 1; t of 5 degrees of freedom
 * exceeds 7.2098 with 0.08 %, and 3.3649 with 2 %. */
static void look_by_hand(void **state)
{
    (void)state;
    const double ratios[] = {8, 1, 7, 2, 6, 3, 5, 4}, far[] = {800, 1, 7, 2, 6, 3, 5, -4};
    const struct attn_paired_look look = attn_paired_judge(ratios, 8, 0.5);
    near(look.estimate, 4.5, 1e-14);
    near(look.lo, 4.5 - 7.209814, 1e-6);
    near(look.hi, 4.5 + 7.209814, 1e-6);
    near(look.least, 0.5 + 7.209814 + 3.364930, 1e-6);
    assert_int_equal(look.pairs, 8);
    assert_int_equal(look.verdict, ATTN_PAIRED_GO_ON);
    /* One far value at each end changes nothing but the next one to it. */
    const struct attn_paired_look robust = attn_paired_judge(far, 8, 0.5);
    near(robust.estimate, (1 + 2 + 3 + 5 + 6 + 7) / 6.0, 1e-14);
    assert_true(robust.hi < 15);
}

/* n pairs around `centre`, half of them `off` above and half below. */
static const double *around(double centre, double off, size_t n)
{
    static double ratios[32];
    for (size_t i = 0; i < n; i++)
        ratios[i] = centre + (i % 2 ? off : -off);
    return ratios;
}

static void verdicts(void **state)
{
    (void)state;
    const double m = ATTN_PAIRED_MARGIN;
    near(exp(m), 1.03, 1e-15);
    assert_int_equal(attn_paired_judge(around(0, 0.001, 6), 6, m).verdict, ATTN_PAIRED_SAME);
    assert_int_equal(attn_paired_judge(around(0.05, 0.001, 6), 6, m).verdict, ATTN_PAIRED_SLOWER);
    assert_int_equal(attn_paired_judge(around(-0.05, 0.001, 6), 6, m).verdict, ATTN_PAIRED_FASTER);
    assert_int_equal(attn_paired_judge(around(m, 0.001, 6), 6, m).verdict, ATTN_PAIRED_GO_ON);
    assert_int_equal(attn_paired_judge(around(m, 0.001, 16), 16, m).verdict, ATTN_PAIRED_UNCLEAR);
    assert_int_equal(attn_paired_judge(around(m, 0.001, 20), 20, m).verdict, ATTN_PAIRED_UNCLEAR);
    /* No verdict between the looks, and none before the first. */
    for (size_t n = 0; n <= ATTN_PAIRS_MOST; n++) {
        const struct attn_paired_look look = attn_paired_judge(around(0.05, 1e-4, n), n, m);
        const bool looks = n >= ATTN_PAIRS_LEAST && n % 2 == 0;
        assert_int_equal(look.verdict, looks ? ATTN_PAIRED_SLOWER : ATTN_PAIRED_GO_ON);
        assert_int_equal(isfinite(look.hi), n >= ATTN_PAIRS_LEAST);
        assert_int_equal(isfinite(look.least), n >= ATTN_PAIRS_LEAST);
    }
    /* Equal ratios have an interval without width. */
    assert_int_equal(attn_paired_judge(around(0, 0, 6), 6, 0).verdict, ATTN_PAIRED_SAME);
    double bad[6] = {0, 0, 0, NAN, 0, 0};
    assert_int_equal(attn_paired_judge(bad, 6, m).verdict, ATTN_PAIRED_UNCLEAR);
    assert_true(isinf(attn_paired_judge(bad, 6, m).hi));
}

/* Adds pairs around `first`, and around `second` once the series is repeated. */
static struct attn_paired_look run(double first, double second, double off, size_t *pairs)
{
    struct attn_paired p;
    attn_paired_begin(&p, ATTN_PAIRED_MARGIN);
    for (*pairs = 0; p.verdict == ATTN_PAIRED_GO_ON; ++*pairs) {
        assert_in_range(*pairs, 0, 2 * ATTN_PAIRS_MOST - 1);
        const double centre = p.again ? second : first;
        attn_paired_add(&p, centre + (p.n[p.again] % 2 ? off : -off));
    }
    assert_int_equal(p.n[0] + p.n[1], *pairs);
    assert_int_equal(attn_paired_add(&p, 9), p.verdict);
    return attn_paired_result(&p);
}

static void confirmation(void **state)
{
    (void)state;
    size_t pairs;
    assert_int_equal(run(0, 9, 0.001, &pairs).verdict, ATTN_PAIRED_SAME);
    assert_int_equal(pairs, 6);
    assert_int_equal(run(-0.1, 9, 0.001, &pairs).verdict, ATTN_PAIRED_FASTER);
    assert_int_equal(pairs, 6);
    /* `slower` takes a second series, whose figures count. */
    struct attn_paired_look look = run(0.2, 0.1, 0.001, &pairs);
    assert_int_equal(look.verdict, ATTN_PAIRED_SLOWER);
    assert_int_equal(pairs, 12);
    near(look.estimate, 0.1, 1e-12);
    /* The second series disagrees: no verdict is sure. */
    assert_int_equal(run(0.1, 0, 0.001, &pairs).verdict, ATTN_PAIRED_UNCLEAR);
    assert_int_equal(pairs, 12);
    assert_int_equal(run(0.1, -0.1, 0.001, &pairs).verdict, ATTN_PAIRED_UNCLEAR);
    assert_int_equal(run(0.1, ATTN_PAIRED_MARGIN, 0.001, &pairs).verdict, ATTN_PAIRED_UNCLEAR);
    assert_int_equal(pairs, 6 + 16);
    assert_int_equal(run(0, 0, 1, &pairs).verdict, ATTN_PAIRED_UNCLEAR);
    assert_int_equal(pairs, 16);
    assert_string_equal(attn_paired_name(ATTN_PAIRED_GO_ON), "go on");
    assert_string_equal(attn_paired_name(ATTN_PAIRED_UNCLEAR), "unclear");
}

static void cycles(void **state)
{
    (void)state;
    const double a[] = {1, 2, 4, 8, 1}, b[] = {1.1, 2.1, 4.4, 800, 1.2};
    near(attn_paired_ratio(a, b, 5), log(1.1), 1e-15); /* 1.1 1.05 1.1 100 1.2 */
    near(attn_paired_ratio(b, a, 5), -log(1.1), 1e-15);
    const double zero[] = {1, 0};
    assert_true(isnan(attn_paired_ratio(a, zero, 2)));
    assert_true(isnan(attn_paired_ratio(zero, a, 2)));
    assert_true(isnan(attn_paired_ratio(a, b, 0)));
    /* One of ten that was not timed, and two. */
    double more[10] = {1.1, 1.1, 1.1, 0, 1.1, 1.1, 1.2, 1.1, 1.0, 1.1};
    static const double ones[10] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    near(attn_paired_ratio(ones, more, 10), log(1.1), 1e-15);
    more[8] = 0;
    assert_true(isnan(attn_paired_ratio(ones, more, 10)));
}

static void turns_have_room_for_what_differs_between_runs(void **state)
{
    (void)state;
    double values[] = {1.02, 1, 0.99, 1.01, 1, 0.98, 1.03}, again[7], one[] = {2};
    struct attn_interval rounds, turns;
    memcpy(again, values, sizeof again);
    attn_rounds_summarise(values, 7, &rounds);
    attn_turns_summarise(again, 7, &turns);
    near(turns.value, rounds.value, 0);
    near(rounds.lo - turns.lo, 0.005, 1e-15);
    near(turns.hi - rounds.hi, 0.005, 1e-15);
    attn_turns_summarise(one, 1, &turns);
    assert_true(!isfinite(turns.hi));
    attn_turns_summarise((double[]){1, 1, 1}, 3, &turns);
    assert_true(turns.lo == 1 && turns.hi == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(look_by_hand),
        cmocka_unit_test(verdicts),
        cmocka_unit_test(confirmation),
        cmocka_unit_test(cycles),
        cmocka_unit_test(turns_have_room_for_what_differs_between_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
