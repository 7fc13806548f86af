/* SPDX-License-Identifier: Apache-2.0 */
/* changes.h - change points of a series of measurements: where its mean has changed for good.
 *
 * The method is that of Fleming et al., "Hunter: Using Change Point Detection to Hunt for
 * Performance Regressions", ICPE 2023, which Apache Otava implements:
 *   1. A window slides over the series, by half its length or to the last change found in it.
 *      Within it, E-divisive (Matteson and James, "A Nonparametric Approach for Multiple Change
 *      Point Analysis of Multivariate Data", 2014) proposes the split of largest divergence. A
 *      split counts if Student's t test of its two sides says p <= 10 * rule.p. This is repeated
 *      for the parts, until the best split of all parts does not count.
 *   2. Of all these points the weakest is dropped, and the sides of its neighbours grow, until all
 *      that are left have p < rule.p and a change above rule.margin.
 * Otava keeps stale figures of the point before a dropped one. We compute both neighbours anew, so
 * that every point returned meets the rule. Otherwise both give the same points. */
#ifndef ATTN_CHANGES_H
#define ATTN_CHANGES_H

#include <stddef.h>

enum { ATTN_CHANGE_WINDOW = 50, ATTN_CHANGE_WINDOW_MAX = 256 };
#define ATTN_CHANGE_P 0.001

struct attn_change_rule {
    size_t window; /* values, 2 to ATTN_CHANGE_WINDOW_MAX */
    double p;      /* > 0, < 1 */
    double margin; /* changes of the mean up to this share, either way, are none; >= 0 */
};

struct attn_change {
    size_t at;            /* the first value after the change */
    double before, after; /* means, each up to the next change or the end */
    double p;             /* that both sides have the same mean (Student's t) */
};

/* Finds the change points of values[0..n), in order. The values are finite and > 0. `changes` has
 * room for n. Returns their number. */
size_t attn_changes_find(const double *values, size_t n, const struct attn_change_rule *rule,
                         struct attn_change *changes);

#endif
