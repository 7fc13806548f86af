/* SPDX-License-Identifier: Apache-2.0 */
/* operands.c - tensors by role; strides are 64 bit and may be 0. */
#include "reference/operands.h"

#include <string.h>

#include "reference/dtype.h"
#include "reference/reference.h"

void ref_operands_init(struct ref_operands *operands, const struct attn_problem *problem)
{
    memset(operands, 0, sizeof(*operands));
    operands->problem = problem;
    for (uint32_t t = 0; t < problem->n_tensors; t++)
        if (problem->tensors[t].role < REF_ROLES)
            operands->by_role[problem->tensors[t].role] = &problem->tensors[t];
    if (!operands->by_role[ATTN_X_K])
        operands->by_role[ATTN_X_K] = operands->by_role[ATTN_X_Q];
    if (!operands->by_role[ATTN_X_V])
        operands->by_role[ATTN_X_V] = operands->by_role[ATTN_X_K];
}

double ref_load(const struct attn_tensor *tensor, const int64_t *at)
{
    int64_t index = 0;

    for (uint32_t axis = 0; axis < tensor->rank; axis++)
        index += at[axis] * tensor->stride[axis];
    return attn_dtype_load(tensor->dtype, tensor->data, index);
}

void ref_load_vector(const struct attn_tensor *tensor, const int64_t *at, int64_t count,
                     double *out)
{
    int64_t step = tensor->stride[tensor->rank - 1], index = 0;

    for (uint32_t axis = 0; axis + 1 < tensor->rank; axis++)
        index += at[axis] * tensor->stride[axis];
    for (int64_t c = 0; c < count; c++)
        out[c] = attn_dtype_load(tensor->dtype, tensor->data, index + c * step);
}

int64_t ref_row_count(const struct attn_problem *problem)
{
    return problem->b * problem->sq * (problem->op == ATTN_OP_MHA ? 1 : problem->hq);
}

int64_t ref_row_width(const struct attn_problem *problem)
{
    const struct attn_tensor *w_o = attn_tensor_find(problem, ATTN_W_O);

    if (problem->op != ATTN_OP_MHA)
        return problem->dv;
    return w_o ? w_o->shape[0] : problem->hq * problem->dv;
}
