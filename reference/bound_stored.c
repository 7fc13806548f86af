/* SPDX-License-Identifier: Apache-2.0 */
/* bound_stored.c - what the rounding of stored p makes of out: rho of every column. */
#include <math.h>
#include <string.h>

#include "reference/bound_parts.h"
#include "reference/clones.h"

#define LOG2_E 1.44269504088896340736

ATTN_CLONES("avx2", "avx512f")
void ref_bound_order(const struct ref_arithmetic *a, const struct ref_softmax *row,
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

/* Sums of stored errors of a few columns: of all, of the bin at work, of the squares of all bins.
 */
struct stored {
    double all[REF_BOUND_COLUMNS], bin[REF_BOUND_COLUMNS], squares[REF_BOUND_COLUMNS];
};

/* As add_keys, bin by bin: store times |v - centre|, or |v| where that is larger and `either` may
 * be meant. The larger of two is half their sum and half their difference, and as a bin grows from
 * g to g + e its square grows by e (2 g + e): so there is no branch among the sums. */
static inline __attribute__((always_inline)) void
add_stored(const struct ref_softmax *row, const struct ref_keys *keys, const struct ref_scratch *x,
           const double *centre, int64_t from, struct stored *sums, int64_t width, bool errors,
           bool either)
{
    static const double zero[REF_BOUND_COLUMNS];
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
        double centre[REF_BOUND_COLUMNS];
        width = keys->dv - from < REF_BOUND_COLUMNS ? keys->dv - from : REF_BOUND_COLUMNS;
        for (int64_t c = 0; c < width; c++)
            centre[c] = a->denominator == 1 ? 0.0 : out[from + c];
        if (width < REF_BOUND_COLUMNS)
            add_stored(row, keys, x, centre, from, &sums, width, errors, either);
        else if (errors && either)
            add_stored(row, keys, x, centre, from, &sums, REF_BOUND_COLUMNS, true, true);
        else if (errors)
            add_stored(row, keys, x, centre, from, &sums, REF_BOUND_COLUMNS, true, false);
        else if (either)
            add_stored(row, keys, x, centre, from, &sums, REF_BOUND_COLUMNS, false, true);
        else
            add_stored(row, keys, x, centre, from, &sums, REF_BOUND_COLUMNS, false, false);
        for (int64_t c = 0; c < width; c++)
            x->column[3][from + c] =
                a->bins > 0 ? fmin(sums.all[c], a->lambda * sqrt(sums.squares[c])) : sums.all[c];
    }
}

void ref_bound_stored(const struct ref_arithmetic *a, const struct ref_softmax *row,
                      const struct ref_keys *keys, struct ref_scratch *x, const double *out)
{
    if (a->u_p > 0.0)
        sum_stored(a, row, keys, x, out);
    else
        memset(x->column[3], 0, (size_t)keys->dv * sizeof(double));
}
