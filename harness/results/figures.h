/* SPDX-License-Identifier: Apache-2.0 */
/* figures.h - the low quantile of a timing with its interval, and many verdicts at once. */
#ifndef ATTN_FIGURES_H
#define ATTN_FIGURES_H

#include <stddef.h>

/* Which quantile of the batches of a round stands for it. Noise only adds time, so a low quantile
 * says what the code takes; the least batch of all would depend on how many there are. */
#define ATTN_LOW_QUANTILE 0.1

/* Something else may slow a core down for a while, and kinds of code by different factors. So
 * figures are made of the undisturbed rounds, where there are so many. With fewer, all rounds
 * count. */
enum { ATTN_UNDISTURBED_ROUNDS_LEAST = 3 };

/* 95 % */
struct attn_interval {
    double value;  /* the quantile */
    double lo, hi; /* -INFINITY, INFINITY: too few values for a limit on this side */
    size_t n;      /* independent values */
};

/* The q-quantile of the distribution that n independent values, sorted, come from, with the
 * interval between interpolated order statistics (Nyblom 1992; Hettmansperger and Sheather 1986 for
 * the median). No distribution is assumed. Both limits are values that were observed, or between
 * two of them. A low quantile of 0.1 has a lower limit from 36 values on, the median from 6. n
 * >= 1. */
struct attn_interval attn_quantile_interval(const double *sorted, size_t n, double q);

/* The median of n positive values, n >= 1, one of each round, which are the unit as in
 * attn_summarise. 6 rounds or more: the interval of attn_quantile_interval, within the values seen;
 * 2 to 5: Student's t of the logarithms, which may pass them (cut there, it would cover 75 to 87 %
 * with 2 and 3 rounds); 1: none. The interval holds the value. Sorts the values. */
void attn_rounds_summarise(double *values, size_t n, struct attn_interval *out);

/* The same for figures of rounds of turns, whose intervals are so narrow that the difference
 * between two runs of the program counts: 0.5 % on either side is added for it
 * (harness/bench/README.md has what was measured). Nothing is added if all values are alike, as
 * those of an anchor to itself. */
void attn_turns_summarise(double *values, size_t n, struct attn_interval *out);

/* Benjamini and Hochberg 1995: adjusted[i] is the least rate of false discoveries at which p[i] of
 * n is one. Returns 0, or -1: no memory. p may equal adjusted. */
int attn_false_discovery(const double *p, size_t n, double *adjusted);

#endif
