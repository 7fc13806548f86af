/* SPDX-License-Identifier: Apache-2.0 */
/* bound_row.c - E of BOUND.md for one softmax row: its weights before they meet v, and lse. */
#include <math.h>

#include "reference/bound_parts.h"
#include "reference/clones.h"

/* Up to here exp(w) - 1 is summed up term by term, in a tenth of the time that the C library takes;
 * and only of p that has not underflowed. */
#define SMALL  0.125
#define NORMAL 0x1p-1000

/* How wrong p of one term may be: by exp(d) (1 + r), |d| <= shift and |r| <= relative. */
struct wrong {
    double shift, relative;
};

/* What the terms of a row share. */
struct terms {
    const struct ref_arithmetic *a;
    const struct ref_softmax *row;
    double rise;
    double rescales;      /* R */
    double log_n;         /* with splits: the largest log of a split's sum */
    double lower, upper;  /* D = sum p exp(-shift) (1 - relative); sum p exp(w) */
    struct wrong largest; /* of any term, each */
};

static struct terms terms_begin(const struct ref_arithmetic *a, const struct ref_softmax *row,
                                double rise)
{
    return (struct terms){.a = a,
                          .row = row,
                          .rise = rise,
                          .rescales = ref_rescales(a, row),
                          .log_n = a->splits > 0.0 ? log((double)row->n + 1.0) + a->tau : 0.0};
}

/* Error of its score, of every exp it goes through, of the merging of splits. */
static struct wrong term_error(const struct terms *x, double s, double ds)
{
    const struct ref_arithmetic *a = x->a;
    double distance = x->row->max - s + x->rise + ds + 2.0 * a->tau;
    struct wrong e = {ds + a->three * distance,
                      (1.0 + x->rescales) * a->e_exp + a->e_arg * distance};

    /* The lse of the split that holds this key lies between s and the row's lse. */
    if (a->splits > 0.0) {
        double far = distance + x->row->log_sum;
        e.shift +=
            4.0 * a->u_op * (fmax(fabs(s), fabs(x->row->lse)) + x->row->offset + ds + x->rise) +
            (2.0 * a->u_op + a->e_log) * x->log_n + a->three * far;
        e.relative += a->e_exp + a->e_arg * far;
    }
    return e;
}

/* exp(w) - 1 for w in [0, SMALL], never less: its Taylor series, with the terms from w^7 on as a
 * geometric series of ratio SMALL / 8. Above the truth by less than 1e-10 of it. */
static double small_expm1(double w)
{
    double sum = 1.0 / 5040.0 / (1.0 - SMALL / 8.0);

    sum = sum * w + 1.0 / 720.0;
    sum = sum * w + 1.0 / 120.0;
    sum = sum * w + 1.0 / 24.0;
    sum = sum * w + 1.0 / 6.0;
    sum = sum * w + 1.0 / 2.0;
    return sum * w * w + w;
}

/* p expm1(w), p exp(w) and p exp(-shift) (1 - relative) of all keys, w = shift + relative, as if w
 * were small and p had not underflowed. */
ATTN_CLONES("avx2", "avx512f")
static void small_terms(const struct terms *terms, struct ref_scratch *x, double *restrict growth,
                        double *restrict upper, double *restrict lower)
{
    const struct terms local = *terms;

    for (int64_t t = 0; t < local.row->n; t++) {
        const struct wrong e = term_error(&local, x->logit[t], x->wrong[t]);
        double p = x->p[t], kept = e.relative < 1.0 ? 1.0 - e.relative : 0.0;
        growth[t] = p * small_expm1(e.shift + e.relative);
        upper[t] = p + growth[t];
        lower[t] = p / (1.0 + small_expm1(e.shift)) * kept;
    }
}

/* Adds a term of weight p to the sums of all. Where w is not small or p may have underflowed, the
 * three are made anew, in logarithms, so that no 0 * inf arises. */
static void add_term(struct terms *x, double s, double ds, double p, double *growth, double *upper,
                     double lower)
{
    const struct wrong e = term_error(x, s, ds);
    double w = e.shift + e.relative, kept = e.relative < 1.0 ? 1.0 - e.relative : 0.0;

    if (!(w <= SMALL && p >= NORMAL)) {
        double log_p = s - x->row->max - x->row->log_sum;
        *upper = exp(log_p + w);
        *growth = w < 1.0 ? exp(log_p) * expm1(w) : *upper;
        lower = exp(log_p - e.shift) * kept;
    }
    x->lower += lower;
    x->upper += *upper;
    x->largest.shift = e.shift > x->largest.shift ? e.shift : x->largest.shift;
    x->largest.relative = e.relative > x->largest.relative ? e.relative : x->largest.relative;
}

/* E of lse, from what the exponents do to log l: by no more than to any of its terms. */
static double lse_error(const struct ref_arithmetic *a, const struct ref_softmax *row,
                        const struct ref_row_bound *bound, const struct terms *terms)
{
    double worst = terms->largest.shift - log1p(-fmin(terms->largest.relative, 1.0));
    double sum = fmin(fmax(log(terms->upper), -log(terms->lower)), worst);
    double log_l, steps;

    sum += bound->summing;

    /* A denominator that sums p as stored, or is not declared, carries the rounding of p. */
    if (a->denominator != 1)
        sum -= log1p(-fmin(bound->stored, 1.0)) + log1p(-fmin(a->u_pv, 1.0));
    log_l = fabs(row->log_sum) + a->tau + sum;
    steps = sum + a->three * (fabs(row->max) + row->offset + bound->rise + a->tau) +
            (ref_growth(a, 2.0) * (1.0 + a->e_log) + a->e_log) * log_l;
    /* Scores that all differ by an offset: it is computed, and taken off a sum that has it. */
    steps += (ref_growth(a, 4.0) + a->u_op) * row->offset;
    return steps + a->u_op * (fabs(row->lse) + steps);
}

/* The largest unnormalised p, and whether it or the sum of all may overflow. Where the maximum is
 * known beforehand the sum is l; else each p was next to exp(tau) when it was added. */
static void bound_range(const struct ref_arithmetic *a, const struct ref_softmax *row,
                        struct ref_row_bound *bound)
{
    bool at_once = a->tiles <= 1.0 && a->splits == 0.0;
    double grown = fmin(1.0 + bound->quotient, exp(REF_LOG_MOST_SUM));

    bound->peak = exp(a->tau * (1.0 + a->three)) * (1.0 + a->e_exp + a->e_arg * a->tau);
    bound->overflows =
        !(bound->peak <= a->p_largest &&
          (at_once ? row->sum : (double)row->n + 1.0) * bound->peak * grown <= a->largest);
}

/* growth, upper and store of every key, and what they add up to. */
ATTN_CLONES("avx2", "avx512f")
static void scale_terms(const struct ref_softmax *row, double lower, double u_p, double eta,
                        struct ref_scratch *x, struct ref_row_bound *bound)
{
    double *restrict growth = x->growth, *restrict upper = x->upper, *restrict store = x->store;
    double shared = 0.0, stored = 0.0;

    for (int64_t t = 0; t < row->n + row->sink; t++) {
        growth[t] = ref_divide(growth[t], lower);
        upper[t] = ref_divide(upper[t], lower);
    }
    for (int64_t t = 0; t < row->n; t++)
        store[t] = u_p * upper[t] > eta ? u_p * upper[t] : eta;
    for (int64_t t = 0; t < row->n; t++) {
        shared += growth[t];
        stored += store[t];
    }
    bound->shared = row->sink ? shared + growth[row->n] : shared;
    bound->stored = fmin(stored, u_p + (double)row->n * eta);
}

/* What the sums over the terms say about all outputs of a row. `p`: see ref_bound_roundings. */
static void settle(const struct ref_arithmetic *a, const struct ref_softmax *row, const double *p,
                   const struct terms *terms, struct ref_row_bound *bound)
{
    ref_bound_roundings(a, row, p, bound);
    bound_range(a, row, bound);
    /* What the sum of p loses to underflow. */
    bound->quotient += bound->underflow * bound->chain;
    bound->lse_error = lse_error(a, row, bound, terms);
}

/* The sum that a backend divides by: the key of the computed maximum has p = exp(0). */
static double divisor(const struct ref_arithmetic *a, const struct ref_softmax *row, double lower)
{
    return a->normalised ? 1.0 : fmax(row->sum * lower, 1.0 - a->e_exp);
}

void ref_bound_row(const struct ref_arithmetic *a, const struct ref_softmax *row,
                   struct ref_scratch *x, struct ref_row_bound *bound)
{
    const double sink_error =
        a->three * (fabs(row->sink_logit) + row->offset) + ref_growth(a, 4.0) * row->offset;
    struct terms terms;
    double sum, rise = row->sink ? fmax(row->sink_logit + sink_error - row->max, 0.0) : 0.0;

    *bound = (struct ref_row_bound){0};
    for (int64_t t = 0; t < row->n; t++) {
        double above = x->logit[t] + x->wrong[t] - row->max;
        rise = above > rise ? above : rise;
    }
    bound->rise = rise;
    terms = terms_begin(a, row, rise);
    small_terms(&terms, x, x->growth, x->upper, x->store); /* store is free yet */
    for (int64_t t = 0; t < row->n; t++)
        add_term(&terms, x->logit[t], x->wrong[t], x->p[t], &x->growth[t], &x->upper[t],
                 x->store[t]);
    if (row->sink)
        add_term(&terms, row->sink_logit, sink_error, 0.0, &x->growth[row->n], &x->upper[row->n],
                 0.0);
    sum = divisor(a, row, terms.lower);
    bound->least = terms.lower;
    bound->underflow = ref_divide(2.0 * a->omega, sum);
    bound->partial = ref_divide(a->partial_omega, sum);
    scale_terms(row, terms.lower, a->u_p, a->u_p > 0.0 ? ref_divide(a->eta_p, sum) : 0.0, x, bound);
    if (a->u_p > 0.0)
        ref_bound_order(a, row, x);
    settle(a, row, x->p, &terms, bound);
}

void ref_bound_term(const struct ref_arithmetic *a, const struct ref_softmax *row, double rise,
                    double s, double ds, double *shift, double *relative)
{
    const struct terms terms = terms_begin(a, row, rise);
    const struct wrong e = term_error(&terms, s, ds);

    *shift = e.shift;
    *relative = e.relative;
}

double ref_bound_sums(const struct ref_arithmetic *a, const struct ref_softmax *row, double rise,
                      double lower, double growth, double upper, struct ref_row_bound *bound)
{
    const double sum = divisor(a, row, lower), n = (double)row->n;
    const double eta = a->u_p > 0.0 ? ref_divide(a->eta_p, sum) : 0.0;
    struct terms terms = terms_begin(a, row, rise);

    terms.lower = lower;
    terms.upper = 1.0 + growth;
    terms.largest.shift = INFINITY; /* not known: the sums decide */
    *bound = (struct ref_row_bound){.rise = rise,
                                    .underflow = ref_divide(2.0 * a->omega, sum),
                                    .partial = ref_divide(a->partial_omega, sum),
                                    .shared = ref_divide(growth, lower)};
    bound->stored = fmin(a->u_p * ref_divide(upper, lower), a->u_p) + n * eta;
    settle(a, row, NULL, &terms, bound);
    return eta;
}
