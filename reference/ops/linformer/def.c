/* SPDX-License-Identifier: Apache-2.0 */
/* def.c - linformer, attention over projected keys and values: its tables. OP.md has the
 * definition. */
#include <math.h>
#include <stddef.h>
#include <stdio.h>

#include "reference/ops/linformer/linformer.h"

static const struct ref_operand own[] = {
    {ATTN_Q, "q", "bhiq", "", REF_TYPE_MAIN, REF_NEEDED | REF_ACTIVATION, 0},
    {ATTN_K, "k", "bgjk", "", REF_TYPE_MAIN, REF_NEEDED | REF_ACTIVATION, 0},
    {ATTN_V, "v", "bgjv", "", REF_TYPE_MAIN, REF_NEEDED | REF_ACTIVATION, 0},
    {ATTN_PROJ_E, "proj_e", "grj", "g", REF_TYPE_MAIN, REF_NEEDED, 0},
    {ATTN_PROJ_F, "proj_f", "grj", "g", REF_TYPE_MAIN, 0, ATTN_PROJ_E},
    {ATTN_LEN, "len", "b", "", REF_TYPE_INDEX, 0, 0},
    {0}};
static const struct ref_operand *const groups[] = {own, NULL};

static const struct ref_output outputs[] = {
    {ATTN_OUT, "out", "bhiv", "bhi", REF_TYPE_MAIN, REF_NEEDED | REF_ACTIVATION, 0},
    {ATTN_LSE, "lse", "bhi", "bhi", REF_TYPE_WIDE, 0, 0},
    {0}};

static const struct ref_param params[] = {
    {"landmarks", "N", "rows that stand for the sequence", REF_PARAM_INT, 'r', 64, 1, 4096,
     offsetof(struct attn_problem, landmarks)},
    {"proj_f", "0|1", "is v projected by a matrix of its own", REF_PARAM_WORD, 0, 1, 0, 1, 0},
    {0}};

static const char *const none[] = {NULL};

static int check(const struct ref_operands *operands, char *why, size_t size)
{
    if (operands->problem->landmarks >= 1)
        return ATTN_OK;
    snprintf(why, size, "landmarks must be at least 1");
    return ATTN_INVALID;
}

/* E and F are N(0, 1/r): a row of each is a random sum over the sequence. */
static bool draw(const struct ref_drawn *x, double *number)
{
    if (x->role != ATTN_PROJ_E && x->role != ATTN_PROJ_F)
        return false;
    *number /= sqrt((double)x->shape[1]);
    return true;
}

static double flops(const struct ref_shape *shape, double nnz)
{
    const double width = (double)(shape->extent['k'] + shape->extent['v']);
    (void)nnz;
    return 2.0 * width *
           ((double)ref_shape_elements(shape, "bgrj") + (double)ref_shape_elements(shape, "bhir"));
}

static double unit_cost(const struct attn_problem *problem, int output)
{
    const double r = (double)problem->landmarks;
    const double dk = (double)problem->dk, dv = (double)problem->dv;
    (void)output;
    return r * (4.0 * dk + 5.0 * dv + 100.0 +
                2.0 * (dk + dv) * (double)problem->sk / (double)problem->sq);
}

static uint32_t linear(const struct attn_problem *problem, const char **word)
{
    (void)problem;
    *word = "v";
    return ATTN_V;
}

const struct ref_op ref_op_linformer = {
    .op = ATTN_OP_LINFORMER,
    .name = "linformer",
    .summary = "attention over keys and values that are projected to a few rows",
    .traits = REF_QKV | REF_APPROXIMATES | REF_ROWS_ALIKE,
    .scores = 1u << ATTN_SCORE_SCALED_DOT,
    .operands = groups,
    .outputs = outputs,
    .params = params,
    .keys = none,
    .needed = none,
    .main_operand = "q",
    .check = check,
    .draw = draw,
    .flops = flops,
    .unit_cost = unit_cost,
    .compute = ref_linformer_compute,
    .linear = linear,
};
