/* SPDX-License-Identifier: Apache-2.0 */
/* score_error.c - ds_ij of BOUND.md: how far the scores of a backend may be from ours, on top of
 * what the score itself says. */
#include <math.h>

#include "reference/job.h"
#include "reference/score.h"

/* What adds in squares, on its way to the score. A softcap makes less of it, but not the same of
 * each key: there all of it counts as if it did not add in squares. */
static void scale_spreads(const struct ref_score_span *x, double scale, bool softcap)
{
    double *noise = x->scratch->noise, *spread = x->scratch->spread;

    for (int64_t j = x->begin; j < x->end; j++) {
        noise[j] *= scale;
        spread[j] *= scale;
    }
    for (int64_t j = x->begin; softcap && j < x->end; j++) {
        spread[j] = ref_spread_of(x->keys, x->scratch, j);
        noise[j] = 0.0;
    }
}

/* Steps 2 and 3 on top of the error of the raw score. A kernel over exp2 has log2 e in the scale,
 * or multiplies by it once more after softcap and bias. */
static void errors_of_stages(const struct ref_block *block, int64_t i,
                             const struct ref_score_span *x)
{
    const struct ref_operands *operands = &block->job->operands;
    const struct attn_problem *problem = operands->problem;
    const struct attn_tensor *bias = operands->by_role[ATTN_BIAS];
    const struct attn_tensor *alibi = operands->by_role[ATTN_ALIBI];
    const struct ref_arithmetic *a = x->a;
    const bool softcap = problem->flags & ATTN_FLAG_SOFTCAP;
    double slope = alibi ? ref_load(alibi, &block->h) : 0.0, scale = fabs(problem->scale);
    double added = (bias ? 1.0 : 0.0) + (alibi ? 1.0 : 0.0), four = ref_growth(a, 4.0);
    double squash = four + a->e_tanh * (1.0 + four), after = ref_growth(a, added + softcap);
    double on_bias = ref_growth(a, added + 2.0), on_alibi = ref_growth(a, added + 4.0);
    double on_flush = scale > 1.0 ? scale : 1.0, cap = problem->softcap;
    int64_t diagonal = i + ref_offset(operands, block->b);
    const struct ref_scratch *scratch = x->scratch;
    const double *s1 = scratch->score[1];
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
        ds[j] += on_alibi * fabs(slope) * ref_alibi_distance(a, problem, diagonal, j);
    x->scratch->offset =
        alibi && ref_alibi_by_key(a, problem) ? fabs(slope * (double)diagonal) : 0.0;
    ref_score_stored(block, x, slope, diagonal);
    if (x->q_spread)
        scale_spreads(x, scale, softcap);
}

void ref_score_errors(const struct ref_block *block, int64_t i, const double *q,
                      const double *q_error, const double *q_spread, int64_t begin, int64_t end,
                      struct ref_scratch *scratch)
{
    const struct ref_score_span x = {.keys = block->keys,
                                     .a = &block->job->arithmetic,
                                     .scratch = scratch,
                                     .q = q,
                                     .q_error = q_error,
                                     .q_spread = q_spread,
                                     .begin = begin,
                                     .end = end};

    if (block->keys->score->errors)
        block->keys->score->errors(&x);
    errors_of_stages(block, i, &x);
}

bool ref_scores_overflow(const struct ref_block *block, const double *q,
                         const struct ref_scratch *scratch, int64_t n)
{
    const struct attn_problem *problem = block->job->operands.problem;
    const struct ref_arithmetic *a = &block->job->arithmetic;
    const uint32_t traits = block->keys->score->traits;
    const bool product = traits & REF_SCORE_PRODUCT;
    const bool partial = a->partial > 0.0 && (traits & REF_SCORE_PARTIAL);
    const double *reach = block->keys->reach;
    double scale = fabs(problem->scale), most = scale, on_sum, on_partial;
    double least = fmin(1.0, scale);

    if (problem->flags & ATTN_FLAG_SOFTCAP) {
        scale *= fmax(1.0, 1.0 / problem->softcap); /* the two may be one factor */
        most = fmax(scale, problem->softcap);
        least = fmin(least, problem->softcap);
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
            stored = ref_larger(stored, fabs(s[stage][j]) + scratch->ds[j]);
        stored += scratch->offset;
        if (a->score_stores > 1.0) /* before the scale, or as a part of the softcap */
            stored = ref_larger(stored, (fabs(s[0][j]) + scratch->ds[j]) / least);
        if (!(stored <= a->score_largest))
            return true;
        if (partial && !(scratch->magnitude[j] * on_partial <= a->partial_largest))
            return true;
        /* The sum of absolute values, so that no order of its terms is left out. */
        most = ref_larger(most, stored);
        most = ref_larger(most, scratch->magnitude[j] * on_sum);
        if (reach) /* q^T M k in either order; the two halves of a hidden unit in one sum */
            most = ref_larger(most, scratch->inner + reach[j]);
    }
    /* Kernels over exp2 multiply by log2 e. */
    return !(most * M_LOG2E <= a->largest);
}
