/* SPDX-License-Identifier: Apache-2.0 */
/* chains.c - lambda of the probabilistic bound, from the number of chains of roundings that a
 * request rests on. */
#include <math.h>

#include "reference/bound.h"
#include "reference/operands.h"
#include "reference/score.h"

/* A key passes through that many chains beside those of its products: its score, the rounding of
 * its p, the errors of projections, in a few combinations. */
#define PER_KEY 16.0

/* Products of projections of keys and values: they are made once, not once a row. */
static double projected_keys(const struct attn_problem *problem)
{
    double products = 0.0;

    for (uint32_t t = 0; t < problem->n_tensors; t++) {
        const struct attn_tensor *w = &problem->tensors[t];
        if (w->role == ATTN_W_K || w->role == ATTN_W_V)
            products += (double)w->shape[0] * (double)w->shape[1];
    }
    return products * (double)problem->b * (double)problem->sk;
}

double ref_chains(const struct attn_problem *problem, const struct ref_request *request)
{
    const struct ref_op *op = ref_op_find(problem->op);
    double chains = 0.0;

    for (int o = 0; op->outputs[o].role; o++)
        if (op->outputs[o].leader == o)
            chains += (double)request->units[o].count * ref_output_cost(problem, o);
    if (op->traits & REF_SOFTMAX) {
        const struct ref_score *score = ref_score_find(problem->score);
        double width = PER_KEY;
        /* Each of dq dk terms of q^T M k goes through two sums. */
        if (score->free_widths)
            width += ((double)problem->dq + 1.0) * ((double)problem->dk + 1.0);
        chains += (double)ref_requested_rows(problem, request) * (double)problem->sk * width;
    }
    return chains + projected_keys(problem);
}

double ref_delta(const struct attn_numerics *numerics, enum ref_fill_kind fill)
{
    return fill == REF_FILL_GENERIC && !numerics->acc_toward_zero ? REF_DELTA_SHARE : 0.0;
}

double ref_lambda(double chains)
{
    return sqrt(2.0 * log(2.0 * fmax(chains, 1.0) / REF_DELTA_SHARE));
}
