/* SPDX-License-Identifier: Apache-2.0 */
/* gaussian.c - -0.5 |q - k|^2. */
#include <math.h>

#include "reference/clones.h"
#include "reference/scores/products.h"

/* Keys whose sums stay in the first-level cache while all columns pass. */
#define KEYS 512

ATTN_CLONES("avx2", "avx512f")
static void add_squares(const struct ref_keys *keys, const double *q, int64_t begin, int64_t end,
                        double *restrict s)
{
    for (int64_t from = begin; from < end; from += KEYS) {
        int64_t to = from + KEYS < end ? from + KEYS : end;
        for (int64_t j = from; j < to; j++)
            s[j] = 0.0;
        for (int64_t c = 0; c < keys->dk; c++) {
            const double *k = keys->kt + c * keys->sk, qc = q[c];
            for (int64_t j = from; j < to; j++)
                s[j] += (qc - k[j]) * (qc - k[j]);
        }
        for (int64_t j = from; j < to; j++)
            s[j] *= -0.5;
    }
}

static void scores(const struct ref_block *block, int64_t i, const double *q, const double *q_error,
                   int64_t begin, int64_t end, struct ref_scratch *scratch)
{
    (void)i, (void)q_error;
    add_squares(block->keys, q, begin, end, scratch->score[0]);
}

/* magnitude adds up the squares that a backend does, spread the widest that go into one. */
ATTN_CLONES("avx2", "avx512f")
static void errors(const struct ref_score_span *x)
{
    const struct ref_keys *keys = x->keys;
    const bool by_norms = x->a->by_norms;
    double *restrict ds = x->scratch->ds, *restrict magnitude = x->scratch->magnitude;
    double *restrict spread = x->scratch->spread, *flush = x->scratch->flush;
    double g = ref_growth_partial(x->a, ref_growth(x->a, (double)(keys->dk + 5))), q_size = 0.0;

    for (int64_t c = 0; c < keys->dk; c++)
        q_size += fabs(x->q[c]) + ref_score_error_of(x->q_error, c);
    for (int64_t from = x->begin; from < x->end; from += KEYS) {
        int64_t to = from + KEYS < x->end ? from + KEYS : x->end;
        for (int64_t j = from; j < to; j++)
            ds[j] = magnitude[j] = spread[j] = 0.0;
        for (int64_t c = 0; c < keys->dk; c++) {
            const double *k = keys->kt + c * keys->sk;
            const double *ke = keys->kt_error ? keys->kt_error + c * keys->sk : NULL;
            double q = x->q[c], qe = ref_score_error_of(x->q_error, c);
            for (int64_t j = from; j < to; j++) {
                double e = ke ? qe + ke[j] : qe;
                double apart = fabs(q - k[j]), wide = fabs(q) + fabs(k[j]) + e;
                double term = by_norms ? wide : apart + e;
                ds[j] += (apart + 0.5 * e) * e;
                magnitude[j] += term * term;
                spread[j] += wide * wide;
            }
        }
        for (int64_t j = from; j < to; j++) {
            ds[j] += 0.5 * g * magnitude[j] + (1.0 + g) * x->a->u_in * spread[j];
            flush[j] = 2.0 * (q_size + keys->k_size[j]) + (double)(4 * keys->dk + 4);
        }
    }
    ref_score_flush_partial(x, (double)(2 * keys->dk),
                            g); /* by norms: half of two, and one whole */
}

static void norm(const struct attn_problem *p, const struct ref_arithmetic *x, const double *part,
                 double q, double k, struct ref_score_norm *s)
{
    const double dk = (double)p->dk;

    (void)part;
    s->most = 0.5 * (q + k) * (q + k);
    s->lost = 4 * dk + 4 + 2 * (sqrt((double)p->dq) * q + sqrt(dk) * k);
    ref_score_norm_partial(x, ref_growth_rounded(x, dk + 5), 2 * dk, s);
    s->size = 2 * s->most;
}

static const uint32_t params[] = {0};

const struct ref_score ref_score_gaussian = {
    .score = ATTN_SCORE_GAUSSIAN,
    .name = "gaussian",
    .meaning = "-0.5 |q - k|^2",
    .traits = REF_SCORE_PARTIAL | REF_SCORE_DISTANCE,
    .params = params,
    .scores = scores,
    .errors = errors,
    .norm = norm,
};
