/* SPDX-License-Identifier: Apache-2.0 */
/* bound_out.c - E of BOUND.md for an element of out, and for a weight that is itself a result. */
#include <math.h>

#include "reference/bound_parts.h"

/* May a backend's weight of a key whose v is infinite have underflowed: 0 * Inf is NaN, not Inf. */
static bool may_vanish(const struct ref_arithmetic *a, const struct ref_softmax *row,
                       const struct ref_row_bound *bound, const struct ref_keys *keys,
                       const struct ref_scratch *x, int64_t c)
{
    const double least = fmax(a->omega, 2.0 * a->eta_p);

    for (int64_t t = 0; t < row->n; t++) {
        const double s = x->logit[t];
        double shift, relative;
        if (!isinf(keys->v[x->key[t] * keys->dv + c]) || x->keep[t] == 0.0)
            continue;
        ref_bound_term(a, row, bound->rise, s, x->wrong[t], &shift, &relative);
        if (!(exp(s - row->max - row->log_sum - shift) * (1.0 - relative) >= least))
            return true;
    }
    return false;
}

/* May a sum of p v on its way, or out itself, leave the range of its type. `size` bounds the sum of
 * P |v|, `sum` is that of |v|, `high` the largest |v|. */
static bool out_overflows(const struct ref_arithmetic *a, const struct ref_softmax *row,
                          const struct ref_row_bound *bound, double size, double sum, double high,
                          double out)
{
    double largest_p = a->normalised ? 1.0 + bound->stored : bound->peak * (1.0 + a->u_p);
    double most = size, product = ref_growth_values(a, bound->product);

    if (!a->normalised)
        most = sum * bound->peak * (1.0 + a->u_p);
    if (!a->normalised && a->tiles <= 1.0 && a->splits == 0.0)
        most = fmin(most, size * row->sum * bound->peak);
    if (a->partial > 0.0 &&
        !(fmin(most, a->partial_terms * high * largest_p) * (1.0 + a->partial) <=
          a->partial_largest))
        return true;
    return !(most * (1.0 + product) <= a->largest && out <= a->largest);
}

/* What the rounding of stored p, rho, makes of out where the denominator may sum p as stored: it
 * divides by a sum that is wrong by as much as all of them, and meets v - out in error by e1. */
static double stored_error(const struct ref_arithmetic *a, const struct ref_row_bound *bound,
                           double rho, double e1)
{
    if (a->denominator == 1)
        return rho;
    return ref_divide(rho + bound->stored * e1, fmax(1.0 - bound->stored, 0.0));
}

/* What partial sums of p v lose to underflow, before `product` grows it: a product each; where
 * subnormals are flushed, a result more, and their operands. `sum` is that of |v|, and dropout
 * magnifies what comes before it. */
static double lost_partial(const struct ref_arithmetic *a, const struct ref_softmax *row,
                           const struct ref_row_bound *bound, double sum)
{
    double keys = row->dropout ? (double)row->n / (1.0 - row->dropout_p) : (double)row->n;

    return bound->partial * (a->ftz ? 3.0 * keys + sum : keys);
}

double ref_bound_column(const struct ref_arithmetic *a, const struct ref_softmax *row,
                        const struct ref_row_bound *bound, const struct ref_column *x, double out,
                        double *rest)
{
    double product = ref_growth_values(a, bound->product);
    double kept = product + bound->dropout * (1.0 + product);
    /* Dropout magnifies what underflows before it, a flushed v too. */
    double underflows = row->dropout ? bound->chain / (1.0 - row->dropout_p) : bound->chain;
    /* The weights of a backend sum to 1, too, however wrong they are. */
    double e1 = fmin(x->e1, x->far), big = fmin(x->size, x->high * (1.0 + bound->stored));
    double rho = fmin(x->rho, bound->stored * (x->high + fabs(out)));
    double others = kept * big + bound->lost * (1.0 + kept) * x->high +
                    bound->underflow * (x->sum + underflows);
    double e, quotient;

    if (a->partial > 0.0)
        others += (1.0 + product) * lost_partial(a, row, bound, x->sum);
    e = e1 + stored_error(a, bound, rho, e1) + others;
    quotient = bound->quotient * (fabs(out) + e);
    if (rest)
        *rest = others + quotient;
    e += quotient;
    return out_overflows(a, row, bound, big, x->sum, x->high, fabs(out) + e) ? INFINITY : e;
}

void ref_bound_out(const struct ref_arithmetic *a, const struct ref_softmax *row,
                   const struct ref_row_bound *bound, const struct ref_keys *keys,
                   struct ref_scratch *x, const double *out, double *error)
{
    ref_bound_columns(a, row, bound, keys, x, out);
    ref_bound_stored(a, row, keys, x, out);
    for (int64_t c = 0; c < keys->dv; c++) {
        const struct ref_column column = {.e1 = x->column[0][c],
                                          .size = x->column[1][c],
                                          .sum = x->column[2][c],
                                          .rho = x->column[3][c],
                                          .far = x->column[4][c],
                                          .high = x->column[5][c]};
        /* What stands in column 5 then is for ref_bound_join. */
        error[c] = ref_bound_column(a, row, bound, &column, out[c], &x->column[5][c]);
        if (isinf(out[c]))
            error[c] = may_vanish(a, row, bound, keys, x, c) ? INFINITY : 0.0;
    }
}

double ref_bound_weight(const struct ref_arithmetic *a, const struct ref_row_bound *bound,
                        const struct ref_scratch *x, int64_t t)
{
    double p = x->p[t], others = fmax(bound->shared - x->growth[t], 0.0);
    double e1 = fmin(p * others + (1.0 - p) * x->growth[t], fmax(p, 1.0 - p)), e;
    double others_stored = fmax(bound->stored - x->store[t], 0.0), rho = x->store[t];

    if (a->denominator != 1)
        rho = p * others_stored + (a->denominator == 2 ? 1.0 - p : 1.0) * x->store[t];
    e = e1 + stored_error(a, bound, rho, e1) +
        bound->product * fmin(x->upper[t] + x->store[t], 1.0 + bound->stored) +
        bound->underflow * (1.0 + bound->chain);
    return e + bound->quotient * (p + e);
}
