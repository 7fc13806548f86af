/* SPDX-License-Identifier: Apache-2.0 */
/* def.c - nystrom, attention through the means of segments: its tables. OP.md has the definition.
 */
#include <stddef.h>
#include <stdio.h>

#include "reference/ops/nystrom/nystrom.h"

/* Steps of the iteration that a problem may have. */
enum { STEPS_MOST = 70 };

static const struct ref_operand own[] = {
    {ATTN_Q, "q", "bhiq", "", REF_TYPE_MAIN, REF_NEEDED | REF_ACTIVATION, 0},
    {ATTN_K, "k", "bgjk", "", REF_TYPE_MAIN, REF_NEEDED | REF_ACTIVATION, 0},
    {ATTN_V, "v", "bgjv", "", REF_TYPE_MAIN, REF_NEEDED | REF_ACTIVATION, 0},
    {0}};
static const struct ref_operand *const groups[] = {own, NULL};

static const struct ref_output outputs[] = {
    {ATTN_OUT, "out", "bhiv", "bhi", REF_TYPE_MAIN, REF_NEEDED | REF_ACTIVATION, 0}, {0}};

static const struct ref_param params[] = {
    {"landmarks", "N", "rows that stand for the sequence", REF_PARAM_INT, 'm', 64, 1, 4096,
     offsetof(struct attn_problem, landmarks)},
    {"iterations", "N", "steps towards the inverse", REF_PARAM_INT, 'n', 6, 1, STEPS_MOST,
     offsetof(struct attn_problem, iterations)},
    {"start", "head|batch", "whose largest column sum divides the first step", REF_PARAM_WORD, 0,
     ATTN_NYSTROM_HEAD, ATTN_NYSTROM_HEAD, ATTN_NYSTROM_BATCH,
     offsetof(struct attn_problem, variant)},
    {0}};

static const struct ref_tie ties[] = {{'g', 'h', "nystrom has a key head for each query head"},
                                      {'j', 'i', "nystrom has one sequence: sk = sq"},
                                      {0}};

static const char *const none[] = {NULL};

static int check(const struct ref_operands *operands, char *why, size_t size)
{
    const struct attn_problem *p = operands->problem;
    if (p->landmarks >= 1 && p->iterations >= 0 && p->iterations <= STEPS_MOST &&
        (p->variant == ATTN_NYSTROM_HEAD || p->variant == ATTN_NYSTROM_BATCH))
        return ATTN_OK;
    snprintf(why, size, "landmarks, iterations or the start of nystrom are not known");
    return ATTN_INVALID;
}

static double flops(const struct ref_shape *shape, double nnz)
{
    const double heads = (double)ref_shape_elements(shape, "bh");
    const double steps = (double)shape->extent['i'], n = (double)shape->extent['n'];
    const double m = (double)ref_nystrom_segments(shape->extent['m'], shape->extent['i']);
    const double dk = (double)shape->extent['k'], dv = (double)shape->extent['v'];
    (void)nnz;
    return 2.0 * heads * m * (2.0 * steps * (dk + dv) + m * (dk + dv) + 4.0 * n * m * m);
}

/* A head is computed as a whole, once for the result and, with about as much for what it tracks, 17
 * times for the bound. */
static double unit_cost(const struct attn_problem *problem, int output)
{
    const double steps = (double)problem->sq, n = (double)problem->iterations;
    const double m = (double)ref_nystrom_segments(problem->landmarks, problem->sq);
    const double dk = (double)problem->dk, dv = (double)problem->dv;
    (void)output;
    return 20.0 * m * (2.0 * (dk + dv + 10.0) + (m * (dk + dv) + 4.0 * n * m * m) / steps);
}

static uint32_t linear(const struct attn_problem *problem, const char **word)
{
    (void)problem;
    *word = "v";
    return ATTN_V;
}

static bool coupled(const struct attn_problem *problem)
{
    return problem->variant == ATTN_NYSTROM_BATCH;
}

const struct ref_op ref_op_nystrom = {
    .op = ATTN_OP_NYSTROM,
    .name = "nystrom",
    .summary = "attention through the means of segments and an iterated inverse: Nystroemformer",
    .traits = REF_QKV | REF_APPROXIMATES | REF_ROWS_ALIKE,
    .scores = 1u << ATTN_SCORE_SCALED_DOT,
    .operands = groups,
    .outputs = outputs,
    .params = params,
    .keys = none,
    .needed = none,
    .main_operand = "q",
    .ties = ties,
    .stochastic = true,
    .coupled = coupled,
    .check = check,
    .flops = flops,
    .unit_cost = unit_cost,
    .compute = ref_nystrom_compute,
    .linear = linear,
};
