/* SPDX-License-Identifier: Apache-2.0 */
/* score_error.c - ds_ij of BOUND.md: how far the scores of a backend may be from ours. */
#include <math.h>
#include <string.h>

#include "reference/job.h"

#define KEY_BLOCK 512

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

/* Every kind of score leaves in scratch, for the raw score: ds without what underflows lose,
 * magnitude, which bounds every partial sum, and flush, what underflows lose in units of omega. A
 * product and an addition may each lose one. */

/* s = t.k, where t = q, or q^T M: magnitude gets the sum of |t||k|, spread what the errors of the
 * two alone do to s, flush the sum of |k| times what its flush to zero costs. `abs_t` and `t_error`
 * bound |t| and its error. */
static void dot_sums(const struct span *x, const double *abs_t, const double *t_error,
                     const double *flush)
{
    struct ref_scratch *s = x->scratch;
    const struct ref_keys *keys = x->keys;

    for (int64_t from = x->begin; from < x->end; from += KEY_BLOCK) {
        int64_t to = from + KEY_BLOCK < x->end ? from + KEY_BLOCK : x->end;
        size_t bytes = (size_t)(to - from) * sizeof(double);
        memset(s->magnitude + from, 0, bytes);
        memset(s->spread + from, 0, bytes);
        memset(s->flush + from, 0, bytes);
        for (int64_t c = 0; c < keys->dk; c++) {
            const double *k = keys->kt + c * keys->sk;
            double *magnitude = s->magnitude, *spread = s->spread, *lost = s->flush;
            double tc = abs_t[c], te = t_error[c], fc = flush[c];
            for (int64_t j = from; j < to; j++) {
                magnitude[j] += tc * fabs(k[j]);
                lost[j] += fc * fabs(k[j]);
            }
            if (!keys->kt_error)
                continue;
            const double *ke = keys->kt_error + c * keys->sk;
            for (int64_t j = from; j < to; j++) {
                spread[j] += tc * ke[j] + te * (fabs(k[j]) + ke[j]);
                lost[j] += fc * ke[j];
            }
        }
    }
}

/* ds of a dot product of `length` operations a term, after dot_sums. */
static void dot_errors(const struct span *x, double length, double flush_constant)
{
    struct ref_scratch *s = x->scratch;
    double g = ref_growth_rounded(x->a, length);

    for (int64_t j = x->begin; j < x->end; j++) {
        s->magnitude[j] += s->spread[j];
        s->ds[j] = g * s->magnitude[j] + s->spread[j];
        s->flush[j] += flush_constant;
    }
}

static void errors_dot(const struct span *x)
{
    double *abs_t = x->scratch->query[0], *t_error = x->scratch->query[1];
    double *flush = x->scratch->query[2], sum = 0.0;
    int64_t dk = x->keys->dk;

    for (int64_t c = 0; c < dk; c++) {
        abs_t[c] = fabs(x->q[c]);
        t_error[c] = error_of(x->q_error, c);
        flush[c] = 1.0;
        sum += abs_t[c] + t_error[c];
    }
    dot_sums(x, abs_t, t_error, flush);
    dot_errors(x, (double)(dk + 3), (double)(2 * dk) + sum);
}

/* As a dot product of |q|^T |M| and k, with dq more operations a term. */
static void errors_bilinear(const struct span *x)
{
    const struct ref_keys *keys = x->keys;
    double *abs_t = x->scratch->query[0], *t_error = x->scratch->query[1];
    double *flush = x->scratch->query[2], sum = 0.0;

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
    x->scratch->inner = 0.0;
    for (int64_t d = 0; d < keys->dk; d++) {
        sum += abs_t[d] + t_error[d];
        x->scratch->inner = largest(x->scratch->inner, abs_t[d] + t_error[d]);
    }
    dot_sums(x, abs_t, t_error, flush);
    dot_errors(x, (double)(keys->dq + keys->dk + 3), (double)(2 * keys->dk) + sum);
}

static void errors_gaussian(const struct span *x)
{
    const struct ref_keys *keys = x->keys;
    struct ref_scratch *s = x->scratch;
    double g = ref_growth(x->a, (double)(keys->dk + 5));

    for (int64_t j = x->begin; j < x->end; j++) {
        s->ds[j] = s->magnitude[j] = 0.0;
        s->flush[j] = (double)(4 * keys->dk + 4);
    }
    for (int64_t c = 0; c < keys->dk; c++) {
        const double *k = keys->kt + c * keys->sk;
        double q = x->q[c], qe = error_of(x->q_error, c);
        for (int64_t j = x->begin; j < x->end; j++) {
            double e = qe + error_of(keys->kt_error, c * keys->sk + j);
            double apart = fabs(q - k[j]), wide = fabs(q) + fabs(k[j]) + e;
            double term = x->a->by_norms ? wide : apart + e;
            s->ds[j] += (apart + 0.5 * e) * e + 0.5 * g * term * term +
                        (1.0 + g) * x->a->u_in * wide * wide;
            s->magnitude[j] += term * term;
            s->flush[j] += 2.0 * wide;
        }
    }
}

/* z = W_q q for one hidden unit, the bound on what a backend makes of it, and the sum of its
 * absolute terms. */
static double hidden_query(const struct span *x, int64_t unit, double *error, double *size)
{
    const struct ref_keys *keys = x->keys;
    double g = ref_growth_rounded(x->a, (double)(keys->dq + keys->dk + 1)), z = 0.0;

    *error = *size = 0.0;
    for (int64_t c = 0; c < keys->dq; c++) {
        double w = keys->w_q[unit * keys->dq + c], e = error_of(x->q_error, c);
        double abs_q = fabs(x->q[c]) + e;
        z += w * x->q[c];
        *size += fabs(w) * abs_q;
        *error += g * fabs(w) * abs_q + fabs(w) * e + x->a->omega * (2.0 + fabs(w) + abs_q);
    }
    return z;
}

static void errors_additive(const struct span *x)
{
    const struct ref_keys *keys = x->keys;
    double g = ref_growth_rounded(x->a, (double)(keys->dh + 3));
    struct ref_scratch *s = x->scratch;

    s->inner = 0.0;
    for (int64_t j = x->begin; j < x->end; j++)
        s->ds[j] = s->magnitude[j] = s->flush[j] = 0.0;
    for (int64_t unit = 0; unit < keys->dh; unit++) {
        const double *hidden = keys->hidden + unit * keys->sk;
        const double *hidden_error = keys->hidden_error + unit * keys->sk;
        double query_error, size, w = fabs(keys->w_v[unit]);
        double z = hidden_query(x, unit, &query_error, &size);
        s->inner = largest(s->inner, size);
        for (int64_t j = x->begin; j < x->end; j++) {
            double t = tanh(z + hidden[j]);
            double e = ref_tanh_spread(t, query_error + hidden_error[j]);
            e += x->a->e_tanh * (fabs(t) + e);
            s->ds[j] += w * e + g * w * (fabs(t) + e);
            s->magnitude[j] += w * (fabs(t) + e);
            s->flush[j] += 3.0 + w;
        }
    }
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
    int64_t diagonal = i + ref_offset(operands, block->b);
    double *const *s = x->scratch->score, *ds = x->scratch->ds;

    for (int64_t j = x->begin; j < x->end; j++) {
        double lost = fmax(1.0, scale) * x->scratch->flush[j] + x->scratch->magnitude[j] + 4.0;
        ds[j] = scale * ds[j] + a->omega * lost;
        if (softcap) {
            ds[j] = fmin(ds[j], 2.0 * problem->softcap);
            ds[j] += squash * (fabs(s[1][j]) + ds[j]) + a->omega * (2.0 + 2.0 * problem->softcap);
        }
        ds[j] += after * (fabs(s[1][j]) + ds[j]);
        if (bias)
            ds[j] += on_bias * fabs(ref_load(bias, (const int64_t[]){block->b, block->h, i, j}));
        if (alibi)
            ds[j] += on_alibi * slope * fabs((double)(diagonal - j));
        ds[j] += a->u_s * (fmax(fabs(s[1][j]), fabs(s[2][j])) + ds[j]) + a->eta_s;
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
    case ATTN_SCORE_ADDITIVE:
        errors_additive(&x);
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
    const double *reach = block->keys->reach;
    double scale = fabs(problem->scale), most = scale, stored = 0.0;

    if (problem->flags & ATTN_FLAG_SOFTCAP) {
        scale *= fmax(1.0, 1.0 / problem->softcap); /* the two may be one factor */
        most = fmax(scale, problem->softcap);
    }
    for (int64_t c = 0; product && c < problem->dq; c++) /* q may be scaled first */
        most = fmax(most, fabs(q[c]) * scale);
    for (int64_t t = 0; t < n; t++) {
        const int64_t j = scratch->key[t];
        const double *const s[] = {scratch->score[0], scratch->score[1], scratch->score[2]};
        if (!isfinite(s[2][j]))
            continue; /* that is by the inputs' doing */
        for (int stage = 0; stage < 3; stage++)
            stored = largest(stored, fabs(s[stage][j]) + scratch->ds[j]);
        /* The sum of absolute values, so that no order of its terms is left out. */
        most = largest(most, scratch->magnitude[j] * fmax(scale, 1.0));
        if (reach) /* q^T M k in either order; the two halves of a hidden unit in one sum */
            most = largest(most, scratch->inner + reach[j]);
    }
    /* Kernels over exp2 multiply by log2 e. */
    return !(largest(most, stored) * M_LOG2E <= a->largest && stored <= a->score_largest);
}
