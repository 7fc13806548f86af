/* SPDX-License-Identifier: Apache-2.0 */
/* rates.h - what a few trials say about a rate, and the least slowdown that the rule of paired.h
 * finds with pairs of a given spread. */
#ifndef ATTN_RATES_H
#define ATTN_RATES_H

#include <stddef.h>

/* P(X >= k) and P(X <= k) for X of a binomial distribution: n trials, each with probability p. */
double attn_binomial_at_least(size_t k, size_t n, double p);
double attn_binomial_at_most(size_t k, size_t n, double p);

/* Clopper and Pearson 1934: after k of n the rate is at most, or at least, this, with 95 %
 * confidence (one-sided). 1 and 0 without trials. */
double attn_rate_most(size_t k, size_t n);
double attn_rate_least(size_t k, size_t n);

/* The smallest slowdown (a logarithm above `margin`) that whole series of pairs, with their
 * confirmation, call `slower` in 95 % of simulations. `off`: n deviations of pairs from the mean of
 * their comparison, drawn with replacement. NAN with fewer than 6. */
double attn_paired_resolves(const double *off, size_t n, double margin);

#endif
