/* SPDX-License-Identifier: Apache-2.0 */
/* bound_roundings.c - how the sums over the keys of a row, and the division by one of them, grow
 * relative errors. */
#include <math.h>

#include "reference/bound_parts.h"

/* Weights are resolved by a sum of 1 from this many u on: two units in its last place. */
#define GRID 4.0

/* Where a chain may lose more than this, sums may stall. */
#define STALLS 0.0625

/* On generic fills: does the sum of p round at random, with errors of mean zero? Keys whose weight
 * is below a few units in the last place of the sum may be lost in it, all in one direction: so may
 * all keys if their weights are alike to that accuracy. Returns what such keys may lose of a sum of
 * 1: of an addition never more than its smaller operand, nor than u of the result. A key that is
 * added in parts may lose that of each. */
static double lost_keys(const struct ref_arithmetic *a, const struct ref_softmax *row,
                        const double *p)
{
    const double parts = fmax(row->copies, 1.0);
    const double u = parts * a->u_op * (1.0 + a->u_op), grid = parts * GRID * a->u_op;
    double small = 0.0, all = 0.0, apart = 0.0, last = INFINITY, resolved = 0.0;

    for (int64_t t = 0; t < row->n; t++) {
        const double most = p[t] < u ? p[t] : u;
        const bool seen = p[t] >= grid;
        all += most;
        small += seen ? 0.0 : most;
        apart += seen ? fmin(fabs(p[t] - last), grid) : 0.0;
        resolved += seen;
        last = seen ? p[t] : last;
    }
    return apart >= 0.5 * grid * resolved ? small : all;
}

/* A lower limit of a sum of 1 in floating point, in any order: if it does not exceed x, then each
 * key adds at least its weight less u x, for each part of it; see BOUND.md 4. */
static double least_sum(const struct ref_arithmetic *a, const struct ref_softmax *row,
                        const double *p)
{
    double low = 0.0, high = 1.0, sink = 1.0;

    for (int64_t t = 0; t < row->n; t++)
        sink -= p[t];
    for (int step = 0; step < 30; step++) {
        const double x = 0.5 * (low + high), lost = fmax(row->copies, 1.0) * a->u_op * x;
        double sum = fmax(sink - lost, 0.0);
        for (int64_t t = 0; t < row->n; t++)
            sum += p[t] > lost ? p[t] - lost : 0.0;
        if (sum * (1.0 - 1e-12) >= x)
            low = x;
        else
            high = x;
    }
    return low;
}

/* Sets product, lost and summing: how sums over the keys grow errors. */
static void bound_sums(const struct ref_arithmetic *a, const struct ref_softmax *row,
                       const double *p, double rescales, struct ref_row_bound *bound)
{
    /* A split is divided by its sum and multiplied by its weight. */
    const double length = bound->chain + (a->splits > 0.0 ? 3.0 : 1.0);
    const double once = -log1p(-a->u_op), likely = ref_growth_likely(a, length);
    double sum;

    bound->product = ref_growth_worst(a, length);
    bound->summing = bound->chain * once;
    if (p && !a->truncates && bound->summing > STALLS)
        bound->summing = fmin(bound->summing, fmax(-log(least_sum(a, row, p)), REF_LOG_MOST_SUM) +
                                                  (rescales + a->splits + 1.0) * once);
    if (!a->generic || !(likely < bound->product) || (!p && bound->summing > STALLS))
        return;
    bound->lost = p ? lost_keys(a, row, p) : 0.0;
    sum = ref_growth_likely(a, bound->chain);
    sum += bound->lost * (1.0 + sum);
    bound->product = likely;
    if (sum < 1.0)
        bound->summing = fmin(bound->summing, -log1p(-sum));
}

void ref_bound_roundings(const struct ref_arithmetic *a, const struct ref_softmax *row,
                         const double *p, struct ref_row_bound *bound)
{
    double terms = (double)row->n + (row->sink ? 1.0 : 0.0);
    double rescales = a->chain > 0.0 && a->tiles <= 1.0 ? 0.0 : ref_rescales(a, row);

    bound->chain = (a->chain > 0.0 ? a->chain : terms) + rescales + a->splits;
    if (a->copies > 1.0) /* the reference's own chain */
        bound->chain = fmax(bound->chain, terms + 1.0);
    bound_sums(a, row, p, rescales, bound);
    bound->quotient = expm1(bound->summing) * (1.0 + a->three) + a->three;
    if (a->splits > 0.0) {
        double log_splits = log(a->splits);
        double merged = a->u_op * (4.0 * (fabs(row->lse) + row->offset) + 5.0 * log_splits) +
                        ref_growth(a, a->splits) + a->e_exp +
                        (a->e_log + a->three + a->e_arg) * log_splits;
        bound->quotient += expm1(merged) * (1.0 + bound->quotient);
    }
    if (a->u_pv > 0.0 && a->denominator != 1) /* the sum may be of rounded p */
        bound->quotient += a->u_pv * (1.0 + bound->quotient);
    if (row->dropout) {
        double kept = a->u_op * row->dropout_p / (1.0 - row->dropout_p);
        bound->dropout = a->three + (1.0 + a->three) * ref_divide(kept, fmax(1.0 - kept, 0.0));
    }
}
