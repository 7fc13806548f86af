/* SPDX-License-Identifier: Apache-2.0 */
/* test_pace.c - what tests of speed stand on: twice the work is half the speed, whichever side has
 * it, and what is too slow fails. */
#include "pace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static void spin(void *context)
{
    const long *turns = context;
    for (volatile long turn = 0; turn < *turns; turn++)
        continue;
}

static bool is_about(double number, double least, double most)
{
    return number > least && number < most;
}

/* Times of a side are medians by themselves, so a clock that changes halfway may give them apart.
 */
static void twice_the_work_is_half_the_speed(void **state)
{
    (void)state;
    long once = 100000, twice = 2 * once;
    const struct pace_work less = {spin, &once}, more = {spin, &twice};
    bool right = false;
    for (int attempt = 0; attempt < PACE_ATTEMPTS && !right; attempt++) {
        double seconds[2];
        const double slower = pace_ratio(&more, &less, 41, seconds),
                     faster = pace_ratio(&less, &more, 41, NULL);
        print_message("%.3f and %.3f of the peer's speed, %.3f of its time\n", slower, faster,
                      seconds[0] / seconds[1]);
        right = is_about(slower, 0.4, 0.6) && is_about(faster, 1.7, 2.4) &&
                is_about(seconds[0] / seconds[1], 1.7, 2.4);
    }
    assert_true(right);
}

/* The n-th ratio of some. */
static double next(void *context)
{
    const double **ratio = context;
    return *(*ratio)++;
}

static void the_best_attempt_counts(void **state)
{
    (void)state;
    const double ratios[] = {0.5, 0.94, 0.96, 0}, *at = ratios;
    setenv("ATTNBENCH_BARS", "1", 1);
    pace_hold(next, &at, 0.95);
    assert_ptr_equal(at, ratios + 3); /* and no more are made than it takes */
    assert_true(pace_least(0.95) == 0.95);
    unsetenv("ATTNBENCH_BARS");
    at = ratios;
    pace_hold(next, &at, 0.95);
    assert_ptr_equal(at, ratios + 2);
}

static void what_is_too_slow_fails(void **state)
{
    (void)state;
    const double ratios[PACE_ATTEMPTS + 1] = {0.5, 0.6, 0.7, 0.6, 0.5, 1}, *at = ratios;
    expect_assert_failure(pace_hold(next, &at, 0.95));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(twice_the_work_is_half_the_speed),
        cmocka_unit_test(the_best_attempt_counts),
        cmocka_unit_test(what_is_too_slow_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
