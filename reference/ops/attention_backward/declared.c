/* SPDX-License-Identifier: Apache-2.0 */
/* declared.c - the constants of the bound that only the backward pass has. OP.md derives it. */
#include "reference/dtype.h"
#include "reference/ops/attention_backward/attention_backward.h"

/* Roundoff of what is kept in `type`, where that is coarser than the accumulation; else 0. */
static double roundoff_of(uint32_t type, const struct ref_arithmetic *a)
{
    const double u = type ? attn_dtype_roundoff(type) : 0.0;

    return u > a->u ? u : 0.0;
}

static double lost_near_zero(uint32_t type, const struct ref_arithmetic *a)
{
    return a->ftz ? attn_dtype_min_normal(type) : 0.5 * attn_dtype_min_subnormal(type);
}

static struct ref_backward_kept kept_in(uint32_t type, const struct ref_arithmetic *a)
{
    const double u = roundoff_of(type, a);

    return u > 0.0 ? (struct ref_backward_kept){u, lost_near_zero(type, a), attn_dtype_max(type)}
                   : (struct ref_backward_kept){.largest = a->largest};
}

/* Each product of a cell is a chain, whichever units are asked for: a row rests on all of its keys.
 */
static double chains_of(const struct attn_problem *p)
{
    const double cells = (double)p->b * (double)p->hq * (double)p->sq * (double)p->sk;

    return cells * (3.0 * (double)p->dk + 3.0 * (double)p->dv + 16.0);
}

/* A factor of 1 / (1 - pdrop): 1 - pdrop is rounded, its reciprocal, and the product. */
static double dropout_error(const struct attn_problem *p, const struct ref_arithmetic *a)
{
    const double q = a->u_op * p->dropout_p / (1.0 - p->dropout_p);

    if (!(p->flags & ATTN_FLAG_DROPOUT))
        return 0.0;
    return q < 1.0 ? (1.0 + a->three) / (1.0 - q) - 1.0 : INFINITY;
}

void ref_backward_declare(const struct ref_job *job, struct ref_backward_group *group)
{
    const struct attn_problem *p = job->operands.problem;
    const struct attn_numerics *n = job->request->numerics;
    const double scale = fabs(p->scale);
    struct ref_arithmetic *a = &group->arithmetic;
    struct ref_backward_declared *d = &group->declared;

    if (!job->bounds)
        return;
    ref_arithmetic_init(a, p, n, job->request->fill, chains_of(p));
    *d = (struct ref_backward_declared){
        .own_lse = n->bwd_lse,
        .own_delta = n->bwd_delta,
        .u_ds = roundoff_of(n->ds_type, a),
        .ds_largest = n->ds_type ? attn_dtype_max(n->ds_type) : a->largest,
        .u_delta = roundoff_of(n->delta_type, a),
        .u_partial = roundoff_of(n->grad_partial_type, a),
        .dq = kept_in(n->dq_acc_type, a),
        .dkv = kept_in(n->dkv_acc_type, a),
        .u_factor = fmax(a->u_in, a->u_pv),
        .dropout = dropout_error(p, a),
        .chain = (double)n->grad_chain,
        .query_tiles =
            n->query_tile > 0 ? fmax(1.0, ceil((double)p->sq / (double)n->query_tile)) : 1.0};
    /* what may be stored with the scale, and is multiplied by it here at the end */
    const double unscaled = scale > 0.0 ? fmax(1.0, 1.0 / scale) : 1.0;
    d->dz_largest = d->ds_largest / fmax(1.0, scale);
    if (d->u_ds > 0.0) {
        d->eta_ds = lost_near_zero(n->ds_type, a);
        d->eta_dz = d->eta_ds * unscaled;
    }
    if (d->u_partial > 0.0) {
        d->eta_partial = lost_near_zero(n->grad_partial_type, a);
        d->eta_partial_k = d->eta_partial * unscaled;
    }
    if (a->generic && d->u_ds > 0.0)
        d->ds_bins = (int)fmin(2.0 / d->u_ds, REF_BINS);
}

void ref_backward_likely(const struct ref_job *job, struct ref_backward_group *group)
{
    const struct attn_problem *p = job->operands.problem;

    if (!job->bounds)
        return;
    ref_arithmetic_init(&group->arithmetic, p, job->request->numerics, REF_FILL_GENERIC,
                        chains_of(p));
    group->declared.u_factor = 0.0;
}

double ref_backward_growth(const struct ref_backward_group *group, double k)
{
    const double g = ref_growth_partial(&group->arithmetic, ref_growth(&group->arithmetic, k));

    return g + 2.0 * group->declared.u_factor * (1.0 + g);
}

double ref_backward_chain(const struct ref_backward_group *group, int64_t n)
{
    const struct ref_arithmetic *a = &group->arithmetic;

    return (a->chain > 0.0 ? a->chain : (double)n) + a->tiles + a->splits;
}
