/* SPDX-License-Identifier: Apache-2.0 */
/* bound.c - how far a backend may be from the reference; OP.md has the derivation. */
#include <math.h>

#include "reference/ops/chunked/chunked.h"

struct ref_arithmetic ref_chunked_arithmetic(const struct ref_job *job, int64_t dl)
{
    struct ref_arithmetic a = job->arithmetic;
    const double orders = (double)dl * (double)job->operands.problem->dv;
    if (a.generic)
        a.lambda = sqrt(a.lambda * a.lambda + 2 * log(orders));
    return a;
}

void ref_chunked_bound_begin(const struct ref_arithmetic *a, const struct attn_problem *problem,
                             int64_t dl, int64_t own, int64_t far, struct ref_chunked_bound *bound)
{
    const double chunks = ceil((double)problem->sk / (double)problem->chunk);
    const double after = (double)own + (double)dl + a->tiles + a->splits;
    bound->a = a;
    bound->scale = fabs(problem->scale);
    bound->lin_scale = fabs(ref_chunked_lin_scale(problem));
    bound->score = ref_growth_partial(a, ref_growth_rounded(a, (double)problem->dk + 3));
    bound->quadratic = ref_growth_values(a, ref_growth(a, after + 1));
    bound->linear = ref_growth_partial(
        a, ref_growth_values(a, ref_growth_rounded(a, after + (double)far + chunks + 3)));
    bound->omega = a->omega + a->partial_omega * (1 + bound->linear);
    bound->overflows = false;
}

/* Rounding of a score to its stored type, as often as it may be. */
static double stored(const struct ref_arithmetic *a, const struct ref_chunked_cell *cell,
                     double scale, double error)
{
    const double most = fmax(fabs(cell->product), fabs(cell->product + cell->bias)) + error;
    const double growth = expm1(a->score_stores * log1p(a->u_s));
    if (a->u_s == 0)
        return 0;
    return growth * most + (1 + growth) * a->u_s * fabs(cell->bias) +
           a->score_stores * (1 + growth) * fmax(1, scale) * a->eta_s;
}

/* How far the score may be off. */
static double score_error(const struct ref_chunked_bound *bound,
                          const struct ref_chunked_cell *cell, int64_t dk)
{
    const struct ref_arithmetic *a = bound->a;
    double error =
        bound->scale * bound->score * cell->size +
        bound->omega * (fmax(1, bound->scale) * (2 * (double)dk + cell->reach) + cell->size + 4);
    if (cell->bias != 0)
        error +=
            ref_growth(a, 1) * (fabs(cell->product) + error) + ref_growth(a, 2) * fabs(cell->bias);
    return error + stored(a, cell, bound->scale, error);
}

double ref_chunked_weight_error(struct ref_chunked_bound *bound, int64_t dk,
                                const struct ref_chunked_cell *cell, double weight)
{
    const struct ref_arithmetic *a = bound->a;
    const double score = cell->product + cell->bias, off = score_error(bound, cell, dk);
    const double is = fmax(score, 0), most = fmax(score + off, 0);
    double error = (most - is) * (most + is);
    error += a->u_op * (weight + error) + a->omega;
    if (a->u_p > 0)
        error += a->u_p * (weight + error) + a->eta_p;
    if (fabs(score) + off > fmin(a->score_largest, a->largest) ||
        weight + error > fmin(a->p_largest, a->largest))
        bound->overflows = true;
    return error;
}

double ref_chunked_error(const struct ref_chunked_bound *bound,
                         const struct ref_chunked_column *column, double out, const double *gate)
{
    const struct ref_arithmetic *a = bound->a;
    double error = column->error + 2 * bound->omega * column->own;
    error += bound->quadratic * (column->size + error);
    error += bound->lin_scale * bound->linear * column->linear +
             4 * (1 + bound->linear) * bound->omega * fmax(1, bound->lin_scale) * column->small;
    if (bound->overflows)
        return INFINITY;
    if (!gate)
        return error;
    const double most = fabs(out) + error, size = fabs(*gate);
    return size * error + a->u_op * size * most + a->omega * (1 + size + most);
}
