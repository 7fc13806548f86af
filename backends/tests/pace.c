/* SPDX-License-Identifier: Apache-2.0 */
/* pace.c - two pieces of work in turns. */
#include "pace.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

double pace_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double pace_median(double *numbers, int n)
{
    qsort(numbers, (size_t)n, sizeof(*numbers), ascending);
    return numbers[n / 2];
}

static double timed(const struct pace_work *work)
{
    double start = pace_seconds();
    work->run(work->context);
    return pace_seconds() - start;
}

double pace_ratio(const struct pace_work *ours, const struct pace_work *peer, int pairs,
                  double seconds[2])
{
    double ratio[PACE_MOST_PAIRS], mine[PACE_MOST_PAIRS], theirs[PACE_MOST_PAIRS];
    assert_in_range(pairs, 1, PACE_MOST_PAIRS);
    timed(ours);
    timed(peer);
    for (int p = 0; p < pairs; p++) {
        if (p % 2)
            mine[p] = timed(ours);
        theirs[p] = timed(peer);
        if (p % 2 == 0)
            mine[p] = timed(ours);
        ratio[p] = theirs[p] / mine[p];
    }
    if (seconds) {
        seconds[0] = pace_median(mine, pairs);
        seconds[1] = pace_median(theirs, pairs);
    }
    return pace_median(ratio, pairs);
}

double pace_least(double bar)
{
    return getenv("ATTNBENCH_BARS") ? bar : 0.85 * bar;
}

void pace_hold(double (*measure)(void *context), void *context, double bar)
{
    double least = pace_least(bar), best = 0;
    for (int attempt = 0; attempt < PACE_ATTEMPTS && best < least; attempt++)
        best = fmax(best, measure(context));
    if (best < least)
        print_error("%.3f of the peer's speed at best, %.3f are asked for\n", best, least);
    mock_assert(best >= least, "best >= least", __FILE__, __LINE__);
}
