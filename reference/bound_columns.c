/* SPDX-License-Identifier: Apache-2.0 */
/* bound_columns.c - sums over the keys of a row, and their largest terms, for every column of out.
 */
#include <math.h>
#include <string.h>

#include "reference/bound_parts.h"
#include "reference/clones.h"

/* Sums over the keys of a few columns, as many as the registers hold. */
struct columns {
    double e1[REF_BOUND_COLUMNS], size[REF_BOUND_COLUMNS],
        v[REF_BOUND_COLUMNS]; /* E1, A, sum |v| */
    double squares[REF_BOUND_COLUMNS],
        own[REF_BOUND_COLUMNS]; /* of what of E1 adds in squares: of k, of v */
};

/* Adds all keys to `width` columns from `from` on. A dropped key has v = 0, whatever stands there;
 * its p is still in the denominator. `errors`: v is not exact. Inlined where the last two are
 * known, so that the sums stay in registers. */
static inline __attribute__((always_inline)) void
add_keys(const struct ref_softmax *row, const struct ref_keys *keys, const struct ref_scratch *x,
         const double *out, int64_t from, struct columns *sums, int64_t width, bool errors)
{
    static const double zero[REF_BOUND_COLUMNS];
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
    static const double zero[REF_BOUND_COLUMNS];
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
        width = keys->dv - from < REF_BOUND_COLUMNS ? keys->dv - from : REF_BOUND_COLUMNS;
        for (int64_t c = 0; row->sink && c < width; c++)
            sums.e1[c] = x->growth[row->n] * fabs(out[from + c]);
        if (width == REF_BOUND_COLUMNS && squares)
            add_spread_keys(row, keys, x, rest, out + from, from, &sums, REF_BOUND_COLUMNS);
        else if (squares)
            add_spread_keys(row, keys, x, rest, out + from, from, &sums, width);
        else if (width == REF_BOUND_COLUMNS && !keys->v_error)
            add_keys(row, keys, x, out + from, from, &sums, REF_BOUND_COLUMNS, false);
        else if (width == REF_BOUND_COLUMNS)
            add_keys(row, keys, x, out + from, from, &sums, REF_BOUND_COLUMNS, true);
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

/* What of a key's growth adds in squares over the keys: the linear part of what errors of k make of
 * its score, which are others for each key. The rest adds up as it is. */
static void split_growth(const struct ref_softmax *row, const struct ref_row_bound *bound,
                         const struct ref_keys *keys, struct ref_scratch *x)
{
    for (int64_t t = 0; t < row->n; t++) {
        const int64_t j = x->key[t];
        const double p = ref_divide(x->p[t], bound->least);
        x->random[t] = keys->k_spread_t ? p * x->noise[j] : 0.0;
        if (keys->k_spread_t)
            x->rest[t] = fmax(x->growth[t] - p * (ref_spread_of(keys, x, j) - x->spread[j]), 0.0);
    }
}

void ref_bound_columns(const struct ref_arithmetic *a, const struct ref_softmax *row,
                       const struct ref_row_bound *bound, const struct ref_keys *keys,
                       struct ref_scratch *x, const double *out)
{
    if (keys->v_spread)
        split_growth(row, bound, keys, x);
    sum_columns(a, row, keys, x, out);
    raise_columns(row, bound, keys, x, out);
}
