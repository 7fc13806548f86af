/* SPDX-License-Identifier: Apache-2.0 */
/* def.c - prefix_mean: its tables, and its results in double with their bound. */
#include <math.h>
#include <stddef.h>

#include "op_prefix/prefix.h"
#include "reference/job.h"

static const struct ref_operand own[] = {
    {ATTN_V, "v", "bgjv", "", REF_TYPE_MAIN, REF_NEEDED | REF_ACTIVATION, 0},
    {PREFIX_SHIFT, "shift", "hv", "h", REF_TYPE_SIDE, 0, 0},
    {0}};
static const struct ref_operand *const operands[] = {own, NULL};

static const struct ref_output outputs[] = {
    {ATTN_OUT, "out", "bhiv", "bhi", REF_TYPE_MAIN, REF_NEEDED | REF_ACTIVATION, 0},
    {PREFIX_COUNT, "count", "bhi", "bhi", REF_TYPE_WIDE, 0, 0},
    {0}};

static const struct ref_param params[] = {
    {"gain", "X", "factor of every mean", REF_PARAM_REAL, 0, 1, -100, 100,
     offsetof(struct attn_problem, scale)},
    {"reach", "N", "keys that a mean takes at most; 0: all", REF_PARAM_INT, 0, 0, 0, 1e6,
     offsetof(struct attn_problem, window_left)},
    {"ends", "with|without", "is the key of the query itself among them", REF_PARAM_WORD, 0,
     PREFIX_WITH, PREFIX_WITH, PREFIX_WITHOUT, offsetof(struct attn_problem, off)},
    {"shift", "0|1", "is the tensor shift added", REF_PARAM_WORD, 0, 0, 0, 1, 0},
    {0}};

/* gain times the mean, and E before it is stored: n additions, a division, a product. */
static void mean(const struct ref_job *job, const int64_t at[ATTN_MAX_RANK], int64_t c,
                 double *value, double *error)
{
    const struct attn_problem *p = job->operands.problem;
    const struct attn_tensor *v = job->operands.by_role[ATTN_V];
    int64_t end, begin = prefix_begin(p, at[2], &end);
    const double n = (double)(end - begin);
    double sum = 0, size = 0;

    for (int64_t j = begin; j < end; j++) {
        const double x = ref_load(v, (const int64_t[]){at[0], at[1] / (p->hq / p->hkv), j, c});
        sum += x;
        size += fabs(x);
    }
    *value = n > 0 ? p->scale * sum / n : 0;
    *error = n > 0 ? fabs(p->scale) * ref_growth(&job->arithmetic, n + 2) * size / n +
                         (n + 2) * job->arithmetic.omega * (1 + fabs(p->scale))
                   : 0;
}

/* The same with the shift added, where there is one. */
static void shifted(const struct ref_job *job, const int64_t at[ATTN_MAX_RANK], int64_t c,
                    double *value, double *error)
{
    const struct attn_tensor *shift = job->operands.by_role[PREFIX_SHIFT];

    mean(job, at, c, value, error);
    if (!shift)
        return;
    const double s = ref_load(shift, (const int64_t[]){at[1], c});
    *error +=
        ref_growth(&job->arithmetic, 1) * (fabs(*value) + *error + fabs(s)) + job->arithmetic.omega;
    *value += s;
}

static void compute_row(const struct ref_job *job, int64_t r)
{
    const struct attn_problem *p = job->operands.problem;
    const struct ref_values *out = &job->result->output[0], *count = &job->result->output[1];
    int64_t at[ATTN_MAX_RANK], end;

    ref_unit_place(&outputs[0], &job->shape, ref_unit_number(&job->request->units[0], r), at);
    for (int64_t c = 0; c < p->dv && out->value; c++) {
        const int64_t x = r * p->dv + c;
        double error;
        shifted(job, at, c, &out->value[x], &error);
        if (out->bound)
            out->bound[x] = ref_bound_final(&job->arithmetic, p->dtype, out->value[x], error);
    }
    const int64_t begin = prefix_begin(p, at[2], &end);
    if (count->value)
        count->value[r] = (double)(end - begin);
    if (count->bound) /* whole numbers, exact in every type that stores them */
        count->bound[r] = 0;
}

static int compute(const struct ref_job *job)
{
    for (int64_t r = 0; r < job->request->units[0].count; r++)
        compute_row(job, r);
    return ATTN_OK;
}

/* An addition for each value that a query may take. */
static double flops(const struct ref_shape *shape, double nnz)
{
    (void)nnz;
    return (double)ref_shape_elements(shape, "bhiv") * (double)ref_shape_elements(shape, "j") / 2.0;
}

static double unit_cost(const struct attn_problem *problem, int output)
{
    (void)output;
    return (double)problem->dv * (double)(problem->sk + 1);
}

static uint32_t linear(const struct attn_problem *problem, const char **word)
{
    *word = "v";
    return attn_tensor_find(problem, PREFIX_SHIFT) ? 0 : ATTN_V;
}

static const char *const none[] = {NULL};

const struct ref_op ref_op_prefix_mean = {
    .op = PREFIX_OP,
    .name = "prefix_mean",
    .summary = "means of the values up to each query",
    .operands = operands,
    .outputs = outputs,
    .params = params,
    .keys = none,
    .needed = none,
    .main_operand = "v",
    .flops = flops,
    .unit_cost = unit_cost,
    .compute = compute,
    .linear = linear,
};
