/* SPDX-License-Identifier: Apache-2.0 */
/* shifted.c - an operator of the tests' own: rows of a and rows further on, added up; and the sum
 * of all rows. It has no trait, roles beyond 64, a parameter, and two outputs that are sampled
 * apart. */
#include <math.h>
#include <stddef.h>

#include "reference/tests/operators/shifted/shifted.h"

static const struct ref_operand own[] = {
    {SHIFTED_A, "a", "bhiv", "", REF_TYPE_MAIN, REF_NEEDED | REF_ACTIVATION, 0}, {0}};
static const struct ref_operand *const groups[] = {own, NULL};

static const struct ref_output outputs[] = {
    {ATTN_OUT, "out", "bhiv", "bhi", REF_TYPE_MAIN, REF_NEEDED | REF_ACTIVATION, 0},
    {SHIFTED_SUMS, "sums", "bhv", "bh", REF_TYPE_WIDE, REF_NEEDED, 1},
    {0}};

static const struct ref_param params[] = {{"shift", "INT", "rows from one to the other",
                                           REF_PARAM_INT, 0, 1, 0, 1e6,
                                           offsetof(struct attn_problem, off)},
                                          {0}};

/* out[i] = a[i] + a[(i + shift) mod Sq] */
static void compute_row(const struct ref_job *job, int64_t r, struct ref_values out)
{
    const struct attn_problem *p = job->operands.problem;
    const struct attn_tensor *a = job->operands.by_role[SHIFTED_A];
    int64_t at[ATTN_MAX_RANK];

    ref_unit_place(&outputs[0], &job->shape, ref_unit_number(&job->request->units[0], r), at);
    const int64_t other = (at[2] + p->off) % p->sq;
    for (at[3] = 0; at[3] < p->dv; at[3]++) {
        const double x = ref_load(a, at);
        const double y = ref_load(a, (int64_t[ATTN_MAX_RANK]){at[0], at[1], other, at[3]});
        const double error = ref_growth(&job->arithmetic, 1) * fabs(x + y) + job->arithmetic.omega;
        if (out.value)
            out.value[r * p->dv + at[3]] = x + y;
        if (out.bound)
            out.bound[r * p->dv + at[3]] =
                ref_bound_final(&job->arithmetic, p->dtype, x + y, error);
    }
}

/* sums = the sum of a over its rows */
static void compute_sums(const struct ref_job *job, int64_t r, struct ref_values sums)
{
    const struct attn_problem *p = job->operands.problem;
    const struct attn_tensor *a = job->operands.by_role[SHIFTED_A];
    const uint32_t stored = job->operands.by_role[SHIFTED_SUMS]->dtype;
    int64_t at[ATTN_MAX_RANK];

    ref_unit_place(&outputs[1], &job->shape, ref_unit_number(&job->request->units[1], r), at);
    for (int64_t c = 0; c < p->dv; c++) {
        double sum = 0, size = 0, error;
        for (int64_t i = 0; i < p->sq; i++) {
            const double x = ref_load(a, (int64_t[ATTN_MAX_RANK]){at[0], at[1], i, c});
            sum += x;
            size += fabs(x);
        }
        error = ref_growth(&job->arithmetic, (double)p->sq) * size +
                (double)p->sq * job->arithmetic.omega;
        if (sums.value)
            sums.value[r * p->dv + c] = sum;
        if (sums.bound)
            sums.bound[r * p->dv + c] = ref_bound_final(&job->arithmetic, stored, sum, error);
    }
}

static int compute(const struct ref_job *job)
{
    for (int64_t r = 0; r < job->request->units[0].count; r++)
        compute_row(job, r, job->result->output[0]);
    for (int64_t r = 0; r < job->request->units[1].count; r++)
        compute_sums(job, r, job->result->output[1]);
    return ATTN_OK;
}

static double flops(const struct ref_shape *shape, double nnz)
{
    (void)nnz;
    return 2.0 * (double)ref_shape_elements(shape, "bhiv");
}

static double unit_cost(const struct attn_problem *problem, int output)
{
    return (double)problem->dv * (output == 0 ? 2.0 : (double)problem->sq);
}

static uint32_t linear(const struct attn_problem *problem, const char **word)
{
    (void)problem;
    *word = "a";
    return SHIFTED_A;
}

static const char *const none[] = {NULL};

const struct ref_op ref_op_shifted = {
    .op = SHIFTED_OP,
    .name = "shifted",
    .summary = "rows of a and rows further on, added up; of the tests",
    .operands = groups,
    .outputs = outputs,
    .params = params,
    .keys = none,
    .needed = none,
    .main_operand = "a",
    .flops = flops,
    .unit_cost = unit_cost,
    .compute = compute,
    .linear = linear,
};
