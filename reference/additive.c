/* SPDX-License-Identifier: Apache-2.0 */
/* additive.c - additive scores, w_v^T tanh(W_q q + W_k k), and how far a backend's may be from
 * them. One tanh a hidden unit and key serves both: nothing else costs as much. */
#include <math.h>

#include "reference/clones.h"
#include "reference/job.h"
#include "reference/sums.h"
#include "reference/tanh.h"

/* Keys whose sums stay in the first-level cache while all hidden units pass. */
#define KEYS 512

/* What the hidden units have of the query: z = W_q q, and with bounds what a backend makes of it,
 * and the sum of its absolute terms. */
ATTN_CLONES("avx2", "avx512f")
static void load_units(const struct ref_block *block, const double *q, const double *q_error,
                       struct ref_scratch *scratch)
{
    const struct ref_keys *keys = block->keys;
    const struct ref_arithmetic *a = &block->job->arithmetic;
    const bool bounds = block->job->bounds;
    const double g = bounds ? ref_growth_rounded(a, (double)(keys->dq + keys->dk + 1)) : 0.0;
    double *z = scratch->hidden[0], *error = scratch->hidden[1], *size = scratch->hidden[2];

    for (int64_t x = 0; x < keys->dh; x++)
        z[x] = error[x] = size[x] = 0.0;
    ref_add_rows(q, keys->w_qt, keys->dh, NULL, keys->dq, keys->dh, z);
    for (int64_t c = 0; bounds && c < keys->dq; c++) {
        const double *w = keys->w_qt + c * keys->dh;
        const double e = q_error ? q_error[c] : 0.0, abs_q = fabs(q[c]) + e;
        for (int64_t x = 0; x < keys->dh; x++) {
            double abs_w = fabs(w[x]);
            size[x] += abs_w * abs_q;
            error[x] += g * abs_w * abs_q + abs_w * e + a->omega * (2.0 + abs_w + abs_q);
        }
    }
}

/* One hidden unit more in the scores of n keys, its part of the query being z; t: its tanh. */
ATTN_CLONES("avx2", "avx512f")
static void add_unit(double w, double z, const double *hidden, int64_t n, double *restrict s,
                     double *restrict t)
{
    for (int64_t j = 0; j < n; j++) {
        t[j] = ref_tanh_of(z + hidden[j]);
        s[j] += w * t[j];
    }
}

/* The same for ds and magnitude, from the errors of the unit's two parts. */
ATTN_CLONES("avx2", "avx512f")
static void add_unit_error(const struct ref_arithmetic *a, double w, double g, const double *t,
                           double query_error, const double *key_error, int64_t n,
                           double *restrict ds, double *restrict magnitude)
{
    const double e_tanh = a->e_tanh;

    for (int64_t j = 0; j < n; j++) {
        double e = ref_tanh_spread(t[j], query_error + key_error[j]);
        e += e_tanh * (fabs(t[j]) + e);
        ds[j] += w * e + g * w * (fabs(t[j]) + e);
        magnitude[j] += w * (fabs(t[j]) + e);
    }
}

void ref_scores_additive(const struct ref_block *block, const double *q, const double *q_error,
                         int64_t begin, int64_t end, struct ref_scratch *scratch)
{
    const struct ref_keys *keys = block->keys;
    const struct ref_arithmetic *a = &block->job->arithmetic;
    const bool bounds = block->job->bounds;
    const double g = bounds ? ref_growth_rounded(a, (double)(keys->dh + 3)) : 0.0;
    const double *z = scratch->hidden[0], *error = scratch->hidden[1], *size = scratch->hidden[2];
    double *s = scratch->score[0], *ds = scratch->ds, *magnitude = scratch->magnitude, flush = 0.0;
    double t[KEYS];

    load_units(block, q, q_error, scratch);
    for (int64_t j = begin; j < end; j++)
        s[j] = ds[j] = magnitude[j] = 0.0;
    for (int64_t from = begin; from < end; from += KEYS)
        for (int64_t x = 0; x < keys->dh; x++) {
            const int64_t n = end - from < KEYS ? end - from : KEYS, at = x * keys->sk + from;
            add_unit(keys->w_v[x], z[x], keys->hidden + at, n, s + from, t);
            if (bounds)
                add_unit_error(a, fabs(keys->w_v[x]), g, t, error[x], keys->hidden_error + at, n,
                               ds + from, magnitude + from);
        }
    scratch->inner = 0.0;
    for (int64_t x = 0; x < keys->dh; x++) {
        flush += 3.0 + fabs(keys->w_v[x]);
        if (!(size[x] <= scratch->inner)) /* NaN stays: what is not known to be small is not */
            scratch->inner = size[x];
    }
    for (int64_t j = begin; j < end; j++)
        scratch->flush[j] = flush;
}
