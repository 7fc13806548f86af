/* SPDX-License-Identifier: Apache-2.0 */
/* operands.c - tensors by role; strides are 64 bit and may be 0. */
#include "reference/operands.h"

#include <string.h>

#include "reference/dtype.h"
#include "reference/reference.h"

void ref_operands_init(struct ref_operands *operands, const struct attn_problem *problem)
{
    const struct ref_op *op = ref_op_find(problem->op);
    const struct ref_operand *row;

    memset(operands, 0, sizeof(*operands));
    operands->problem = problem;
    for (uint32_t t = 0; t < problem->n_tensors; t++)
        if (problem->tensors[t].role < REF_ROLES)
            operands->by_role[problem->tensors[t].role] = &problem->tensors[t];
    for (size_t n = 0; op && (row = ref_operand_at(op, n)); n++)
        if (row->fallback && !operands->by_role[row->role])
            operands->by_role[row->role] = operands->by_role[row->fallback];
}

static int64_t index_of(const struct attn_tensor *tensor, const int64_t *at)
{
    int64_t index = 0;

    for (uint32_t axis = 0; axis < tensor->rank; axis++)
        index += at[axis] * tensor->stride[axis];
    return index;
}

double ref_load(const struct attn_tensor *tensor, const int64_t *at)
{
    return attn_dtype_load(tensor->dtype, tensor->data, index_of(tensor, at));
}

void ref_load_vector(const struct attn_tensor *tensor, const int64_t *at, int64_t count,
                     double *out)
{
    attn_dtype_load_many(tensor->dtype, tensor->data, index_of(tensor, at),
                         tensor->stride[tensor->rank - 1], count, out);
}

const uint8_t *ref_mask_row(const struct attn_tensor *mask, int64_t b, int64_t h, int64_t i,
                            int64_t *step)
{
    *step = mask->stride[3];
    return (const uint8_t *)mask->data + index_of(mask, (const int64_t[]){b, h, i, 0});
}
