/* SPDX-License-Identifier: Apache-2.0 */
/* statistics.h - order statistics and intervals for timings. Each function names the source of its
 * formula. Nothing allocates more than a sorted copy. All times are finite and > 0. */
#ifndef ATTN_STATISTICS_H
#define ATTN_STATISTICS_H

#include <stddef.h>

struct attn_summary {
    double median, min, p10, p90; /* of all samples */
    double lo, hi;                /* 95 % interval of the median over rounds */
    size_t n;                     /* samples */
    size_t rounds;                /* rounds with samples: the units of replication */
};

/* Summarises samples grouped by round: samples[r][0..count[r]). The interval is for the median of
 * round medians. Rounds are the unit of replication, because samples within a round share its
 * drift. 2 to 5 rounds: Student's t of the logarithms; 6 or more: order statistics. The interval
 * always contains the median. One round has no interval: lo = 0, hi = INFINITY (recorded as null).
 * Rounds without samples are ignored. Returns 0, or -1: no samples, or no memory. */
int attn_summarise(const double *const *samples, const size_t *counts, size_t rounds,
                   struct attn_summary *out);

/* Ascending. The values hold no NAN. */
void attn_sort_doubles(double *values, size_t n);

/* Sorts the values and returns the quantile 0.5. */
double attn_median(double *values, size_t n);

/* Quantile of a sorted array, linear between order statistics (Hyndman and Fan 1996, type 7). */
double attn_quantile_sorted(const double *sorted, size_t n, double q);

/* Ratio of two sets of round medians (b over a) with its 95 % interval, from logarithms and
 * Welch's t. With fewer than two rounds on a side the interval is (0, inf). */
struct attn_ratio {
    double ratio, lo, hi;
    double error, df; /* standard error of ln ratio, degrees of freedom; error < 0: unknown */
};
struct attn_ratio attn_ratio_of(const double *a, size_t na, const double *b, size_t nb);

/* Two-sided p-value of "the ratio is within the margin": the interval of attn_ratio_of is wholly
 * beyond 1 + margin, or below 1 / (1 + margin), where it is below 0.05. 1 where the error is not
 * known. With margin 0 it is that of Welch's test. */
double attn_ratio_p(const struct attn_ratio *ratio, double margin);

/* The t that |T| exceeds with probability `tail` (0 < tail < 1), T of Student's distribution with
 * `df` degrees of freedom (df >= 1, real). */
double attn_student_tail(double tail, double df);

/* P(|T| > |t|): the p-value of a two-sided t test. */
double attn_student_p(double t, double df);

/* Two-sided 97.5 % quantile of Student's t with `df` degrees of freedom (df >= 1, real). */
double attn_student_t975(double df);

/* Least-squares slope of log y over log x; NAN with fewer than two distinct x. */
double attn_loglog_slope(const double *x, const double *y, size_t n);

#endif
