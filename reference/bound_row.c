/* SPDX-License-Identifier: Apache-2.0 */
/* bound_row.c - E of BOUND.md for one softmax row: out, lse, weights. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "reference/job.h"

#define LOG2_E 1.44269504088896340736

/* How wrong p of one term may be: by exp(d) (1 + r), |d| <= shift and |r| <= relative. */
struct wrong {
    double shift, relative;
};

/* Error of its score, of every exp it goes through, of the merging of splits. */
static struct wrong term_error(const struct ref_arithmetic *a, const struct ref_softmax *row,
                               double rise, double s, double ds)
{
    double x = row->max - s + rise + ds + 2.0 * a->tau;
    struct wrong e = {ds + a->three * x, (1.0 + a->tiles) * a->e_exp + a->e_arg * x};

    /* The lse of the split that holds this key lies between s and the row's lse. */
    if (a->splits > 0.0) {
        double far = x + row->log_sum, log_n = log((double)row->n + 1.0) + a->tau;
        e.shift += 4.0 * a->u_op * (fmax(fabs(s), fabs(row->lse)) + ds + rise) +
                   (2.0 * a->u_op + a->e_log) * log_n + a->three * far;
        e.relative += a->e_exp + a->e_arg * far;
    }
    return e;
}

/* Sums that the terms of a row are divided by, and the largest |log| of what one is wrong by. */
struct totals {
    double lower; /* D = sum p exp(-shift) (1 - relative) */
    double upper; /* sum p exp(w) */
    double worst;
};

/* Adds a term: growth = p expm1(w) and upper = p exp(w), w = shift + relative, in logarithms where
 * p may have underflowed or exp(w) overflow, so that no 0 * inf arises. */
static void add_term(const struct ref_arithmetic *a, const struct ref_softmax *row, double rise,
                     double s, double ds, struct totals *totals, double *growth, double *upper)
{
    const struct wrong e = term_error(a, row, rise, s, ds);
    double log_p = s - row->max - row->log_sum, w = e.shift + e.relative;

    *upper = exp(log_p + w);
    *growth = w < 1.0 ? exp(log_p) * expm1(w) : *upper;
    totals->upper += *upper;
    totals->lower += exp(log_p - e.shift) * fmax(1.0 - e.relative, 0.0);
    totals->worst = fmax(totals->worst, e.shift - log1p(-fmin(e.relative, 1.0)));
}

/* A quotient that overflows, or has nothing left below, stands for "no bound"; as a finite number
 * it still gives 0 where it multiplies an exact 0. */
static double divide(double x, double by)
{
    return fmin(x / by, DBL_MAX);
}

/* Orders the keys by bin of frac(log2 p): keys whose stored p round alike. A counting sort. */
static void order_by_bin(const struct ref_arithmetic *a, const struct ref_softmax *row,
                         struct ref_scratch *x)
{
    const double *s = x->score[2];
    double shift = row->max + (a->normalised ? row->log_sum : 0.0);
    /* growth and upper are in use; magnitude is free once ds is known. */
    double *bin = x->magnitude;

    memset(x->start, 0, (size_t)(a->bins + 1) * sizeof(*x->start));
    for (int64_t t = 0; t < row->n; t++) {
        double l = (s[x->key[t]] - shift) * LOG2_E;
        bin[t] = fmin(floor((l - floor(l)) * a->bins), a->bins - 1);
        x->start[(int)bin[t] + 1]++;
    }
    for (int b = 0; b < a->bins; b++)
        x->start[b + 1] += x->start[b];
    for (int64_t t = 0; t < row->n; t++)
        x->order[x->start[(int)bin[t]]++] = t;
    /* start[b] is now one past the last key of bin b. */
}

void ref_bound_roundings(const struct ref_arithmetic *a, const struct ref_softmax *row,
                         struct ref_row_bound *bound)
{
    double terms = (double)row->n + (row->sink ? 1.0 : 0.0);
    double rescales = a->chain > 0.0 && a->tiles <= 1.0 ? 0.0 : a->tiles;

    bound->chain = (a->chain > 0.0 ? a->chain : terms) + rescales + a->splits;
    if (a->copies > 1.0) /* the reference's own chain */
        bound->chain = fmax(bound->chain, terms + 1.0);
    /* A split is divided by its sum and multiplied by its weight. */
    bound->product = ref_growth(a, bound->chain + (a->splits > 0.0 ? 3.0 : 1.0));
    bound->quotient = ref_growth(a, bound->chain + 3.0);
    if (a->splits > 0.0) {
        double log_splits = log(a->splits);
        double merged = a->u_op * (4.0 * fabs(row->lse) + 5.0 * log_splits) +
                        ref_growth(a, a->splits) + a->e_exp +
                        (a->e_log + a->three + a->e_arg) * log_splits;
        bound->quotient += expm1(merged) * (1.0 + bound->quotient);
    }
    if (row->dropout) {
        double kept = a->u_op * row->dropout_p / (1.0 - row->dropout_p);
        bound->dropout = a->three + (1.0 + a->three) * divide(kept, fmax(1.0 - kept, 0.0));
    }
}

/* E of lse, from what the exponents do to log l. */
static double lse_error(const struct ref_arithmetic *a, const struct ref_softmax *row,
                        const struct ref_row_bound *bound, const struct totals *totals)
{
    double sum = fmin(fmax(log(totals->upper), -log(totals->lower)), totals->worst);
    double log_l, steps;

    sum += ref_growth(a, bound->chain);

    /* A denominator that sums p as stored, or is not declared, carries the rounding of p. */
    if (a->denominator != 1)
        sum -= log1p(-fmin(bound->stored, 1.0));
    log_l = fabs(row->log_sum) + a->tau + sum;
    steps = sum + a->three * (fabs(row->max) + bound->rise + a->tau) +
            (ref_growth(a, 2.0) * (1.0 + a->e_log) + a->e_log) * log_l;
    return steps + a->u_op * (fabs(row->lse) + steps);
}

/* The largest unnormalised p, and whether it or the sum of all may overflow. Where the maximum is
 * known beforehand the sum is l; else each p was next to exp(tau) when it was added. */
static void bound_range(const struct ref_arithmetic *a, const struct ref_softmax *row,
                        struct ref_row_bound *bound)
{
    bool at_once = a->tiles <= 1.0 && a->splits == 0.0;

    bound->peak = exp(a->tau * (1.0 + a->three)) * (1.0 + a->e_exp + a->e_arg * a->tau);
    bound->overflows =
        !(bound->peak <= a->p_largest &&
          (at_once ? row->sum : (double)row->n + 1.0) * bound->peak * (1.0 + bound->quotient) <=
              a->largest);
}

void ref_bound_row(const struct ref_arithmetic *a, const struct ref_softmax *row,
                   struct ref_scratch *x, struct ref_row_bound *bound)
{
    const double sink_error = a->three * fabs(row->sink_logit);
    struct totals totals = {0.0, 0.0, 0.0};
    double sum, eta;

    *bound = (struct ref_row_bound){0};
    if (row->sink)
        bound->rise = fmax(row->sink_logit + sink_error - row->max, 0.0);
    for (int64_t t = 0; t < row->n; t++)
        bound->rise = fmax(bound->rise, x->score[2][x->key[t]] + x->ds[x->key[t]] - row->max);
    for (int64_t t = 0; t < row->n; t++)
        add_term(a, row, bound->rise, x->score[2][x->key[t]], x->ds[x->key[t]], &totals,
                 &x->growth[t], &x->upper[t]);
    if (row->sink)
        add_term(a, row, bound->rise, row->sink_logit, sink_error, &totals, &x->growth[row->n],
                 &x->upper[row->n]);
    /* The key of the computed maximum has p = exp(0). */
    sum = a->normalised ? 1.0 : fmax(row->sum * totals.lower, 1.0 - a->e_exp);
    bound->underflow = divide(2.0 * a->omega, sum);
    eta = a->u_p > 0.0 ? divide(a->eta_p, sum) : 0.0;
    for (int64_t t = 0; t < row->n + row->sink; t++) {
        x->growth[t] = divide(x->growth[t], totals.lower);
        x->upper[t] = divide(x->upper[t], totals.lower);
        bound->shared += x->growth[t];
    }
    for (int64_t t = 0; t < row->n; t++) {
        x->store[t] = a->u_p > 0.0 ? fmax(a->u_p * x->upper[t], eta) : 0.0;
        bound->stored += x->store[t];
    }
    bound->stored = fmin(bound->stored, a->u_p + (double)row->n * eta);
    if (a->bins > 0)
        order_by_bin(a, row, x);
    ref_bound_roundings(a, row, bound);
    bound_range(a, row, bound);
    /* What the sum of p loses to underflow. */
    bound->quotient += bound->underflow * bound->chain;
    bound->lse_error = lse_error(a, row, bound, &totals);
}

/* E1, A and sum |v| of every column, the largest |v - ref| and |v|. */
static void sum_columns(const struct ref_softmax *row, const struct ref_keys *keys,
                        const struct ref_scratch *x, const double *out)
{
    double *e1 = x->column[0], *big = x->column[1], *sum = x->column[2];
    double *far = x->column[6], *high = x->column[7];
    int64_t dv = keys->dv;

    for (int64_t c = 0; c < dv; c++) {
        e1[c] = row->sink ? x->growth[row->n] * fabs(out[c]) : 0.0;
        far[c] = row->sink ? fabs(out[c]) : 0.0;
        big[c] = sum[c] = high[c] = 0.0;
    }
    for (int64_t t = 0; t < row->n; t++) {
        const double *v = keys->v + x->key[t] * dv;
        double growth = x->growth[t], keep = x->keep[t];
        double upper = x->upper[t] + x->store[t]; /* p as stored */
        if (keep == 0.0) { /* dropped: v counts as 0, p still in the denominator */
            for (int64_t c = 0; c < dv; c++) {
                e1[c] += growth * fabs(out[c]);
                far[c] = fmax(far[c], fabs(out[c]));
            }
            continue;
        }
        const double *ve = keys->v_error ? keys->v_error + x->key[t] * dv : NULL;
        for (int64_t c = 0; c < dv; c++) {
            double vc = keep * v[c], off = ve ? keep * ve[c] : 0.0;
            double distance = fabs(vc - out[c]), size = fabs(vc) + off;
            e1[c] += growth * distance + upper * off;
            big[c] += upper * size;
            sum[c] += size;
            far[c] = distance + off > far[c] ? distance + off : far[c];
            high[c] = size > high[c] ? size : high[c];
        }
    }
}

/* rho of every column: the rounding of stored p. */
static void sum_stored(const struct ref_arithmetic *a, const struct ref_softmax *row,
                       const struct ref_keys *keys, const struct ref_scratch *x, const double *out)
{
    double *rho = x->column[3], *squares = x->column[4], *group = x->column[5];
    double by_value = a->denominator != 2 ? 1.0 : 0.0,
           by_distance = a->denominator != 1 ? 1.0 : 0.0;
    int64_t dv = keys->dv, done = 0;
    int bins = a->bins > 0 ? a->bins : 1;

    memset(rho, 0, (size_t)dv * sizeof(*rho));
    memset(squares, 0, (size_t)dv * sizeof(*squares));
    for (int b = 0; b < bins; b++) {
        int64_t end = a->bins > 0 ? x->start[b] : row->n;
        if (end == done)
            continue;
        memset(group, 0, (size_t)dv * sizeof(*group));
        for (; done < end; done++) {
            int64_t t = a->bins > 0 ? x->order[done] : done;
            const double *v = keys->v + x->key[t] * dv;
            const double *ve = keys->v_error ? keys->v_error + x->key[t] * dv : NULL;
            double keep = x->keep[t], store = x->store[t];
            for (int64_t c = 0; c < dv; c++) {
                double vc = keep == 0.0 ? 0.0 : keep * v[c];
                double value = by_value * fabs(vc), distance = by_distance * fabs(vc - out[c]);
                group[c] += store * (value > distance ? value : distance);
                if (ve && keep != 0.0)
                    group[c] += store * keep * ve[c];
            }
        }
        for (int64_t c = 0; c < dv; c++) {
            rho[c] += group[c];
            squares[c] += group[c] * group[c];
        }
    }
    if (a->bins > 0)
        for (int64_t c = 0; c < dv; c++)
            rho[c] = fmin(rho[c], REF_LAMBDA * sqrt(squares[c]));
}

/* May a backend's weight of a key whose v is infinite have underflowed: 0 * Inf is NaN, not Inf. */
static bool may_vanish(const struct ref_arithmetic *a, const struct ref_softmax *row,
                       const struct ref_row_bound *bound, const struct ref_keys *keys,
                       const struct ref_scratch *x, int64_t c)
{
    double least = fmax(a->omega, 2.0 * a->eta_p);

    for (int64_t t = 0; t < row->n; t++) {
        double s = x->score[2][x->key[t]];
        const struct wrong e = term_error(a, row, bound->rise, s, x->ds[x->key[t]]);
        if (isinf(keys->v[x->key[t] * keys->dv + c]) && x->keep[t] != 0.0 &&
            !(exp(s - row->max - row->log_sum - e.shift) * (1.0 - e.relative) >= least))
            return true;
    }
    return false;
}

/* May a partial sum of p v, or out itself, leave the range of the accumulation. `size` bounds the
 * sum of P |v|, `sum` is that of |v|. */
static bool out_overflows(const struct ref_arithmetic *a, const struct ref_softmax *row,
                          const struct ref_row_bound *bound, double size, double sum, double out)
{
    double most = size;

    if (!a->normalised)
        most = sum * bound->peak * (1.0 + a->u_p);
    if (!a->normalised && a->tiles <= 1.0 && a->splits == 0.0)
        most = fmin(most, size * row->sum * bound->peak);
    return !(most * (1.0 + bound->product) <= a->largest && out <= a->largest);
}

/* What the rounding of stored p, rho, makes of out where the denominator may sum p as stored: it
 * divides by a sum that is wrong by as much as all of them, and meets v - out in error by e1. */
static double stored_error(const struct ref_arithmetic *a, const struct ref_row_bound *bound,
                           double rho, double e1)
{
    if (a->denominator == 1)
        return rho;
    return divide(rho + bound->stored * e1, fmax(1.0 - bound->stored, 0.0));
}

void ref_bound_out(const struct ref_arithmetic *a, const struct ref_softmax *row,
                   const struct ref_row_bound *bound, const struct ref_keys *keys,
                   struct ref_scratch *x, const double *out, double *error)
{
    double product = bound->product + bound->dropout * (1.0 + bound->product);

    sum_columns(row, keys, x, out);
    if (a->u_p > 0.0)
        sum_stored(a, row, keys, x, out);
    else
        memset(x->column[3], 0, (size_t)keys->dv * sizeof(double));
    for (int64_t c = 0; c < keys->dv; c++) {
        /* The weights of a backend sum to 1, too, however wrong they are. */
        double e1 = fmin(x->column[0][c], x->column[6][c]), high = x->column[7][c];
        double big = fmin(x->column[1][c], high * (1.0 + bound->stored)), sum = x->column[2][c];
        double rho = fmin(x->column[3][c], bound->stored * (high + fabs(out[c])));
        double e = e1 + stored_error(a, bound, rho, e1) + product * big +
                   bound->underflow * (sum + bound->chain);
        error[c] = e + bound->quotient * (fabs(out[c]) + e);
        if (isinf(out[c]))
            error[c] = may_vanish(a, row, bound, keys, x, c) ? INFINITY : 0.0;
        else if (out_overflows(a, row, bound, big, sum, fabs(out[c]) + error[c]))
            error[c] = INFINITY;
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
