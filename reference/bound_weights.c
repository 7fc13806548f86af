/* SPDX-License-Identifier: Apache-2.0 */
/* bound_weights.c - E of a row whose weights are a function of their score alone: nothing divides
 * them, and no error is common to all. BOUND.md 7 derives it. */
#include <string.h>

#include "reference/bound_parts.h"
#include "reference/weight.h"

/* How far a weight p = f(s) may be off, before it is stored. */
static double weight_error(const struct ref_arithmetic *a, const struct ref_weight *weight,
                           double s, double ds, double p)
{
    double off, relative;

    if (!isfinite(p)) /* what it makes of out is judged by its class */
        return 0.0;
    if (isinf(s))
        return a->e_f * p + a->a_f;
    off = weight->spread(a, s, ds);
    relative = a->e_f + weight->relative(a, s, ds);
    return off + relative * (p + off) + a->a_f;
}

/* Weights as parts of their sum, for what a sum loses of small ones. NULL: they have no sum. */
static const double *shares(const struct ref_softmax *row, struct ref_scratch *x, double sum)
{
    if (!(sum > 0.0 && sum <= DBL_MAX))
        return NULL;
    for (int64_t t = 0; t < row->n; t++)
        x->weight[t] = x->p[t] / sum;
    return x->weight;
}

void ref_bound_weights(const struct ref_arithmetic *a, const struct ref_softmax *row,
                       const struct ref_weight *weight, struct ref_scratch *x,
                       struct ref_row_bound *bound)
{
    const double *part;
    double sum = 0.0;

    *bound = (struct ref_row_bound){0};
    for (int64_t t = 0; t < row->n; t++) {
        const double p = x->p[t];
        x->growth[t] = weight_error(a, weight, x->logit[t], x->wrong[t], p);
        x->upper[t] = isfinite(p) ? p + x->growth[t] : 0.0;
        x->store[t] = a->u_p > 0.0 ? fmax(a->u_p * x->upper[t], a->eta_p) : 0.0;
        bound->peak = ref_larger(bound->peak, x->upper[t] + x->store[t]);
        sum += p;
        x->logit[t] = p > 0.0 && isfinite(p) ? log(p) : 0.0; /* what p is stored alike with */
    }
    bound->overflows = !(bound->peak <= fmin(a->p_largest, a->largest));
    if (a->u_p > 0.0)
        ref_bound_order(a, row, x);
    part = shares(row, x, sum);
    ref_bound_roundings(a, row, part, bound);
    bound->lost *= part ? sum : 0.0;
}

/* May a weight that meets an infinite v have underflowed: 0 * Inf is NaN, not Inf. */
static bool may_vanish(const struct ref_arithmetic *a, const struct ref_softmax *row,
                       const struct ref_keys *keys, const struct ref_scratch *x, int64_t c)
{
    const double least = fmax(a->omega, 2.0 * a->eta_p);

    for (int64_t t = 0; t < row->n; t++)
        if (isinf(keys->v[x->key[t] * keys->dv + c]) && x->keep[t] != 0.0 &&
            !(x->p[t] - x->growth[t] >= least))
            return true;
    return false;
}

/* May a sum of p v on its way, or out itself, leave the range of its type. */
static bool sum_overflows(const struct ref_arithmetic *a, const struct ref_row_bound *bound,
                          const struct ref_column *x, double product, double out)
{
    if (a->partial > 0.0 &&
        !(fmin(x->size, a->partial_terms * x->high * bound->peak) * (1.0 + a->partial) <=
          a->partial_largest))
        return true;
    return !(x->size * (1.0 + product) <= a->largest && out <= a->largest);
}

/* E of one column of out. `sum` is that of p as stored. */
static double column_error(const struct ref_arithmetic *a, const struct ref_softmax *row,
                           const struct ref_row_bound *bound, const struct ref_column *x,
                           double sum, double out)
{
    const double product = ref_growth_values(a, bound->product);
    const double kept = product + bound->dropout * (1.0 + product);
    /* Dropout magnifies what underflows before it. */
    const double more = row->dropout ? 1.0 / (1.0 - row->dropout_p) : 1.0;
    /* p, v that p multiplies, and each step of the sum. */
    const double lost = x->sum + more * (sum + bound->chain);
    double e = x->e1 + x->rho + kept * x->size + bound->lost * (1.0 + kept) * x->high +
               2.0 * a->omega * lost;

    if (a->partial > 0.0)
        e += (1.0 + product) * a->partial_omega * more *
             (a->ftz ? 3.0 * (double)row->n + x->sum + sum : (double)row->n);
    return sum_overflows(a, bound, x, product, fabs(out) + e) ? INFINITY : e;
}

void ref_bound_weighed(const struct ref_arithmetic *a, const struct ref_softmax *row,
                       const struct ref_row_bound *bound, const struct ref_keys *keys,
                       struct ref_scratch *x, const double *out, double *error)
{
    double *zero = x->out, sum = 0.0; /* out is in the result's own place here */

    memset(zero, 0, (size_t)keys->dv * sizeof(*zero));
    /* Errors meet v itself: no sum of weights is known. */
    ref_bound_columns(a, row, bound, keys, x, zero);
    ref_bound_stored(a, row, keys, x, zero);
    for (int64_t t = 0; t < row->n; t++)
        sum += x->upper[t] + x->store[t];
    for (int64_t c = 0; c < keys->dv; c++) {
        const struct ref_column column = {.e1 = x->column[0][c],
                                          .size = x->column[1][c],
                                          .sum = x->column[2][c],
                                          .rho = x->column[3][c],
                                          .high = x->column[5][c]};
        error[c] = column_error(a, row, bound, &column, sum, out[c]);
        if (isinf(out[c]))
            error[c] = may_vanish(a, row, keys, x, c) ? INFINITY : 0.0;
    }
}
