/* SPDX-License-Identifier: Apache-2.0 */
/* products.c - sums over the columns of keys, and their errors. */
#include "reference/scores/products.h"

#include <math.h>
#include <string.h>

#include "reference/dtype.h"
#include "reference/sums.h"

void ref_score_dot(const struct ref_keys *keys, const double *t, int64_t begin, int64_t end,
                   double *s)
{
    memset(s + begin, 0, (size_t)(end - begin) * sizeof(*s));
    ref_add_rows(t, keys->kt + begin, keys->sk, NULL, keys->dk, end - begin, s + begin);
}

void ref_score_columns(const struct ref_score_span *x, const double *t, const double *k,
                       double *sum)
{
    ref_add_magnitudes(t, k + x->begin, x->keys->sk, NULL, x->keys->dk, x->end - x->begin,
                       sum + x->begin);
}

void ref_score_flush_partial(const struct ref_score_span *x, double products, double growth)
{
    const struct ref_arithmetic *a = x->a;
    const double unit = (1.0 + growth) * (a->partial_omega / a->omega);
    double *flush = x->scratch->flush;

    for (int64_t j = x->begin; a->partial > 0.0 && j < x->end; j++)
        flush[j] += unit * (a->ftz ? flush[j] : products);
}

/* What errors of q and k make of q.k: noise for those of k, in squares over the columns; spread for
 * those of q, which meet k with its error, in squares or as they are. */
static void add_squares(const struct ref_score_span *x, const double *q_error)
{
    struct ref_scratch *s = x->scratch;
    const struct ref_keys *keys = x->keys;
    const int64_t n = x->end - x->begin;
    const bool squares = keys->q_squares;
    double *factor = s->query[2];

    memset(s->noise + x->begin, 0, (size_t)n * sizeof(double));
    for (int64_t c = 0; c < keys->dk; c++)
        factor[c] = x->q[c] * x->q[c];
    ref_add_rows(factor, keys->k_spread_t + x->begin, keys->sk, NULL, keys->dk, n,
                 s->noise + x->begin);
    for (int64_t c = 0; c < keys->dk; c++)
        factor[c] = squares ? x->q_spread[c] * x->q_spread[c] : q_error[c];
    ref_add_rows(factor, keys->k_most_t + x->begin, keys->sk, NULL, keys->dk, n,
                 s->spread + x->begin);
    for (int64_t j = x->begin; j < x->end; j++)
        s->noise[j] = sqrt(s->noise[j]);
    for (int64_t j = x->begin; squares && j < x->end; j++)
        s->spread[j] = sqrt(s->spread[j]);
}

/* The same added up as they are, into spread: |t| ke + te (|k| + ke). */
static void add_errors(const struct ref_score_span *x, double *abs_t, const double *t_error)
{
    const struct ref_keys *keys = x->keys;

    ref_score_columns(x, t_error, keys->kt, x->scratch->spread);
    for (int64_t c = 0; c < keys->dk; c++)
        abs_t[c] += t_error[c];
    ref_score_columns(x, abs_t, keys->kt_error, x->scratch->spread);
}

void ref_score_dot_errors(const struct ref_score_span *x, double *abs_t, double *t_error,
                          double length)
{
    struct ref_scratch *s = x->scratch;
    const struct ref_keys *keys = x->keys;
    double g = ref_growth_partial(x->a, ref_growth_rounded(x->a, length));
    /* The sum of absolute values is that many times wider than a sum in squares, at most. */
    double lost = (double)(2 * keys->dk), wide = x->q_spread ? sqrt((double)keys->dk) : 1.0;
    size_t bytes = (size_t)(x->end - x->begin) * sizeof(double);

    memset(s->magnitude + x->begin, 0, bytes);
    memset(s->spread + x->begin, 0, bytes);
    ref_score_columns(x, abs_t, keys->kt, s->magnitude);
    for (int64_t c = 0; c < keys->dk; c++)
        lost += abs_t[c] + t_error[c];
    if (x->q_spread)
        add_squares(x, t_error);
    else if (keys->kt_error)
        add_errors(x, abs_t, t_error);
    for (int64_t j = x->begin; j < x->end; j++) {
        double off = x->q_spread ? ref_spread_of(keys, s, j) : s->spread[j];
        s->magnitude[j] += wide * off;
        s->ds[j] = g * s->magnitude[j] + off;
        s->flush[j] += lost;
    }
    /* Of q^T M k the last product may be that with q. */
    ref_score_flush_partial(x, (double)(keys->dk > keys->dq ? keys->dk : keys->dq), g);
}

void ref_score_sizes(const struct ref_keys *keys, const double *w, int64_t begin, int64_t end,
                     double *size, double *off)
{
    int64_t n = end - begin;

    memset(size, 0, (size_t)n * sizeof(*size));
    memset(off, 0, (size_t)n * sizeof(*off));
    ref_add_magnitudes(w, keys->kt + begin, keys->sk, NULL, keys->dk, n, size);
    if (!keys->kt_error)
        return;
    ref_add_magnitudes(w, keys->kt_error + begin, keys->sk, NULL, keys->dk, n, off);
    for (int64_t j = 0; j < n; j++)
        size[j] += off[j];
}

void ref_score_raise(double *most, const double *x, int64_t n)
{
    for (int64_t j = 0; j < n; j++)
        most[j] = x[j] > most[j] || isnan(x[j]) ? x[j] : most[j];
}

double ref_score_length(const struct attn_tensor *tensor, const int64_t *at, int64_t width)
{
    const int64_t step = tensor->stride[tensor->rank - 1];
    int64_t index = 0;
    double sum = 0;

    for (uint32_t axis = 0; axis + 1 < tensor->rank; axis++)
        index += at[axis] * tensor->stride[axis];
    for (int64_t c = 0; c < width; c++) {
        const double value = attn_dtype_load(tensor->dtype, tensor->data, index + c * step);
        sum += value * value;
    }
    return sqrt(sum);
}

void ref_score_norm_partial(const struct ref_arithmetic *x, double growth, double products,
                            struct ref_score_norm *s)
{
    const double g = ref_growth_partial(x, growth);

    s->ds = g * s->most;
    if (x->partial > 0)
        s->lost += (1 + g) * (x->partial_omega / x->omega) * (x->ftz ? s->lost : products);
}
