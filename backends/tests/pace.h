/* SPDX-License-Identifier: Apache-2.0 */
/* pace.h - for tests of speed: two pieces of work in one process, in turns, as a ratio. No test
 * asks for a time. */
#ifndef ATTN_TEST_PACE_H
#define ATTN_TEST_PACE_H

enum { PACE_MOST_PAIRS = 101, PACE_ATTEMPTS = 5 };

struct pace_work {
    void (*run)(void *context);
    void *context;
};

/* The speed of `ours` as a part of that of `peer`: the median, over neighbouring runs of the two in
 * alternating order, of the ratio of their times, after a run of each that warms up. Processor
 * time of the process: waiting for a processor is no work's doing. Writes the medians of both
 * times to seconds[2], where it is not NULL. */
double pace_ratio(const struct pace_work *ours, const struct pace_work *peer, int pairs,
                  double seconds[2]);

/* The median of n numbers, which are left in ascending order. */
double pace_median(double *numbers, int n);

/* Processor seconds of the process. */
double pace_seconds(void);

/* What is asked of a ratio whose bar is `bar`: with ATTNBENCH_BARS in the environment, as in the
 * full tier, the bar. Else 0.85 of it: CI asks on a shared machine, where the same code lies up to
 * 8 % off in one process and right in the next, and what it has to catch is lost speed. */
double pace_least(double bar);

/* Measures up to PACE_ATTEMPTS times, until the ratio is at least pace_least(bar), and fails the
 * test where none is. */
void pace_hold(double (*measure)(void *context), void *context, double bar);

#endif
