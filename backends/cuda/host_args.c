/* SPDX-License-Identifier: Apache-2.0 */
/* host_args.c - see host_args.h. */
#include "host_args.h"

#include <math.h>
#include <stdio.h>

#include "attnbench/problem.h"
#include "gpu.h"

/* Where the view of each operand is in the arguments of a kernel. */
static const struct place {
    uint32_t role;
    size_t view;
} places[] = {
    {ATTN_Q, offsetof(struct attn_cuda_args, q)},
    {ATTN_K, offsetof(struct attn_cuda_args, k)},
    {ATTN_V, offsetof(struct attn_cuda_args, v)},
    {ATTN_OUT, offsetof(struct attn_cuda_args, out)},
    {ATTN_LSE, offsetof(struct attn_cuda_args, lse)},
    {ATTN_MASK, offsetof(struct attn_cuda_args, mask)},
    {ATTN_BIAS, offsetof(struct attn_cuda_args, bias)},
    {ATTN_LEN, offsetof(struct attn_cuda_args, len)},
    {ATTN_ALIBI, offsetof(struct attn_cuda_args, alibi)},
    {ATTN_SINK, offsetof(struct attn_cuda_args, sink)},
    {ATTN_KEEP, offsetof(struct attn_cuda_args, keep)},
    {ATTN_WEIGHTS, offsetof(struct attn_cuda_args, weights)},
    {ATTN_SCORE_M, offsetof(struct attn_cuda_args, score_q)},
    {ATTN_SCORE_WQ, offsetof(struct attn_cuda_args, score_q)},
    {ATTN_SCORE_WK, offsetof(struct attn_cuda_args, score_k)},
    {ATTN_SCORE_WV, offsetof(struct attn_cuda_args, score_v)},
    {ATTN_GRAD_OUT, offsetof(struct attn_cuda_args, dout)},
    {ATTN_GRAD_LSE, offsetof(struct attn_cuda_args, dlse)},
    {ATTN_GRAD_Q, offsetof(struct attn_cuda_args, grad_q)},
    {ATTN_GRAD_K, offsetof(struct attn_cuda_args, grad_k)},
    {ATTN_GRAD_V, offsetof(struct attn_cuda_args, grad_v)},
    {ATTN_GRAD_BIAS, offsetof(struct attn_cuda_args, grad_bias)},
    {ATTN_GRAD_SINK, offsetof(struct attn_cuda_args, grad_sink)},
    {ATTN_GRAD_ALIBI, offsetof(struct attn_cuda_args, grad_alibi)},
};

static int is_wide(const struct attn_tensor *tensor, int64_t width)
{
    int wide = width % 8 == 0 && (tensor->stride[3] == 1 || width == 1);
    for (int a = 0; a < 3; a++)
        wide = wide && (tensor->stride[a] % 8 == 0 || tensor->shape[a] == 1);
    return wide;
}

static int32_t window_side(int64_t side)
{
    return side > 1 << 30 ? 1 << 30 : (int32_t)side;
}

static int32_t flags_of(const struct attn_problem *p)
{
    const struct attn_tensor *len = attn_tensor_find(p, ATTN_LEN);
    const struct attn_tensor *bias = attn_tensor_find(p, ATTN_BIAS);
    const struct attn_tensor *dout = attn_tensor_find(p, ATTN_GRAD_OUT);
    int32_t flags = 0;
    flags |= p->flags & ATTN_FLAG_CAUSAL ? ATTN_CUDA_CAUSAL : 0;
    flags |= p->flags & ATTN_FLAG_WINDOW ? ATTN_CUDA_WINDOW : 0;
    flags |= p->flags & ATTN_FLAG_OFF_BR ? ATTN_CUDA_OFF_BR : 0;
    flags |= p->flags & ATTN_FLAG_DROPOUT ? ATTN_CUDA_DROPOUT : 0;
    flags |= p->score == ATTN_SCORE_GAUSSIAN ? ATTN_CUDA_GAUSSIAN : 0;
    flags |= p->score == ATTN_SCORE_ADDITIVE ? ATTN_CUDA_ADDITIVE : 0;
    flags |= len && len->rank == 2 ? ATTN_CUDA_LEN_2D : 0;
    flags |= bias && bias->dtype == ATTN_F32 ? ATTN_CUDA_BIAS_F32 : 0;
    flags |= is_wide(attn_tensor_find(p, ATTN_Q), p->dk) ? ATTN_CUDA_WIDE_Q : 0;
    flags |= is_wide(attn_tensor_find(p, ATTN_K), p->dk) ? ATTN_CUDA_WIDE_K : 0;
    flags |= is_wide(attn_tensor_find(p, ATTN_V), p->dv) ? ATTN_CUDA_WIDE_V : 0;
    flags |= dout && is_wide(dout, p->dv) ? ATTN_CUDA_WIDE_DOUT : 0;
    return flags;
}

/* Of the gradient of the bias; 0 without a bias. */
static int32_t bias_extent(const struct attn_problem *p, uint32_t axis)
{
    return attn_tensor_find(p, ATTN_BIAS) ? (int32_t)attn_problem_bias_extent(p, axis) : 0;
}

struct attn_cuda_args attn_cuda_args_of(const struct attn_problem *p)
{
    return (struct attn_cuda_args){
        .b = (int32_t)p->b,
        .hq = (int32_t)p->hq,
        .hkv = (int32_t)p->hkv,
        .sq = (int32_t)p->sq,
        .sk = (int32_t)p->sk,
        .dq = (int32_t)p->dq,
        .dk = (int32_t)p->dk,
        .dv = (int32_t)p->dv,
        .dh = (int32_t)p->dh,
        .bias_extent = {bias_extent(p, 0), bias_extent(p, 1), bias_extent(p, 2), bias_extent(p, 3)},
        .off = (int32_t)p->off,
        .window_left = window_side(p->window_left),
        .window_right = window_side(p->window_right),
        .splits = 1,
        .split_keys = (int32_t)p->sk,
        .flags = flags_of(p),
        .scale = (float)p->scale,
        .softcap = (float)p->softcap,
        .keep_by = (float)(1 / (1 - p->dropout_p)),
        .keep_from = (uint32_t)ceil(p->dropout_p * 0x1p24),
        .seed = p->dropout_seed,
    };
}

struct attn_cuda_view *attn_cuda_view_of(struct attn_cuda_args *args, uint32_t role)
{
    size_t place = 0;

    while (places[place].role != role)
        place++;
    return (struct attn_cuda_view *)(void *)((char *)args + places[place].view);
}

const char *attn_cuda_type_name(uint32_t dtype)
{
    return dtype == ATTN_F16 ? "f16" : dtype == ATTN_BF16 ? "bf16" : "f32";
}

int attn_cuda_find_step(const char *step, uint32_t dtype, uint32_t shared_bytes, void **kernel,
                        char *why, size_t size)
{
    char name[32];
    snprintf(name, sizeof name, "%s_%s", step, attn_cuda_type_name(dtype));
    return attn_gpu_kernel(name, shared_bytes, kernel, why, size);
}
