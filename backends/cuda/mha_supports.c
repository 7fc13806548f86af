/* SPDX-License-Identifier: Apache-2.0 */
/* mha_supports.c - the limits of multi-head attention: its own operands here, the rest by asking
 * for the attention inside. */
#include <stdio.h>

#include "attnbench/problem.h"
#include "cublas.h"
#include "mha.h"

#define LARGEST_WIDTH (INT64_C(1) << 28)

static const uint32_t optional[] = {ATTN_X_K,  ATTN_X_V, ATTN_W_O,       ATTN_B_Q,  ATTN_B_K,
                                    ATTN_B_V,  ATTN_B_O, ATTN_HEAD_MASK, ATTN_LSE,  ATTN_MASK,
                                    ATTN_BIAS, ATTN_LEN, ATTN_ALIBI,     ATTN_SINK, ATTN_WEIGHTS,
                                    ATTN_KEEP, 0};

static int refuse(char *why, size_t size, const char *text)
{
    snprintf(why, size, "%s", text);
    return ATTN_UNSUPPORTED;
}

int attn_cuda_mha_owns(uint32_t role)
{
    return role == ATTN_OUT || role == ATTN_HEAD_MASK || (role >= ATTN_X_Q && role <= ATTN_B_O);
}

/* A dense buffer [B,S,H*D] as [B,H,S,D]. */
static struct attn_tensor buffer(uint32_t role, const struct attn_problem *p, int64_t h, int64_t s,
                                 int64_t d)
{
    return (struct attn_tensor){.role = role,
                                .dtype = p->dtype,
                                .rank = 4,
                                .shape = {p->b, h, s, d},
                                .stride = {s * h * d, d, h * d, 1}};
}

int attn_cuda_mha_heads(const struct attn_problem *p, struct attn_problem *heads,
                        struct attn_tensor *tensors, char *why, size_t size)
{
    const struct attn_tensor *out = attn_tensor_find(p, ATTN_OUT);
    uint32_t n = 4;
    *heads = *p;
    heads->op = ATTN_OP_ATTENTION;
    heads->flags &= ~(uint64_t)ATTN_FLAG_RESIDUAL;
    tensors[0] = buffer(ATTN_Q, p, p->hq, p->sq, p->dq);
    tensors[1] = buffer(ATTN_K, p, p->hkv, p->sk, p->dk);
    tensors[2] = buffer(ATTN_V, p, p->hkv, p->sk, p->dv);
    tensors[3] = buffer(ATTN_OUT, p, p->hq, p->sq, p->dv);
    if (!attn_tensor_find(p, ATTN_W_O) && out) {
        const int64_t split[] = {out->stride[0], p->dv * out->stride[2], out->stride[1],
                                 out->stride[2]};
        for (int a = 0; a < 4; a++)
            tensors[3].stride[a] = split[a];
    }
    for (uint32_t t = 0; t < p->n_tensors; t++) {
        const uint32_t role = p->tensors[t].role;
        if (attn_cuda_mha_owns(role))
            continue;
        if (n == ATTN_CUDA_MHA_TENSORS)
            return refuse(why, size, "too many operands are given");
        tensors[n++] = p->tensors[t];
    }
    heads->tensors = tensors;
    heads->n_tensors = n;
    return ATTN_OK;
}

static int check_sizes(const struct attn_problem *p, char *why, size_t size)
{
    const int64_t sizes[] = {p->b, p->hq, p->sq, p->sk, p->dq, p->dk, p->dv};
    int64_t rows = p->sq > p->sk ? p->sq : p->sk, width = p->dk > p->dv ? p->dk : p->dv;
    for (size_t n = 0; n < sizeof sizes / sizeof *sizes; n++)
        if (sizes[n] < 0 || sizes[n] > LARGEST_WIDTH)
            return refuse(why, size, "negative extents, or beyond 2^28, are not supported");
    width = width > p->dq ? width : p->dq;
    if (__builtin_mul_overflow(rows, p->b, &rows) || rows > INT32_MAX ||
        __builtin_mul_overflow(width, 4 * p->hq, &width) ||
        __builtin_mul_overflow(rows, width, &rows))
        return refuse(why, size, "the projected rows of all heads are too large");
    return ATTN_OK;
}

/* The operands of multi-head attention. What the heads take is asked of them. */
static int check_operands(const struct attn_problem *p, char *why, size_t size)
{
    static const char axes[] = "EFGY";
    static const struct attn_limits limits = {
        .ops = ATTN_BIT(ATTN_OP_MHA),
        .scores = ~0u,
        .dtypes = ~0u,
        .flags = ~UINT64_C(0),
        .optional = optional,
    };

    if (attn_problem_check(p, &limits, why, size) != ATTN_OK)
        return ATTN_UNSUPPORTED;
    for (const char *axis = axes; *axis; axis++)
        if (attn_problem_extent(p, *axis) > LARGEST_WIDTH)
            return refuse(why, size, "model widths beyond 2^28 are not supported");
    return ATTN_OK;
}

int attn_cuda_mha_supports(attn_cuda_supporter *attention, const struct attn_problem *p, char *why,
                           size_t size)
{
    struct attn_problem heads;
    struct attn_tensor tensors[ATTN_CUDA_MHA_TENSORS];
    int status = check_operands(p, why, size);
    if (status == ATTN_OK)
        status = check_sizes(p, why, size);
    if (status == ATTN_OK)
        status = attn_cuda_mha_heads(p, &heads, tensors, why, size);
    if (status == ATTN_OK)
        status = attention(&heads, why, size);
    if (status == ATTN_OK && attn_cublas_open(why, size) != ATTN_OK)
        status = ATTN_UNSUPPORTED;
    return status;
}
