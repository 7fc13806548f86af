/* SPDX-License-Identifier: Apache-2.0 */
/* paired.c - the intervals of paired log ratios, and the sequence of looks at them. */
#include "results/paired.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "results/statistics.h"

/* The tail of one look. Six looks together then miss the true value in 0.3 to 0.9 % of series, by
 * the distribution of the pairs: normal, heavy-tailed, skewed, contaminated. The skewed one
 * decides: with 0.001 it misses 1.09 % (tests/test_figures.py --full). */
#define LOOK_TAIL 0.0008

/* Of `least`. Two series must find the effect, and the spread of each is known roughly: with 0.02
 * an effect of the mean `least` is found in 95 % on normal pairs, in 90 % on heavy-tailed ones. */
#define POWER_TAIL 0.02

/* Where the host of a virtual machine takes a processor away, the kernel may take that off the time
 * of a batch that ran later, down to nothing. More such cycles than this are another matter. */
#define UNTIMED_SHARE 0.1

const char *attn_paired_name(enum attn_paired_verdict verdict)
{
    static const char *const names[] = {"go on", "same", "faster", "slower", "unclear"};
    return (unsigned)verdict < sizeof names / sizeof names[0] ? names[verdict] : "?";
}

/* How many of n sorted values are dropped at each end: one, which an outlier costs, and two of 16.
 */
static size_t dropped(size_t n)
{
    return n < 2 * 8 ? 1 : n / 8;
}

/* Trimmed mean with its standard error from the Winsorised variance (Tukey and McLaughlin, "Less
 * vulnerable confidence and significance procedures for location based on a single sample",
 * Sankhya A 25, 1963). Returns the degrees of freedom. */
static double trimmed_mean(const double *sorted, size_t n, double *mean, double *error)
{
    const size_t g = dropped(n), kept = n - 2 * g;
    double sum = 0, winsorised = 0, squares = 0;
    for (size_t i = 0; i < n; i++) {
        const double x = sorted[i < g ? g : i >= n - g ? n - g - 1 : i];
        winsorised += x / (double)n;
        if (i >= g && i < n - g)
            sum += x;
    }
    for (size_t i = 0; i < n; i++) {
        const double x = sorted[i < g ? g : i >= n - g ? n - g - 1 : i];
        squares += (x - winsorised) * (x - winsorised);
    }
    *mean = sum / (double)kept;
    *error = sqrt(squares / ((double)kept * (double)(kept - 1)));
    return (double)(kept - 1);
}

static enum attn_paired_verdict verdict_of(const struct attn_paired_look *look, double margin)
{
    if (look->lo > margin)
        return ATTN_PAIRED_SLOWER;
    if (look->hi < -margin)
        return ATTN_PAIRED_FASTER;
    if (look->lo >= -margin && look->hi <= margin)
        return ATTN_PAIRED_SAME;
    return look->pairs < ATTN_PAIRS_MOST ? ATTN_PAIRED_GO_ON : ATTN_PAIRED_UNCLEAR;
}

struct attn_paired_look attn_paired_judge(const double *ratios, size_t n, double margin)
{
    double sorted[ATTN_PAIRS_MOST], error;
    n = n > ATTN_PAIRS_MOST ? ATTN_PAIRS_MOST : n;
    struct attn_paired_look look = {ATTN_PAIRED_GO_ON, NAN, -INFINITY, INFINITY, INFINITY, n};
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(ratios[i])) {
            look.verdict = ATTN_PAIRED_UNCLEAR;
            return look;
        }
        sorted[i] = ratios[i];
    }
    if (n < ATTN_PAIRS_LEAST)
        return look;
    attn_sort_doubles(sorted, n);
    const double df = trimmed_mean(sorted, n, &look.estimate, &error);
    const double half = attn_student_tail(LOOK_TAIL, df) * error;
    look.lo = look.estimate - half;
    look.hi = look.estimate + half;
    look.least = margin + half + attn_student_tail(POWER_TAIL, df) * error;
    if ((n - ATTN_PAIRS_LEAST) % ATTN_PAIRS_STEP == 0)
        look.verdict = verdict_of(&look, margin);
    return look;
}

void attn_paired_begin(struct attn_paired *p, double margin)
{
    memset(p, 0, sizeof *p);
    p->margin = margin;
    for (int s = 0; s < 2; s++)
        p->look[s] = attn_paired_judge(NULL, 0, margin);
}

enum attn_paired_verdict attn_paired_add(struct attn_paired *p, double ratio)
{
    if (p->verdict != ATTN_PAIRED_GO_ON)
        return p->verdict;
    const int s = p->again;
    p->ratios[s][p->n[s]++] = ratio;
    p->look[s] = attn_paired_judge(p->ratios[s], p->n[s], p->margin);
    const enum attn_paired_verdict says = p->look[s].verdict;
    if (says == ATTN_PAIRED_GO_ON)
        return says;
    if (s == 0 && says == ATTN_PAIRED_SLOWER)
        p->again = 1;
    else
        p->verdict = s == 0 || says == ATTN_PAIRED_SLOWER ? says : ATTN_PAIRED_UNCLEAR;
    return p->verdict;
}

struct attn_paired_look attn_paired_result(const struct attn_paired *p)
{
    struct attn_paired_look look = p->look[p->again && p->n[1] >= ATTN_PAIRS_LEAST];
    look.verdict = p->verdict;
    return look;
}

size_t attn_paired_logs(const double *a, const double *b, size_t cycles, double *logs)
{
    size_t n = 0;
    for (size_t i = 0; i < cycles; i++)
        if (a[i] > 0 && b[i] > 0 && isfinite(a[i]) && isfinite(b[i]))
            logs[n++] = log(b[i] / a[i]);
    attn_sort_doubles(logs, n);
    return n;
}

double attn_paired_ratio(const double *a, const double *b, size_t cycles)
{
    double *logs =
        cycles && cycles < (size_t)-1 / sizeof *logs ? malloc(cycles * sizeof *logs) : NULL;
    if (!logs)
        return NAN;
    const size_t n = attn_paired_logs(a, b, cycles, logs);
    const double median = n > 0 && (double)(cycles - n) <= UNTIMED_SHARE * (double)cycles
                              ? attn_quantile_sorted(logs, n, 0.5)
                              : (double)NAN;
    free(logs);
    return median;
}
