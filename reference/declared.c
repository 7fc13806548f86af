/* SPDX-License-Identifier: Apache-2.0 */
/* declared.c - terms of the bound that only some declarations have. Derived in BOUND.md. */
#include <math.h>

#include "reference/job.h"

void ref_arithmetic_further(struct ref_arithmetic *a, const struct attn_numerics *numerics)
{
    a->score_stores = fmax(1.0, (double)numerics->score_stores);
    a->u_pv = numerics->u_pv;
    a->alibi_by_key = numerics->alibi_by_key;
    a->decay_chunk = (double)numerics->decay_chunk;
    a->on_rise = numerics->rescale_on_rise && numerics->splits <= 1;
    if (!numerics->p_stochastic)
        return;
    /* Either neighbour: a whole spacing, where rounding to nearest loses half of one. */
    a->u_p *= 2.0;
    if (!a->ftz)
        a->eta_p *= 2.0;
}

double ref_growth_values(const struct ref_arithmetic *a, double g)
{
    g = ref_growth_partial(a, g);
    return a->u_pv > 0.0 ? g + 2.0 * a->u_pv * (1.0 + g) : g;
}

/* Keys in steps of `step`: how many may be above all before them. */
static double rises(const struct ref_scratch *x, int64_t first, int64_t step, int64_t n)
{
    double sure = -INFINITY, count = 0.0;

    for (int64_t k = 0, t = first; k < n; k++, t += step) {
        const double s = x->logit[t], ds = x->wrong[t];
        count += s + ds > sure ? 1.0 : 0.0;
        sure = s - ds > sure ? s - ds : sure;
    }
    return count;
}

double ref_bound_rises(const struct ref_scratch *x, int64_t n)
{
    return n > 0 ? fmax(rises(x, 0, 1, n), rises(x, n - 1, -1, n)) : 0.0;
}

/* The steps of a score are stored `stores` times in all, so each may be rounded so often. Softcap
 * only shrinks what is relative to its argument. */
static void errors_of_stores(const struct ref_block *block, const struct ref_score_span *x,
                             double slope, int64_t diagonal)
{
    const struct attn_problem *problem = block->job->operands.problem;
    const bool bias = block->job->operands.by_role[ATTN_BIAS];
    const struct ref_arithmetic *a = x->a;
    const struct ref_scratch *s = x->scratch;
    const bool by_key = ref_alibi_by_key(a, problem);
    const double grown = expm1(a->score_stores * log1p(a->u_s));
    const double on_alibi = (1.0 + grown) * expm1(3.0 * log1p(a->u_s));
    const double on_bias = (1.0 + grown) * a->u_s;
    double wide = fmax(1.0, fabs(problem->scale));

    if (problem->flags & ATTN_FLAG_SOFTCAP)
        wide = fmax(wide, problem->softcap);
    for (int64_t j = x->begin; j < x->end; j++) {
        const double before = s->score[1][j], b = bias ? s->bias[j] : 0.0;
        const double far = ref_alibi_distance(a, problem, diagonal, j);
        const double l = slope * (by_key ? far : -far);
        double most = fmax(fabs(before), fabs(before + b + l));
        most = fmax(most, fmax(fabs(before + b), fabs(before + l)));
        s->ds[j] += grown * (most + s->ds[j]) + a->score_stores * (1.0 + grown) * wide * a->eta_s +
                    on_bias * fabs(b) + on_alibi * fabs(l);
    }
}

void ref_score_stored(const struct ref_block *block, const struct ref_score_span *x, double slope,
                      int64_t diagonal)
{
    const struct ref_arithmetic *a = x->a;
    const struct ref_scratch *s = x->scratch;
    const double offset = slope * (double)diagonal;

    if (a->score_stores > 1.0) {
        errors_of_stores(block, x, slope, diagonal);
        return;
    }
    for (int64_t j = x->begin; j < x->end; j++) {
        const double before = fabs(s->score[1][j]);
        const double after = fabs(s->offset > 0.0 ? s->score[2][j] + offset : s->score[2][j]);
        const double most = before > after ? before : after;
        s->ds[j] += a->u_s * (most + s->ds[j]) + a->eta_s;
    }
}
