/* SPDX-License-Identifier: Apache-2.0 */
/* spread.c - errors of projections on generic fills, where they add in squares: how far they spread
 * times lambda. Derived in OP.md. */
#include <math.h>
#include <string.h>

#include "reference/ops/mha/mha.h"
#include "reference/parallel.h"
#include "reference/sums.h"

/* Rows that a thread takes at a time. */
#define ROWS 8

/* lambda times the spread of the error of y. Of `error` the store is one rounding, bounded by
 * itself; the rest is a sum of many. `grown`: what stands in `error` may be the worst case, which
 * is less for short chains; and each rounding is that of a sum with its error. */
static double spread_of(const struct ref_arithmetic *a, double grown, double y, double error)
{
    const double once = a->u_proj * fabs(y) + a->eta_proj;
    const double chain = fmax(error - once, 0.0) + 0x1p-50 * error;
    const double store = fmin(once + a->u_proj * error, error);

    return sqrt(grown * grown * chain * chain + a->lambda * a->lambda * store * store);
}

void ref_mha_spread(const struct ref_arithmetic *a, const struct ref_projection *p, double *spread)
{
    const double length = (double)(p->in + 2);
    const double likely = ref_growth_likely(a, length), worst = ref_growth_worst(a, length);
    const double grown = fmax(likely / worst, 1.0) * (1.0 + fmin(likely, worst));

    for (int64_t x = 0; x < p->rows * p->out; x++)
        spread[x] = spread_of(a, grown, p->y[x], p->y_error[x]);
}

void ref_mha_spread_keys(const struct ref_arithmetic *a, const struct ref_projection *p,
                         const struct ref_keys *keys, double *spread)
{
    ref_mha_spread(a, p, spread);
    for (int64_t x = 0; x < p->rows * p->out; x++)
        spread[x] *= spread[x];
    ref_transpose(spread, keys->sk, keys->dk, 0, keys->sk, keys->k_spread_t);
    for (int64_t x = 0; x < keys->dk * keys->sk; x++) {
        const double most = fabs(keys->kt[x]) + keys->kt_error[x];
        keys->k_most_t[x] = ref_squares_stored(a, keys->dk) ? most * most : most;
    }
}

/* What the rows of the heads share on their way through W_o. */
struct joining {
    const struct ref_projection *p;
    double *error;  /* [rows, in]: of the heads; squared here */
    double *square; /* [rows, out] */
    double *grown;  /* [out]: what the root of the squares is multiplied by */
};

static void join_rows(void *context, int64_t begin, int64_t end)
{
    const struct joining *x = context;
    const struct ref_projection *p = x->p;

    for (int64_t r = begin; r < end; r++) {
        double *error = x->error + r * p->in, *square = x->square + r * p->out;
        for (int64_t i = 0; i < p->in; i++)
            error[i] *= error[i];
        memset(square, 0, (size_t)p->out * sizeof(*square));
        ref_add_rows(error, p->wt, p->out, NULL, p->in, p->out, square);
        for (int64_t c = 0; c < p->out; c++) {
            const double e = p->y_error[r * p->out + c] + x->grown[c] * sqrt(square[c]);
            p->y_error[r * p->out + c] = isnan(e) ? INFINITY : e;
        }
    }
}

void ref_mha_join(const struct ref_job *job, const struct ref_projection *p, double *error,
                  double *square)
{
    struct joining joining = {p, error, square, p->unit_w}; /* which is not needed any more */
    const double length = (double)(p->in + 2), rounded = ref_growth_rounded(p->a, length);

    /* The sum of n errors is at most sqrt(n) times the root of their squares; the roundings of the
     * projection meet the heads with their errors. */
    for (int64_t c = 0; c < p->out; c++) {
        double n = 0.0;
        for (int64_t i = 0; i < p->in; i++)
            n += p->w[c * p->in + i] != 0.0;
        joining.grown[c] = sqrt(n) * rounded + fmin(sqrt(n), p->a->lambda);
    }
    for (int64_t x = 0; x < p->in * p->out; x++)
        p->wt[x] *= p->wt[x];
    attn_parallel_for(job->threads, p->rows, ROWS, join_rows, &joining);
}
