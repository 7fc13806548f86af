/* SPDX-License-Identifier: Apache-2.0 */
/* bound_row.c - E of BOUND.md for one softmax row: out, lse, weights. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "reference/clones.h"
#include "reference/job.h"

#define LOG2_E 1.44269504088896340736

/* Up to here exp(w) - 1 is summed up term by term, in a tenth of the time that the C library takes;
 * and only of p that has not underflowed. */
#define SMALL  0.125
#define NORMAL 0x1p-1000

/* Weights are resolved by a sum of 1 from this many u on: two units in its last place. */
#define GRID 4.0

/* No addition of positive numbers gains more than its smaller operand: a sum of 1 may come to 2,
 * and a little more where sums of sums gain again. The log of that. */
#define LOG_MOST_SUM 0.75

/* Where a chain may lose more than this, sums may stall. */
#define STALLS 0.0625

/* Columns whose sums over the keys are made at a time: a cache line. */
#define COLUMNS 8

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

/* R: a maximum that does not rise rescales nothing, if that is declared. */
static double rescales_of(const struct ref_arithmetic *a, const struct ref_softmax *row)
{
    return row->rises > 0.0 ? fmin(row->rises, a->tiles) : a->tiles;
}

static struct terms terms_begin(const struct ref_arithmetic *a, const struct ref_softmax *row,
                                double rise)
{
    return (struct terms){.a = a,
                          .row = row,
                          .rise = rise,
                          .rescales = rescales_of(a, row),
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

/* A quotient that overflows, or has nothing left below, stands for "no bound"; as a finite number
 * it still gives 0 where it multiplies an exact 0. */
static double divide(double x, double by)
{
    double quotient = x / by;

    return quotient < DBL_MAX ? quotient : DBL_MAX;
}

/* Orders the keys by bin of frac(log2 p): keys whose stored p round alike. A counting sort. Without
 * bins all are in one. */
ATTN_CLONES("avx2", "avx512f")
static void order_by_bin(const struct ref_arithmetic *a, const struct ref_softmax *row,
                         struct ref_scratch *x)
{
    double shift = row->max + (a->normalised ? row->log_sum : 0.0), last = a->bins - 1;
    /* growth and upper are in use; magnitude is free once ds is known. */
    double *bin = x->magnitude;

    for (int64_t t = 0; t < row->n; t++) {
        x->order[t] = t;
        x->same[t] = 1.0;
    }
    if (a->bins == 0)
        return;
    memset(x->start, 0, (size_t)(a->bins + 1) * sizeof(*x->start));
    for (int64_t t = 0; t < row->n; t++) {
        double l = (x->logit[t] - shift) * LOG2_E;
        bin[t] = floor((l - floor(l)) * a->bins);
        bin[t] = bin[t] < last ? bin[t] : last; /* l - floor(l) may round to 1 */
    }
    for (int64_t t = 0; t < row->n; t++)
        x->start[(int)bin[t] + 1]++;
    for (int b = 0; b < a->bins; b++)
        x->start[b + 1] += x->start[b];
    for (int64_t t = 0; t < row->n; t++)
        x->order[x->start[(int)bin[t]]++] = t;
    for (int64_t o = 1; o < row->n; o++)
        x->same[o] = bin[x->order[o]] == bin[x->order[o - 1]] ? 1.0 : 0.0;
}

/* On generic fills: does the sum of p round at random, with errors of mean zero? Keys whose weight
 * is below a few units in the last place of the sum may be lost in it, all in one direction: so may
 * all keys if their weights are alike to that accuracy. Returns what such keys may lose of a sum of
 * 1: of an addition never more than its smaller operand, nor than u of the result. */
static double lost_keys(const struct ref_arithmetic *a, const struct ref_softmax *row,
                        const double *p)
{
    const double u = a->u_op * (1.0 + a->u_op), grid = GRID * a->u_op;
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
 * key adds at least its weight less u x; see BOUND.md 4. */
static double least_sum(const struct ref_arithmetic *a, const struct ref_softmax *row,
                        const double *p)
{
    double low = 0.0, high = 1.0, sink = 1.0;

    for (int64_t t = 0; t < row->n; t++)
        sink -= p[t];
    for (int step = 0; step < 30; step++) {
        const double x = 0.5 * (low + high), lost = a->u_op * x;
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
        bound->summing = fmin(bound->summing, fmax(-log(least_sum(a, row, p)), LOG_MOST_SUM) +
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
    double rescales = a->chain > 0.0 && a->tiles <= 1.0 ? 0.0 : rescales_of(a, row);

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
        bound->dropout = a->three + (1.0 + a->three) * divide(kept, fmax(1.0 - kept, 0.0));
    }
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
    double grown = fmin(1.0 + bound->quotient, exp(LOG_MOST_SUM));

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
        growth[t] = divide(growth[t], lower);
        upper[t] = divide(upper[t], lower);
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
    bound->underflow = divide(2.0 * a->omega, sum);
    bound->partial = divide(a->partial_omega, sum);
    scale_terms(row, terms.lower, a->u_p, a->u_p > 0.0 ? divide(a->eta_p, sum) : 0.0, x, bound);
    if (a->u_p > 0.0)
        order_by_bin(a, row, x);
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
    const double eta = a->u_p > 0.0 ? divide(a->eta_p, sum) : 0.0;
    struct terms terms = terms_begin(a, row, rise);

    terms.lower = lower;
    terms.upper = 1.0 + growth;
    terms.largest.shift = INFINITY; /* not known: the sums decide */
    *bound = (struct ref_row_bound){.rise = rise,
                                    .underflow = divide(2.0 * a->omega, sum),
                                    .partial = divide(a->partial_omega, sum),
                                    .shared = divide(growth, lower)};
    bound->stored = fmin(a->u_p * divide(upper, lower), a->u_p) + n * eta;
    settle(a, row, NULL, &terms, bound);
    return eta;
}

/* Sums over the keys of a few columns, as many as the registers hold. */
struct columns {
    double e1[COLUMNS], size[COLUMNS], v[COLUMNS]; /* E1, A, sum |v| */
    double squares[COLUMNS], own[COLUMNS];         /* of what of E1 adds in squares: of k, of v */
};

/* Adds all keys to `width` columns from `from` on. A dropped key has v = 0, whatever stands there;
 * its p is still in the denominator. `errors`: v is not exact. Inlined where the last two are
 * known, so that the sums stay in registers. */
static inline __attribute__((always_inline)) void
add_keys(const struct ref_softmax *row, const struct ref_keys *keys, const struct ref_scratch *x,
         const double *out, int64_t from, struct columns *sums, int64_t width, bool errors)
{
    static const double zero[COLUMNS];
    struct columns sum = *sums;

    for (int64_t t = 0; t < row->n; t++) {
        int64_t at = x->key[t] * keys->dv + from;
        double growth = x->growth[t], keep = x->keep[t];
        double upper = x->upper[t] + x->store[t]; /* p as stored */
        const double *v = keep != 0.0 ? keys->v + at : zero;
        const double *ve = errors && keep != 0.0 ? keys->v_error + at : zero;
        for (int64_t c = 0; c < width; c++) {
            double value = keep * v[c], size = fabs(value);
            double e1 = growth * fabs(value - out[c]);
            size = errors ? size + keep * ve[c] : size;
            sum.e1[c] += errors ? e1 + upper * keep * ve[c] : e1;
            sum.size[c] += upper * size;
            sum.v[c] += size;
        }
    }
    *sums = sum;
}

/* As add_keys, where errors of k and v add in squares. `rest`: growth without what k adds. */
static inline __attribute__((always_inline)) void
add_spread_keys(const struct ref_softmax *row, const struct ref_keys *keys,
                const struct ref_scratch *x, const double *rest, const double *out, int64_t from,
                struct columns *sums, int64_t width)
{
    static const double zero[COLUMNS];
    struct columns sum = *sums;

    for (int64_t t = 0; t < row->n; t++) {
        int64_t at = x->key[t] * keys->dv + from;
        double growth = rest[t], random = x->random[t], keep = x->keep[t];
        double upper = x->upper[t] + x->store[t]; /* p as stored */
        const double *v = keep != 0.0 ? keys->v + at : zero;
        const double *ve = keep != 0.0 ? keys->v_error + at : zero;
        const double *vs = keep != 0.0 ? keys->v_spread + at : zero;
        for (int64_t c = 0; c < width; c++) {
            double value = keep * v[c], distance = fabs(value - out[c]);
            double of_k = random * distance, of_v = upper * keep * vs[c];
            double size = fabs(value) + keep * ve[c];
            sum.e1[c] += growth * distance;
            sum.squares[c] += of_k * of_k;
            sum.own[c] += of_v * of_v;
            sum.size[c] += upper * size;
            sum.v[c] += size;
        }
    }
    *sums = sum;
}

/* E1, A and sum |v| of every column. */
ATTN_CLONES("avx2", "avx512f")
static void sum_columns(const struct ref_arithmetic *a, const struct ref_softmax *row,
                        const struct ref_keys *keys, struct ref_scratch *x, const double *out)
{
    const bool squares = keys->v_spread && ref_squares(a, row->n);
    const double *rest = keys->k_spread_t ? x->rest : x->growth;

    for (int64_t from = 0, width; from < keys->dv; from += width) {
        struct columns sums = {0};
        width = keys->dv - from < COLUMNS ? keys->dv - from : COLUMNS;
        for (int64_t c = 0; row->sink && c < width; c++)
            sums.e1[c] = x->growth[row->n] * fabs(out[from + c]);
        if (width == COLUMNS && squares)
            add_spread_keys(row, keys, x, rest, out + from, from, &sums, COLUMNS);
        else if (squares)
            add_spread_keys(row, keys, x, rest, out + from, from, &sums, width);
        else if (width == COLUMNS && !keys->v_error)
            add_keys(row, keys, x, out + from, from, &sums, COLUMNS, false);
        else if (width == COLUMNS)
            add_keys(row, keys, x, out + from, from, &sums, COLUMNS, true);
        else
            add_keys(row, keys, x, out + from, from, &sums, width, keys->v_error != NULL);
        for (int64_t c = 0; squares && c < width; c++)
            sums.e1[c] += sqrt(sums.squares[c] + sums.own[c]);
        memcpy(x->column[6] + from, sums.own, (size_t)width * sizeof(double));
        memcpy(x->column[0] + from, sums.e1, (size_t)width * sizeof(double));
        memcpy(x->column[1] + from, sums.size, (size_t)width * sizeof(double));
        memcpy(x->column[2] + from, sums.v, (size_t)width * sizeof(double));
    }
}

/* The largest |v - ref| and |v| of every column. Where all growth together is below 1, E1 of exact
 * v is below the first, which is then not looked for. */
ATTN_CLONES("avx2", "avx512f")
static void raise_columns(const struct ref_softmax *row, const struct ref_row_bound *bound,
                          const struct ref_keys *keys, struct ref_scratch *x, const double *out)
{
    double *restrict far = x->column[4], *restrict high = x->column[5];
    const bool near = bound->shared <= 1.0 && !keys->v_error;
    bool zero = row->sink; /* does a key count as v = 0 */

    for (int64_t c = 0; c < keys->dv; c++) {
        far[c] = near ? INFINITY : 0.0;
        high[c] = 0.0;
    }
    if (near && row->n == keys->sk && !row->dropout) {
        memcpy(high, keys->v_most, (size_t)keys->dv * sizeof(double));
        return;
    }
    for (int64_t t = 0; t < row->n; t++) {
        const double *restrict v = keys->v + x->key[t] * keys->dv, keep = x->keep[t];
        const double *restrict ve = keys->v_error ? keys->v_error + x->key[t] * keys->dv : NULL;
        if (keep == 0.0) {
            zero = true;
            continue;
        }
        for (int64_t c = 0; c < keys->dv; c++) {
            double size = keep * (ve ? fabs(v[c]) + ve[c] : fabs(v[c]));
            high[c] = size > high[c] ? size : high[c];
        }
        for (int64_t c = 0; !near && c < keys->dv; c++) {
            double distance = fabs(keep * v[c] - out[c]) + (ve ? keep * ve[c] : 0.0);
            far[c] = distance > far[c] ? distance : far[c];
        }
    }
    for (int64_t c = 0; zero && c < keys->dv; c++)
        far[c] = fabs(out[c]) > far[c] ? fabs(out[c]) : far[c];
}

/* Sums of stored errors of a few columns: of all, of the bin at work, of the squares of all bins.
 */
struct stored {
    double all[COLUMNS], bin[COLUMNS], squares[COLUMNS];
};

/* As add_keys, bin by bin: store times |v - centre|, or |v| where that is larger and `either` may
 * be meant. The larger of two is half their sum and half their difference, and as a bin grows from
 * g to g + e its square grows by e (2 g + e): so there is no branch among the sums. */
static inline __attribute__((always_inline)) void
add_stored(const struct ref_softmax *row, const struct ref_keys *keys, const struct ref_scratch *x,
           const double *centre, int64_t from, struct stored *sums, int64_t width, bool errors,
           bool either)
{
    static const double zero[COLUMNS];
    struct stored sum = *sums;

    for (int64_t o = 0; o < row->n; o++) {
        int64_t t = x->order[o], at = x->key[t] * keys->dv + from;
        double store = x->store[t], keep = x->keep[t], same = x->same[o];
        const double *v = keep != 0.0 ? keys->v + at : zero;
        const double *ve = errors && keep != 0.0 ? keys->v_error + at : zero;
        for (int64_t c = 0; c < width; c++) {
            double value = fabs(keep * v[c]), e = fabs(keep * v[c] - centre[c]);
            e = either ? 0.5 * (value + e + fabs(value - e)) : e;
            e = store * (errors ? e + keep * ve[c] : e);
            double before = sum.bin[c] * same;
            sum.all[c] += e;
            sum.bin[c] = before + e;
            sum.squares[c] += e * (before + sum.bin[c]);
        }
    }
    *sums = sum;
}

/* rho of every column: the rounding of stored p. */
ATTN_CLONES("avx2", "avx512f")
static void sum_stored(const struct ref_arithmetic *a, const struct ref_softmax *row,
                       const struct ref_keys *keys, struct ref_scratch *x, const double *out)
{
    const bool either = a->denominator == 0, errors = keys->v_error != NULL;

    for (int64_t from = 0, width; from < keys->dv; from += width) {
        struct stored sums = {0};
        double centre[COLUMNS];
        width = keys->dv - from < COLUMNS ? keys->dv - from : COLUMNS;
        for (int64_t c = 0; c < width; c++)
            centre[c] = a->denominator == 1 ? 0.0 : out[from + c];
        if (width < COLUMNS)
            add_stored(row, keys, x, centre, from, &sums, width, errors, either);
        else if (errors && either)
            add_stored(row, keys, x, centre, from, &sums, COLUMNS, true, true);
        else if (errors)
            add_stored(row, keys, x, centre, from, &sums, COLUMNS, true, false);
        else if (either)
            add_stored(row, keys, x, centre, from, &sums, COLUMNS, false, true);
        else
            add_stored(row, keys, x, centre, from, &sums, COLUMNS, false, false);
        for (int64_t c = 0; c < width; c++)
            x->column[3][from + c] =
                a->bins > 0 ? fmin(sums.all[c], a->lambda * sqrt(sums.squares[c])) : sums.all[c];
    }
}

/* May a backend's weight of a key whose v is infinite have underflowed: 0 * Inf is NaN, not Inf. */
static bool may_vanish(const struct ref_arithmetic *a, const struct ref_softmax *row,
                       const struct ref_row_bound *bound, const struct ref_keys *keys,
                       const struct ref_scratch *x, int64_t c)
{
    double least = fmax(a->omega, 2.0 * a->eta_p);
    const struct terms terms = terms_begin(a, row, bound->rise);

    for (int64_t t = 0; t < row->n; t++) {
        double s = x->logit[t];
        const struct wrong e = term_error(&terms, s, x->wrong[t]);
        if (isinf(keys->v[x->key[t] * keys->dv + c]) && x->keep[t] != 0.0 &&
            !(exp(s - row->max - row->log_sum - e.shift) * (1.0 - e.relative) >= least))
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
    return divide(rho + bound->stored * e1, fmax(1.0 - bound->stored, 0.0));
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

/* What of a key's growth adds in squares over the keys: the linear part of what errors of k make of
 * its score, which are others for each key. The rest adds up as it is. */
static void split_growth(const struct ref_softmax *row, const struct ref_row_bound *bound,
                         const struct ref_keys *keys, struct ref_scratch *x)
{
    for (int64_t t = 0; t < row->n; t++) {
        const int64_t j = x->key[t];
        const double p = divide(x->p[t], bound->least);
        x->random[t] = keys->k_spread_t ? p * x->noise[j] : 0.0;
        if (keys->k_spread_t)
            x->rest[t] = fmax(x->growth[t] - p * (ref_spread_of(keys, x, j) - x->spread[j]), 0.0);
    }
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
    if (keys->v_spread)
        split_growth(row, bound, keys, x);
    sum_columns(a, row, keys, x, out);
    raise_columns(row, bound, keys, x, out);
    if (a->u_p > 0.0)
        sum_stored(a, row, keys, x, out);
    else
        memset(x->column[3], 0, (size_t)keys->dv * sizeof(double));
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
