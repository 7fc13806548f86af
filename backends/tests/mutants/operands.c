/* SPDX-License-Identifier: Apache-2.0 */
/* operands.c - where an element lies, and what it is in f32. */
#include <math.h>

#include "mutant.h"

static bool is_input(uint32_t role)
{
    return role == ATTN_Q || role == ATTN_K || role == ATTN_V;
}

/* As if the operand were dense in the order of its axes. */
static int64_t dense_at(const struct attn_tensor *view, int64_t b, int64_t h, int64_t i, int64_t c)
{
    return ((b * view->shape[1] + h) * view->shape[2] + i) * view->shape[3] + c;
}

int64_t mutant_at(const struct mutant_job *job, uint32_t role, int64_t b, int64_t h, int64_t i,
                  int64_t c)
{
    const struct attn_tensor *view = &job->operands.view[role];
    int64_t s_b = view->stride[0], s_h = view->stride[1], s_i = view->stride[2];
    if ((bug(input_contiguous) && is_input(role)) || (bug(out_contiguous) && role == ATTN_OUT) ||
        (bug(layout_swapped) && role == ATTN_K))
        return dense_at(view, b, h, i, c);
    if (bug(broadcast_ignored) && (role == ATTN_K || role == ATTN_V) && s_b == 0)
        s_b = view->shape[1] * s_h;
    if (bug(head_batch_swapped) && role == ATTN_K) {
        s_b = view->stride[1];
        s_h = view->stride[0];
    }
    if ((bug(mask_stride_b) && role == ATTN_MASK) || (bug(bias_stride_b) && role == ATTN_BIAS))
        s_b = 0;
    if ((bug(mask_stride_h) && role == ATTN_MASK) || (bug(bias_stride_h) && role == ATTN_BIAS))
        s_h = 0;
    if ((bug(mask_stride_q) && role == ATTN_MASK) || (bug(bias_stride_q) && role == ATTN_BIAS))
        s_i = 0;
    if (bug(mask_broadcast_ignored) && role == ATTN_MASK && s_h == 0)
        s_h = job->p->sq * s_i;
    if (bug(value_width_of_key) && role == ATTN_V)
        s_i = job->p->dk;
    int64_t at = b * s_b + h * s_h + i * s_i + c * view->stride[3];
    return bug(offset_32_bit) ? (int32_t)(uint32_t)at : at;
}

static float flushed(float x)
{
    return bug(subnormals_flushed) && fabsf(x) < 0x1p-14f ? 0 : x;
}

float mutant_get(const struct mutant_job *job, uint32_t role, int64_t at)
{
    const struct attn_tensor *view = &job->operands.view[role];
    float x = view->dtype == ATTN_F32    ? ((const float *)view->data)[at]
              : view->dtype == ATTN_BF16 ? attn_f32_of_bf16(((const uint16_t *)view->data)[at])
                                         : attn_f32_of_f16(((const uint16_t *)view->data)[at]);
    if (bug(input_truncated) && is_input(role))
        return mutant_truncate(x, 7);
    if (bug(tf32_products) && (role == ATTN_Q || role == ATTN_K) && isfinite(x))
        return attn_f32_of_bits((attn_f32_bits(x) + 0x1000) & ~0x1fffu);
    return is_input(role) ? flushed(x) : x;
}

void mutant_put(const struct mutant_job *job, uint32_t role, int64_t at, float value)
{
    const struct attn_tensor *view = &job->operands.view[role];
    if (view->dtype == ATTN_F32)
        ((float *)view->data)[at] = value;
    else if (view->dtype == ATTN_BF16)
        ((uint16_t *)view->data)[at] = attn_bf16_of_f32(
            bug(out_truncated) && role == ATTN_OUT ? mutant_truncate(value, 16) : value);
    else
        ((uint16_t *)view->data)[at] = attn_f16_of_f32(flushed(value));
}
