/* SPDX-License-Identifier: Apache-2.0 */
/* score_error.c - ds_ij of BOUND.md: how far the scores of a backend may be from ours. */
#include <math.h>
#include <string.h>

#include "reference/clones.h"
#include "reference/job.h"
#include "reference/sums.h"

/* Keys whose sums stay in the first-level cache while all columns pass. */
#define KEYS 512

/* The range of keys, the query and the arithmetic of one call. */
struct span {
    const struct ref_keys *keys;
    const struct ref_arithmetic *a;
    struct ref_scratch *scratch;
    const double *q, *q_error;
    int64_t begin, end;
};

/* The larger, or NaN where either is: what is not known to be small is not. */
static double largest(double x, double y)
{
    return x > y || isnan(x) ? x : y;
}

static double error_of(const double *array, int64_t index)
{
    return array ? array[index] : 0.0;
}

/* x_j += sum_c |t_c k_cj|, k being kt or kt_error. */
static void add_columns(const struct span *x, const double *t, const double *k, double *sum)
{
    ref_add_magnitudes(t, k + x->begin, x->keys->sk, NULL, x->keys->dk, x->end - x->begin,
                       sum + x->begin);
}

/* Every kind of score leaves in scratch, for the raw score: ds without what underflows lose,
 * magnitude, which bounds every partial sum, and flush, what underflows lose in units of omega. A
 * product and an addition may each lose one. */

/* A partial sum may lose an underflow a product, `products` of them by what stands before, and
 * `growth` is what the rest of the sum makes of it. Where subnormals are flushed its operands and
 * its results are, as those of the accumulation. */
static void flush_partial(const struct span *x, double products, double growth)
{
    const struct ref_arithmetic *a = x->a;
    const double unit = (1.0 + growth) * (a->partial_omega / a->omega);
    double *flush = x->scratch->flush;

    for (int64_t j = x->begin; a->partial > 0.0 && j < x->end; j++)
        flush[j] += unit * (a->ftz ? flush[j] : products);
}

/* s = t.k, where t = q, or q^T M, in `length` operations a term. `abs_t` and `t_error` bound |t|
 * and its error; both are in scratch, and are used up. flush is on top of what is there. */
static void dot_errors(const struct span *x, double *abs_t, double *t_error, double length)
{
    struct ref_scratch *s = x->scratch;
    const struct ref_keys *keys = x->keys;
    double g = ref_growth_partial(x->a, ref_growth_rounded(x->a, length));
    double lost = (double)(2 * keys->dk);
    size_t bytes = (size_t)(x->end - x->begin) * sizeof(double);

    memset(s->magnitude + x->begin, 0, bytes);
    memset(s->spread + x->begin, 0, bytes);
    add_columns(x, abs_t, keys->kt, s->magnitude);
    for (int64_t c = 0; c < keys->dk; c++)
        lost += abs_t[c] + t_error[c];
    if (keys->kt_error) { /* |t| ke + te (|k| + ke) */
        add_columns(x, t_error, keys->kt, s->spread);
        for (int64_t c = 0; c < keys->dk; c++)
            abs_t[c] += t_error[c];
        add_columns(x, abs_t, keys->kt_error, s->spread);
    }
    for (int64_t j = x->begin; j < x->end; j++) {
        s->magnitude[j] += s->spread[j];
        s->ds[j] = g * s->magnitude[j] + s->spread[j];
        s->flush[j] += lost;
    }
    /* Of q^T M k the last product may be that with q. */
    flush_partial(x, (double)(keys->dk > keys->dq ? keys->dk : keys->dq), g);
}

static void errors_dot(const struct span *x)
{
    double *abs_t = x->scratch->query[0], *t_error = x->scratch->query[1];

    for (int64_t c = 0; c < x->keys->dk; c++) {
        abs_t[c] = fabs(x->q[c]);
        t_error[c] = error_of(x->q_error, c);
    }
    memcpy(x->scratch->flush + x->begin, x->keys->k_size + x->begin,
           (size_t)(x->end - x->begin) * sizeof(double));
    dot_errors(x, abs_t, t_error, (double)(x->keys->dk + 3));
}

/* As a dot product of |q|^T |M| and k, with dq more operations a term. */
static void errors_bilinear(const struct span *x)
{
    const struct ref_keys *keys = x->keys;
    struct ref_scratch *s = x->scratch;
    double *abs_t = s->query[0], *t_error = s->query[1], *flush = s->query[2];

    for (int64_t d = 0; d < keys->dk; d++) {
        abs_t[d] = t_error[d] = 0.0;
        flush[d] = 1.0;
    }
    for (int64_t c = 0; c < keys->dq; c++) {
        double qe = error_of(x->q_error, c), q = fabs(x->q[c]);
        for (int64_t d = 0; d < keys->dk; d++) {
            double m = fabs(keys->m[c * keys->dk + d]);
            abs_t[d] += q * m;
            t_error[d] += qe * m;
            flush[d] += 2.0 + q + qe + m;
        }
    }
    s->inner = 0.0;
    for (int64_t d = 0; d < keys->dk; d++)
        s->inner = largest(s->inner, abs_t[d] + t_error[d]);
    memset(s->flush + x->begin, 0, (size_t)(x->end - x->begin) * sizeof(double));
    add_columns(x, flush, keys->kt, s->flush);
    if (keys->kt_error)
        add_columns(x, flush, keys->kt_error, s->flush);
    dot_errors(x, abs_t, t_error, (double)(keys->dq + keys->dk + 3));
}

/* magnitude adds up the squares that a backend does, spread the widest that go into one. */
ATTN_CLONES("avx2", "avx512f")
static void errors_gaussian(const struct span *x)
{
    const struct ref_keys *keys = x->keys;
    const bool by_norms = x->a->by_norms;
    double *restrict ds = x->scratch->ds, *restrict magnitude = x->scratch->magnitude;
    double *restrict spread = x->scratch->spread, *flush = x->scratch->flush;
    double g = ref_growth_partial(x->a, ref_growth(x->a, (double)(keys->dk + 5))), q_size = 0.0;

    for (int64_t c = 0; c < keys->dk; c++)
        q_size += fabs(x->q[c]) + error_of(x->q_error, c);
    for (int64_t from = x->begin; from < x->end; from += KEYS) {
        int64_t to = from + KEYS < x->end ? from + KEYS : x->end;
        for (int64_t j = from; j < to; j++)
            ds[j] = magnitude[j] = spread[j] = 0.0;
        for (int64_t c = 0; c < keys->dk; c++) {
            const double *k = keys->kt + c * keys->sk;
            const double *ke = keys->kt_error ? keys->kt_error + c * keys->sk : NULL;
            double q = x->q[c], qe = error_of(x->q_error, c);
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
    flush_partial(x, (double)(2 * keys->dk), g); /* by norms: half of two, and one whole */
}

/* Steps 2 and 3 on top of the error of the raw score. A kernel over exp2 has log2 e in the scale,
 * or multiplies by it once more after softcap and bias. */
static void errors_of_stages(const struct ref_block *block, int64_t i, const struct span *x)
{
    const struct ref_operands *operands = &block->job->operands;
    const struct attn_problem *problem = operands->problem;
    const struct attn_tensor *bias = operands->by_role[ATTN_BIAS];
    const struct attn_tensor *alibi = operands->by_role[ATTN_ALIBI];
    const struct ref_arithmetic *a = x->a;
    const bool softcap = problem->flags & ATTN_FLAG_SOFTCAP;
    double slope = alibi ? fabs(ref_load(alibi, &block->h)) : 0.0, scale = fabs(problem->scale);
    double added = (bias ? 1.0 : 0.0) + (alibi ? 1.0 : 0.0), four = ref_growth(a, 4.0);
    double squash = four + a->e_tanh * (1.0 + four), after = ref_growth(a, added + softcap);
    double on_bias = ref_growth(a, added + 2.0), on_alibi = ref_growth(a, added + 4.0);
    double on_flush = scale > 1.0 ? scale : 1.0, cap = problem->softcap;
    int64_t diagonal = i + ref_offset(operands, block->b);
    const struct ref_scratch *scratch = x->scratch;
    const double *s1 = scratch->score[1], *s2 = scratch->score[2];
    double *ds = scratch->ds;

    for (int64_t j = x->begin; j < x->end; j++)
        ds[j] =
            scale * ds[j] + a->omega * (on_flush * scratch->flush[j] + scratch->magnitude[j] + 4.0);
    for (int64_t j = x->begin; softcap && j < x->end; j++) {
        ds[j] = ds[j] < 2.0 * cap ? ds[j] : 2.0 * cap;
        ds[j] += squash * (fabs(s1[j]) + ds[j]) + a->omega * (2.0 + 2.0 * cap);
    }
    for (int64_t j = x->begin; j < x->end; j++)
        ds[j] += after * (fabs(s1[j]) + ds[j]);
    for (int64_t j = x->begin; bias && j < x->end; j++)
        ds[j] += on_bias * fabs(scratch->bias[j]);
    for (int64_t j = x->begin; alibi && j < x->end; j++)
        ds[j] += on_alibi * slope * fabs((double)(diagonal - j));
    for (int64_t j = x->begin; j < x->end; j++) {
        double most = fabs(s1[j]) > fabs(s2[j]) ? fabs(s1[j]) : fabs(s2[j]);
        ds[j] += a->u_s * (most + ds[j]) + a->eta_s;
    }
}

void ref_score_errors(const struct ref_block *block, int64_t i, const double *q,
                      const double *q_error, int64_t begin, int64_t end,
                      struct ref_scratch *scratch)
{
    struct span x = {block->keys, &block->job->arithmetic, scratch, q, q_error, begin, end};

    switch (block->job->operands.problem->score) {
    case ATTN_SCORE_BILINEAR:
        errors_bilinear(&x);
        break;
    case ATTN_SCORE_GAUSSIAN:
        errors_gaussian(&x);
        break;
    case ATTN_SCORE_ADDITIVE: /* with the scores */
        break;
    default:
        errors_dot(&x);
    }
    errors_of_stages(block, i, &x);
}

bool ref_scores_overflow(const struct ref_block *block, const double *q,
                         const struct ref_scratch *scratch, int64_t n)
{
    const struct attn_problem *problem = block->job->operands.problem;
    const struct ref_arithmetic *a = &block->job->arithmetic;
    const bool product =
        problem->score != ATTN_SCORE_GAUSSIAN && problem->score != ATTN_SCORE_ADDITIVE;
    const bool partial = a->partial > 0.0 && problem->score != ATTN_SCORE_ADDITIVE;
    const double *reach = block->keys->reach;
    double scale = fabs(problem->scale), most = scale, on_sum, on_partial;

    if (problem->flags & ATTN_FLAG_SOFTCAP) {
        scale *= fmax(1.0, 1.0 / problem->softcap); /* the two may be one factor */
        most = fmax(scale, problem->softcap);
    }
    for (int64_t c = 0; product && c < problem->dq; c++) /* q may be scaled first */
        most = fmax(most, fabs(q[c]) * scale);
    on_sum = scale > 1.0 ? scale : 1.0;
    on_partial = fmax(1.0, scale * M_LOG2E) * (1.0 + a->partial);
    for (int64_t t = 0; t < n; t++) {
        const int64_t j = scratch->key[t];
        const double *const s[] = {scratch->score[0], scratch->score[1], scratch->score[2]};
        double stored = 0.0;
        if (!isfinite(s[2][j]))
            continue; /* that is by the inputs' doing */
        for (int stage = 0; stage < 3; stage++)
            stored = largest(stored, fabs(s[stage][j]) + scratch->ds[j]);
        if (!(stored <= a->score_largest))
            return true;
        if (partial && !(scratch->magnitude[j] * on_partial <= a->partial_largest))
            return true;
        /* The sum of absolute values, so that no order of its terms is left out. */
        most = largest(most, stored);
        most = largest(most, scratch->magnitude[j] * on_sum);
        if (reach) /* q^T M k in either order; the two halves of a hidden unit in one sum */
            most = largest(most, scratch->inner + reach[j]);
    }
    /* Kernels over exp2 multiply by log2 e. */
    return !(most * M_LOG2E <= a->largest);
}
