/* SPDX-License-Identifier: Apache-2.0 */
/* bound_row.c - E of BOUND.md for one softmax row: out, lse, weights. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "reference/job.h"

#define LOG2_E 1.44269504088896340736

/* w of one term: error of its score, of every exp it goes through, of the merging of splits. */
static double exponent_error(const struct ref_arithmetic *a, const struct ref_softmax *row,
                             double s, double ds)
{
    double x = fmax(row->max - s, a->tau);
    double w = ds + (1.0 + a->tiles) * a->e_exp + (3.0 * a->u + a->e_arg) * x;

    /* The lse of the split that holds this key lies between s and the row's lse. */
    if (a->splits > 0.0)
        w += 2.0 * a->u * (fmax(fabs(s), fabs(row->lse)) + fabs(row->lse));
    return w;
}

/* Sums that the terms of a row are divided by. */
struct totals {
    double lower; /* D = sum p exp(-w) */
    double upper; /* sum p exp(w) */
};

/* Adds a term: growth = p expm1(w) and upper = p exp(w), in logarithms where p may have underflowed
 * or exp(w) overflow, so that no 0 * inf arises. */
static void add_term(const struct ref_arithmetic *a, const struct ref_softmax *row, double s,
                     double ds, struct totals *totals, double *growth, double *upper)
{
    double log_p = s - row->max - row->log_sum, w = exponent_error(a, row, s, ds);

    *upper = exp(log_p + w);
    *growth = w < 1.0 ? exp(log_p) * expm1(w) : *upper;
    totals->upper += *upper;
    totals->lower += exp(log_p - w);
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

void ref_bound_row(const struct ref_arithmetic *a, const struct ref_softmax *row,
                   struct ref_scratch *x, struct ref_row_bound *bound)
{
    double terms = (double)row->n + (row->sink ? 1.0 : 0.0), log_sum = row->log_sum;
    double eta = a->normalised ? a->eta_p : a->eta_p / row->sum, lse;
    struct totals totals = {0.0, 0.0};

    *bound = (struct ref_row_bound){0};
    for (int64_t t = 0; t < row->n; t++)
        add_term(a, row, x->score[2][x->key[t]], x->ds[x->key[t]], &totals, &x->growth[t],
                 &x->upper[t]);
    if (row->sink)
        add_term(a, row, row->sink_logit, 3.0 * a->u * fabs(row->sink_logit), &totals,
                 &x->growth[row->n], &x->upper[row->n]);
    for (int64_t t = 0; t < row->n + row->sink; t++) {
        x->growth[t] = divide(x->growth[t], totals.lower);
        x->upper[t] = divide(x->upper[t], totals.lower);
        bound->shared += x->growth[t];
    }
    for (int64_t t = 0; t < row->n; t++) {
        x->store[t] = a->u_p > 0.0 ? fmax(a->u_p * x->upper[t], eta) : 0.0;
        bound->stored += x->store[t];
    }
    if (a->bins > 0)
        order_by_bin(a, row, x);

    bound->chain = a->chain > 0.0 ? a->chain : terms + a->tiles + a->splits;
    if (a->copies > 1.0) /* the reference's own chain */
        bound->chain = fmax(bound->chain, terms + 1.0);
    lse =
        fmax(log(totals.upper), -log(totals.lower)) + ref_growth(a, bound->chain) +
        a->u * (3.0 * (fabs(row->max) + a->tau) + 2.0 * (fabs(log_sum) + a->tau) + fabs(row->lse)) +
        a->e_log * (fabs(log_sum) + a->tau);
    /* A denominator that sums p as stored, or is not declared, carries the rounding of p. */
    if (a->denominator != 1)
        lse += bound->stored;
    bound->lse_error = lse;
}

/* E1, A and sum |v| of every column. */
static void sum_columns(const struct ref_softmax *row, const struct ref_keys *keys,
                        const struct ref_scratch *x, const double *out)
{
    double *e1 = x->column[0], *big = x->column[1], *sum = x->column[2];
    int64_t dv = keys->dv;

    for (int64_t c = 0; c < dv; c++) {
        e1[c] = row->sink ? x->growth[row->n] * fabs(out[c]) : 0.0;
        big[c] = sum[c] = 0.0;
    }
    for (int64_t t = 0; t < row->n; t++) {
        const double *v = keys->v + x->key[t] * dv;
        double growth = x->growth[t], upper = x->upper[t], keep = x->keep[t];
        if (keep == 0.0) { /* dropped: v counts as 0, p still in the denominator */
            for (int64_t c = 0; c < dv; c++)
                e1[c] += growth * fabs(out[c]);
            continue;
        }
        for (int64_t c = 0; c < dv; c++) {
            double vc = keep * v[c], abs_v = fabs(vc);
            e1[c] += growth * fabs(vc - out[c]);
            big[c] += upper * abs_v;
            sum[c] += abs_v;
        }
        if (!keys->v_error)
            continue;
        const double *ve = keys->v_error + x->key[t] * dv;
        for (int64_t c = 0; c < dv; c++) {
            e1[c] += upper * keep * ve[c];
            big[c] += upper * keep * ve[c];
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
            double keep = x->keep[t], store = x->store[t];
            for (int64_t c = 0; c < dv; c++) {
                double vc = keep == 0.0 ? 0.0 : keep * v[c];
                double value = by_value * fabs(vc), distance = by_distance * fabs(vc - out[c]);
                group[c] += store * (value > distance ? value : distance);
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
                       const struct ref_keys *keys, const struct ref_scratch *x, int64_t c)
{
    double least = fmax(a->omega, 2.0 * a->eta_p);

    for (int64_t t = 0; t < row->n; t++) {
        double s = x->score[2][x->key[t]], w = exponent_error(a, row, s, x->ds[x->key[t]]);
        if (isinf(keys->v[x->key[t] * keys->dv + c]) && x->keep[t] != 0.0 &&
            exp(s - row->max - row->log_sum - w) < least)
            return true;
    }
    return false;
}

void ref_bound_out(const struct ref_arithmetic *a, const struct ref_softmax *row,
                   const struct ref_row_bound *bound, const struct ref_keys *keys,
                   struct ref_scratch *x, const double *out, double *error)
{
    double product = ref_growth(a, bound->chain + 1.0);
    double quotient = ref_growth(a, bound->chain) + 3.0 * a->u;

    sum_columns(row, keys, x, out);
    if (a->u_p > 0.0)
        sum_stored(a, row, keys, x, out);
    else
        memset(x->column[3], 0, (size_t)keys->dv * sizeof(double));
    for (int64_t c = 0; c < keys->dv; c++) {
        double e1 = x->column[0][c], big = x->column[1][c], rho = x->column[3][c];
        error[c] = e1 + product * big + quotient * (fabs(out[c]) + e1) + rho * (1.0 + a->u_p) +
                   2.0 * a->omega * (x->column[2][c] + bound->chain) / row->sum;
        if (row->dropout)
            error[c] += 2.0 * a->u * big;
        if (isinf(out[c]))
            error[c] = may_vanish(a, row, keys, x, c) ? INFINITY : 0.0;
    }
}

double ref_bound_weight(const struct ref_arithmetic *a, const struct ref_softmax *row,
                        const struct ref_row_bound *bound, const struct ref_scratch *x, int64_t t)
{
    double p = x->p[t], others = fmax(bound->shared - x->growth[t], 0.0);
    double e1 = p * others + (1.0 - p) * x->growth[t];
    double others_stored = fmax(bound->stored - x->store[t], 0.0), rho = x->store[t];

    if (a->denominator != 1)
        rho = p * others_stored + (a->denominator == 2 ? 1.0 - p : 1.0) * x->store[t];
    return e1 + ref_growth(a, bound->chain + 1.0) * x->upper[t] +
           (ref_growth(a, bound->chain) + 3.0 * a->u) * (p + e1) + rho * (1.0 + a->u_p) +
           2.0 * a->omega * (1.0 + bound->chain) / row->sum;
}
