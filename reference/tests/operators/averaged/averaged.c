/* SPDX-License-Identifier: Apache-2.0 */
/* averaged.c - out_i = sum_j v_j / Sk, and -1/Sk for the last key of row 0: so one weight is
 * negative. k may be absent. */
#include "reference/tests/operators/averaged/averaged.h"

#include "reference/job.h"

static const struct ref_operand own[] = {
    {ATTN_Q, "q", "bhiq", "", REF_TYPE_MAIN, REF_NEEDED | REF_ACTIVATION, 0},
    {ATTN_K, "k", "bgjk", "", REF_TYPE_MAIN, REF_ACTIVATION, 0},
    {ATTN_V, "v", "bgjv", "", REF_TYPE_MAIN, REF_NEEDED | REF_ACTIVATION, 0},
    {0}};
static const struct ref_operand *const groups[] = {own, NULL};

static const struct ref_output outputs[] = {
    {ATTN_OUT, "out", "bhiv", "bhi", REF_TYPE_MAIN, REF_NEEDED | REF_ACTIVATION, 0}, {0}};

static const char *const none[] = {NULL};

static int compute(const struct ref_job *job)
{
    const struct attn_problem *p = job->operands.problem;
    for (int64_t r = 0; r < job->request->units[0].count; r++) {
        int64_t at[ATTN_MAX_RANK];
        ref_unit_place(&outputs[0], &job->shape, ref_row_index(job, r), at);
        for (int64_t j = 0; j < p->sk; j++) {
            const double weight = (at[2] == 0 && j == p->sk - 1 ? -1.0 : 1.0) / (double)p->sk;
            if (job->result->implied)
                job->result->implied[r * p->sk + j] = weight;
            for (int64_t c = 0; c < p->dv; c++)
                job->result->output[0].value[r * p->dv + c] +=
                    weight * ref_load(job->operands.by_role[ATTN_V],
                                      (int64_t[]){at[0], at[1] / (p->hq / p->hkv), j, c});
        }
    }
    return ATTN_OK;
}

static double flops(const struct ref_shape *shape, double nnz)
{
    (void)nnz;
    return (double)ref_shape_elements(shape, "bhjv");
}

static double unit_cost(const struct attn_problem *problem, int output)
{
    (void)output;
    return (double)(problem->sk * problem->dv);
}

const struct ref_op ref_op_averaged = {
    .op = AVERAGED_OP,
    .name = "averaged",
    .summary = "the mean of v; of the tests",
    .traits = REF_QKV | REF_APPROXIMATES,
    .operands = groups,
    .outputs = outputs,
    .keys = none,
    .needed = none,
    .main_operand = "q",
    .flops = flops,
    .unit_cost = unit_cost,
    .compute = compute,
};
