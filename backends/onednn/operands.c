/* SPDX-License-Identifier: Apache-2.0 */
/* types.c - elements of the three floating types, and operands from descriptors.
 *
 * Widening is exact. Narrowing rounds to nearest, ties to even; overflow gives infinity and NaN
 * stays a quiet NaN. */
#include <string.h>

#include "onednn.h"

void attn_onednn_operands_set(struct attn_onednn_operands *operands,
                              const struct attn_problem *problem, const struct attn_tensor *tensors)
{
    memset(operands, 0, sizeof(*operands));
    for (uint32_t t = 0; t < problem->n_tensors; t++) {
        const struct attn_tensor *tensor = &tensors[t];
        struct attn_onednn_view *view = &operands->view[tensor->role];
        int is_x = tensor->role == ATTN_X_Q || tensor->role == ATTN_X_K ||
                   tensor->role == ATTN_X_V || (tensor->role == ATTN_OUT && tensor->rank == 3);
        view->data = tensor->data;
        view->dtype = tensor->dtype;
        view->rank = tensor->rank;
        for (uint32_t a = 0; a < tensor->rank && a < ATTN_ONEDNN_RANK; a++)
            view->stride[is_x && a ? a + 1 : a] =
                tensor->shape[a] > 1 || tensor->role == ATTN_OUT ? tensor->stride[a] : 0;
    }
}

size_t attn_onednn_size(uint32_t dtype)
{
    return dtype == ATTN_F32 ? 4 : 2;
}

dnnl_data_type_t attn_onednn_type(uint32_t dtype)
{
    return dtype == ATTN_F32 ? dnnl_f32 : dtype == ATTN_BF16 ? dnnl_bf16 : dnnl_f16;
}

static float from_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

static uint32_t to_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static float from_f16(uint16_t half)
{
    /* The exponent field moved into place is too small by 127 - 15; a product by 2^112 puts that
     * right, for subnormals too, and leaves only infinity and NaN to be marked. */
    uint32_t magnitude = (half & 0x7fffu) << 13, sign = (half & 0x8000u) << 16;
    uint32_t bits = to_bits(from_bits(magnitude) * 0x1p112f);
    return from_bits(sign | bits | (magnitude >= 0x7c00u << 13 ? 0x7f800000u : 0u));
}

static uint16_t to_f16(float value)
{
    uint32_t bits = to_bits(value) & 0x7fffffffu, sign = to_bits(value) >> 16 & 0x8000u;
    if (bits > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00u);
    if (bits >= 0x47800000u) /* 2^16 and above, infinity included */
        return (uint16_t)(sign | 0x7c00u);
    if (bits < 0x38800000u) /* below 2^-14: in a sum with 0.5 one ulp is 2^-24, as needed */
        return (uint16_t)(sign | (to_bits(from_bits(bits) + 0.5f) - 0x3f000000u));
    bits += 0xfffu + (bits >> 13 & 1u); /* a carry out of the mantissa is right, up to infinity */
    return (uint16_t)(sign | (bits - (112u << 23)) >> 13);
}

static uint16_t to_bf16(float value)
{
    uint32_t bits = to_bits(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(bits >> 16 | 0x40u); /* NaN must not round up to infinity */
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

float attn_onednn_load(const struct attn_onednn_view *view, int64_t at)
{
    if (view->dtype == ATTN_F32)
        return ((const float *)view->data)[at];
    uint16_t half = ((const uint16_t *)view->data)[at];
    return view->dtype == ATTN_BF16 ? from_bits((uint32_t)half << 16) : from_f16(half);
}

void attn_onednn_store(uint32_t dtype, void *data, int64_t at, float value)
{
    if (dtype == ATTN_F32)
        ((float *)data)[at] = value;
    else
        ((uint16_t *)data)[at] = dtype == ATTN_BF16 ? to_bf16(value) : to_f16(value);
}
