/* SPDX-License-Identifier: Apache-2.0 */
/* pace.h - for tests of speed: the ratio of two pieces of work that alternate in one process. No
 * test compares a time with a number. */
#ifndef ATTN_TEST_PACE_H
#define ATTN_TEST_PACE_H

enum { PACE_MOST_PAIRS = 101, PACE_ATTEMPTS = 5 };

struct pace_work {
    void (*run)(void *context);
    void *context;
};

/* The speed of `ours` relative to `peer`. Both run once to warm up. Then neighbouring runs
 * alternate, and the result is the median of the ratios of their times. Times are processor time of
 * the process, so waiting for a processor does not count. Writes the medians of both times to
 * seconds[2], unless it is NULL. */
double pace_ratio(const struct pace_work *ours, const struct pace_work *peer, int pairs,
                  double seconds[2]);

/* The median of n numbers. Sorts them in ascending order. */
double pace_median(double *numbers, int n);

/* Processor seconds of the process. */
double pace_seconds(void);

/* The ratio that a test requires for the bar `bar`. With ATTNBENCH_BARS in the environment, as in
 * the full tier, it is the bar. Otherwise it is 0.85 of the bar: CI runs on a shared machine, where
 * the same code may be 8 % off in one process and right in the next. CI only has to catch lost
 * speed. */
double pace_least(double bar);

/* Measures up to PACE_ATTEMPTS times, until the ratio is at least pace_least(bar). Fails the test
 * if none is. */
void pace_hold(double (*measure)(void *context), void *context, double bar);

#endif
