/* SPDX-License-Identifier: Apache-2.0 */
/* operands.c - operands as this backend walks them, and the library's words for their types. */
#include "onednn.h"

/* [B,S,E] as [B,1,S,E]. */
static void add_axis_of_heads(struct attn_tensor *tensor)
{
    tensor->stride[3] = tensor->stride[2];
    tensor->stride[2] = tensor->stride[1];
    tensor->stride[1] = 0;
}

void attn_onednn_operands_set(struct attn_operands *operands, const struct attn_tensor *tensors,
                              uint32_t n_tensors)
{
    attn_operands_set(operands, tensors, n_tensors);
    for (uint32_t t = 0; t < n_tensors; t++) {
        const uint32_t role = tensors[t].role;
        struct attn_tensor *tensor = attn_operands_at(operands, role);
        for (uint32_t a = 0; a < tensor->rank && role != ATTN_OUT; a++)
            if (tensor->shape[a] <= 1)
                tensor->stride[a] = 0;
        if (role == ATTN_X_Q || role == ATTN_X_K || role == ATTN_X_V ||
            (role == ATTN_OUT && tensor->rank == 3))
            add_axis_of_heads(tensor);
    }
    attn_operands_default(operands);
}

dnnl_data_type_t attn_onednn_type(uint32_t dtype)
{
    return dtype == ATTN_F32 ? dnnl_f32 : dtype == ATTN_BF16 ? dnnl_bf16 : dnnl_f16;
}
