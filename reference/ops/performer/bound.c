/* SPDX-License-Identifier: Apache-2.0 */
/* bound.c - how far a row of performer may be from ours. OP.md derives it. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "reference/ops/performer/performer.h"

/* Every feature is at most 1 + eps, and so at most this. */
#define LARGEST_PHI 2.0

/* Sums of so many roundings may stall: there errors have no mean of zero. */
#define STALLS 0.0625

/* How wrong the logarithm of a feature may be: `reach` and `half` are those of its vector, `most`
 * is the size of what is taken out, `longest` the largest reach of those that it is the maximum of.
 */
static double spread_of(const struct ref_performer *s, double reach, double half, double most,
                        double longest)
{
    const struct ref_arithmetic *a = &s->job->arithmetic;
    const double dk = (double)s->dk, size = reach + half + most;
    const double growth = ref_growth_partial(a, ref_growth_rounded(a, dk + 4));
    const double stored = a->u_p / (1 - a->u_p), exps = a->e_exp + a->e_arg * size;
    double spread = growth * (reach + half) + (a->three + a->u_s) * size + a->eta_s + stored;

    spread +=
        fmax(a->omega, a->partial_omega) * (3 * dk + 4 + s->heaviest + 2 * sqrt(2 * half * dk));
    if (s->eps > 0) /* the maximum does not cancel; eps is rounded, and a sum */
        spread += growth * longest + ref_growth(a, 2);
    return exps < 1 ? spread + exps / (1 - exps) : INFINITY;
}

void ref_performer_key_errors(const struct ref_performer *s)
{
    for (int64_t j = 0; j < s->keys; j++)
        s->spread[j] = spread_of(s, s->reach[j], s->half[j], fabs(s->most), s->longest);
}

/* How wrong the logarithm of the weight of key j may be, as w = 0 would be right. The last two
 * terms are for kernels that work on logarithms. */
static double error_of(const struct ref_performer *s, const struct ref_performer_row *row,
                       double query, int64_t j)
{
    const struct ref_arithmetic *a = &s->job->arithmetic;
    const double far = fabs(row->log_p[j] - row->log_sum);
    return query + s->spread[j] + (a->three + a->e_log) * (fabs(row->log_p[j]) + far) + a->e_exp +
           a->e_arg * far;
}

/* Sums over the keys of a row. */
struct sums {
    double lower; /* of p exp(-w) */
    double chain; /* relative error of a sum over keys and features */
    double least; /* the computed denominator over the exact one, at the least */
    double tiny;  /* what one underflow may lose, over the exact denominator */
    double upper; /* of p exp(w) */
};

/* What is lost to underflows in a sum whose values add up to `size`: features of q and of k, their
 * products with values and with each other. */
static double lost(const struct ref_performer *s, const struct sums *x, double n, double size)
{
    return x->tiny * (double)s->m * (2 * size + 2 * n + 2);
}

/* Sets upper and moved of the row, too. A key whose features are all 0 weighs nothing. */
static struct sums sum_up(const struct ref_performer *s, const struct ref_performer_row *row)
{
    const struct ref_arithmetic *a = &s->job->arithmetic;
    const double most = s->eps > 0 ? row->reach : fabs(row->top);
    const double query = spread_of(s, row->reach, row->half, most, row->reach);
    const double n = (double)row->n, m = (double)s->m, chain = n + m + 6;
    const double size = exp(s->eps > 0 ? row->log_sum + row->top : row->log_sum - s->most);
    struct sums x = {0};
    for (int64_t j = 0; j < row->n; j++) {
        const double log_p = row->log_p[j] - row->log_sum;
        const double w = isinf(log_p) ? 0 : error_of(s, row, query, j);
        x.lower += exp(log_p - w);
        x.upper += row->upper[j] = exp(log_p + w);
        row->moved[j] = w < 1 ? row->p[j] * expm1(w) : row->upper[j];
    }
    x.chain = ref_growth_values(a, chain * a->u_op > STALLS ? ref_growth_worst(a, chain)
                                                            : ref_growth(a, chain));
    x.tiny =
        fmax(fmax(a->omega, a->eta_p), a->partial_omega) * LARGEST_PHI * LARGEST_PHI * m / size;
    x.least = (1 - x.chain) * x.lower - lost(s, &x, n, n);
    return x;
}

/* May a step before the sums leave the range of its type? */
static bool overflows(const struct ref_performer *s, double reach, double half)
{
    const struct ref_arithmetic *a = &s->job->arithmetic;
    const double least = s->root > 0 ? fmin(1, s->root * s->root) : 1; /* x may be squared first */
    return (reach + half) / least > a->largest || reach + half > a->score_largest;
}

/* Are all steps before the sums known to stay in range, and the denominator to stay above 0? */
static bool is_known(const struct ref_performer *s, const struct ref_performer_row *row,
                     const struct sums *x)
{
    const double terms = (double)row->n * (double)s->m;
    bool known = x->least > 0 && !overflows(s, row->reach, row->half) &&
                 LARGEST_PHI * LARGEST_PHI * terms < s->job->arithmetic.largest;
    for (int64_t j = 0; known && j < row->n; j++)
        known = !overflows(s, s->reach[j], s->half[j]);
    return known;
}

/* Sums over the keys of a row, for a column of v. */
enum { MOVED, SIZE, SUM, FAR, HIGH, COLUMNS };

static void add_columns(const struct ref_performer *s, const struct ref_performer_row *row)
{
    memset(row->columns, 0, (size_t)(COLUMNS * s->dv) * sizeof *row->columns);
    for (int64_t j = 0; j < row->n; j++) {
        const double *v = s->v + j * s->dv;
        double *column = row->columns;
        for (int64_t d = 0; d < s->dv; d++, column += COLUMNS) {
            const double far = fabs(v[d] - row->out[d]), high = fabs(v[d]);
            column[MOVED] += row->moved[j] * far;
            column[SIZE] += row->upper[j] * high;
            column[SUM] += high;
            column[FAR] = ref_larger(far, column[FAR]);
            column[HIGH] = ref_larger(high, column[HIGH]);
        }
    }
}

static double error_of_column(const struct ref_performer *s, const struct ref_performer_row *row,
                              const struct sums *x, int64_t d)
{
    const struct ref_arithmetic *a = &s->job->arithmetic;
    const double out = fabs(row->out[d]), n = (double)row->n;
    const double *column = row->columns + COLUMNS * d;
    /* The computed weights are not negative, and they add up to so much at most. */
    const double whole = x->lower / x->least;
    const double moved = fmin(column[MOVED] / x->least, column[FAR] * whole);
    const double size =
        fmin((column[SIZE] + out * x->upper) / x->least, (column[HIGH] + out) * whole);
    const double e =
        moved + x->chain * size + (lost(s, x, n, column[SUM]) + out * lost(s, x, n, n)) / x->least;
    const double most = LARGEST_PHI * LARGEST_PHI * (double)s->m * column[SUM];
    if (most > a->largest || !(e < DBL_MAX))
        return INFINITY;
    return e + ref_growth(a, 1) * (out + e) + a->omega;
}

void ref_performer_bound(const struct ref_performer *s, const struct ref_performer_row *row,
                         double *error)
{
    const struct sums x = sum_up(s, row);
    const bool known = is_known(s, row, &x);
    add_columns(s, row);
    for (int64_t d = 0; d < s->dv; d++)
        error[d] = isnan(row->out[d]) ? 0 : known ? error_of_column(s, row, &x, d) : INFINITY;
}
