/* SPDX-License-Identifier: Apache-2.0 */
/* figures.c - intervals from order statistics, medians over rounds, Benjamini-Hochberg. */
#include "results/figures.h"

#include <math.h>
#include <stdlib.h>

#include "results/statistics.h"

/* Each limit of an interval of 95 % misses with half of the rest. */
#define LIMIT_MISS 0.025

static double binomial(size_t n, size_t k, double q)
{
    const double nn = (double)n, kk = (double)k;
    return exp(lgamma(nn + 1) - lgamma(kk + 1) - lgamma(nn - kk + 1) + kk * log(q) +
               (nn - kk) * log1p(-q));
}

/* The lower limit: a value that is above the q-quantile with LIMIT_MISS. The order statistic x_(r),
 * counted from 1, is above it with F(r-1), F of Bin(n, q). Between the last r that misses less and
 * the next one, the limit is interpolated as Nyblom does ("Note on interpolated order statistics",
 * Statistics & Probability Letters 14, 1992, (3)). at(sorted, n, i) is x_(i). */
static double lower_limit(const double *sorted, size_t n, double q,
                          double (*at)(const double *, size_t, size_t))
{
    double before = 0, misses = 0; /* of x_(r) and x_(r+1) */
    size_t r = 0;
    for (; r < n; r++) {
        before = misses;
        misses += binomial(n, r, q);
        if (misses > LIMIT_MISS)
            break;
    }
    if (r == 0 || r >= n)
        return r == 0 ? -INFINITY : at(sorted, n, n);
    const double rr = (double)r, nn = (double)n;
    const double part =
        1 / (1 + rr * (1 - q) / ((nn - rr) * q) * (misses - LIMIT_MISS) / (LIMIT_MISS - before));
    return (1 - part) * at(sorted, n, r) + part * at(sorted, n, r + 1);
}

static double from_below(const double *sorted, size_t n, size_t i)
{
    (void)n;
    return sorted[i - 1];
}

/* The mirror image: the upper limit of q is minus the lower limit of 1 - q of minus the values. */
static double from_above(const double *sorted, size_t n, size_t i)
{
    return -sorted[n - i];
}

struct attn_interval attn_quantile_interval(const double *sorted, size_t n, double q)
{
    return (struct attn_interval){.value = attn_quantile_sorted(sorted, n, q),
                                  .lo = lower_limit(sorted, n, q, from_below),
                                  .hi = -lower_limit(sorted, n, 1 - q, from_above),
                                  .n = n};
}

/* Student's t of the logarithms of n values. */
static void interval_by_t(const double *values, size_t n, struct attn_interval *out)
{
    double mean = 0, squares = 0;
    for (size_t i = 0; i < n; i++)
        mean += log(values[i]) / (double)n;
    for (size_t i = 0; i < n; i++)
        squares += (log(values[i]) - mean) * (log(values[i]) - mean);
    const double half = attn_student_tail(2 * LIMIT_MISS, (double)(n - 1)) *
                        sqrt(squares / ((double)(n - 1) * (double)n));
    out->lo = exp(mean - half);
    out->hi = exp(mean + half);
}

void attn_rounds_summarise(double *values, size_t n, struct attn_interval *out)
{
    attn_sort_doubles(values, n);
    *out = attn_quantile_interval(values, n, 0.5);
    if (n < 2)
        return;
    if (!(isfinite(out->lo) && isfinite(out->hi)))
        interval_by_t(values, n, out);
    out->lo = fmin(out->lo, out->value);
    out->hi = fmax(out->hi, out->value);
}

void attn_turns_summarise(double *values, size_t n, struct attn_interval *out)
{
    static const double between_runs = 0.005;
    attn_rounds_summarise(values, n, out);
    if (isfinite(out->lo) && isfinite(out->hi) && out->lo < out->hi) {
        out->lo -= between_runs * out->value;
        out->hi += between_runs * out->value;
    }
}

struct ranked {
    double p;
    size_t at;
};

static int compare_ranked(const void *a, const void *b)
{
    const double x = ((const struct ranked *)a)->p, y = ((const struct ranked *)b)->p;
    return (x > y) - (x < y);
}

/* Benjamini and Hochberg, "Controlling the false discovery rate", J. R. Statist. Soc. B 57, 1995:
 * the running minimum, from the largest p down, of p_(i) n / i. */
int attn_false_discovery(const double *p, size_t n, double *adjusted)
{
    struct ranked *order = calloc(n ? n : 1, sizeof *order);
    if (!order)
        return -1;
    for (size_t i = 0; i < n; i++)
        order[i] = (struct ranked){p[i], i};
    qsort(order, n, sizeof *order, compare_ranked);
    double least = 1;
    for (size_t i = n; i-- > 0;) {
        least = fmin(least, order[i].p * (double)n / (double)(i + 1));
        adjusted[order[i].at] = least;
    }
    free(order);
    return 0;
}
