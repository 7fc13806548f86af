/* SPDX-License-Identifier: Apache-2.0 */
/* mha_supports.c - the limits of multi-head attention: its own operands here, the rest by asking
 * for the attention inside. */
#include <stdio.h>

#include "cublas.h"
#include "mha.h"
#include "transfer.h"

#define LARGEST_WIDTH (INT64_C(1) << 28)
#define ANY           INT64_C(-1) /* compared with another operand */

struct operand {
    uint32_t role, dtype, rank;
    int64_t shape[3];
    const char *name;
};

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
        if (role == ATTN_Q || role == ATTN_K || role == ATTN_V)
            return refuse(why, size, "q, k, v are projected in multi-head attention, not given");
        if (n == ATTN_CUDA_MHA_TENSORS)
            return refuse(why, size, "so many operands are not supported");
        tensors[n++] = p->tensors[t];
    }
    heads->tensors = tensors;
    heads->n_tensors = n;
    return ATTN_OK;
}

static int check_sizes(const struct attn_problem *p, char *why, size_t size)
{
    const int64_t sizes[] = {p->b, p->hq, p->sq, p->sk, p->dq, p->dk, p->dv};
    const uint32_t required[] = {ATTN_X_Q, ATTN_W_Q, ATTN_W_K, ATTN_W_V, ATTN_OUT};
    int64_t rows = p->sq > p->sk ? p->sq : p->sk, width = p->dk > p->dv ? p->dk : p->dv;
    if (p->struct_size < sizeof *p)
        return refuse(why, size, "the problem structure is older than this plugin");
    for (size_t n = 0; n < sizeof sizes / sizeof *sizes; n++)
        if (sizes[n] < 0 || sizes[n] > LARGEST_WIDTH)
            return refuse(why, size, "negative extents, or beyond 2^28, are not supported");
    width = width > p->dq ? width : p->dq;
    if (__builtin_mul_overflow(rows, p->b, &rows) || rows > INT32_MAX ||
        __builtin_mul_overflow(width, 4 * p->hq, &width) ||
        __builtin_mul_overflow(rows, width, &rows))
        return refuse(why, size, "so many projected rows are not supported");
    for (size_t r = 0; r < sizeof required / sizeof *required; r++)
        if (!attn_tensor_find(p, required[r]))
            return refuse(why, size, "x_q, w_q, w_k, w_v and out must all be given");
    return ATTN_OK;
}

static int check_operand(const struct attn_problem *p, const struct operand *known, char *why,
                         size_t size)
{
    const struct attn_tensor *tensor = attn_tensor_find(p, known->role);
    const char *what = NULL;
    if (!tensor)
        return ATTN_OK;
    if (tensor->dtype != known->dtype)
        what = "type";
    else if (tensor->space != ATTN_HOST || tensor->device != 0)
        what = "memory space";
    else if (tensor->rank != known->rank)
        what = "rank";
    for (uint32_t a = 0; !what && a < known->rank; a++)
        if (known->shape[a] == ANY ? tensor->shape[a] < 1 || tensor->shape[a] > LARGEST_WIDTH
                                   : tensor->shape[a] != known->shape[a])
            what = "shape";
    if (!what && attn_transfer_span(tensor) < 0)
        what = "stride";
    if (!what)
        return ATTN_OK;
    snprintf(why, size, "this %s of %s is not supported", what, known->name);
    return ATTN_UNSUPPORTED;
}

static int check_operands(const struct attn_problem *p, char *why, size_t size)
{
    const struct attn_tensor *x_q = attn_tensor_find(p, ATTN_X_Q);
    const struct attn_tensor *x_k = attn_tensor_find(p, ATTN_X_K);
    const struct attn_tensor *x_v = attn_tensor_find(p, ATTN_X_V);
    const struct attn_tensor *w_o = attn_tensor_find(p, ATTN_W_O);
    if (!x_k && p->sk != p->sq)
        return refuse(why, size, "without x_k there are as many keys as queries");
    if (!w_o && attn_tensor_find(p, ATTN_B_O))
        return refuse(why, size, "an output bias without an output projection");
    x_k = x_k ? x_k : x_q;
    x_v = x_v ? x_v : x_k;
    const int64_t joined = p->hq * p->dv, wide = w_o ? w_o->shape[0] : joined;
    const struct operand operands[] = {
        {ATTN_X_Q, p->dtype, 3, {p->b, p->sq, ANY}, "x_q"},
        {ATTN_X_K, p->dtype, 3, {p->b, p->sk, ANY}, "x_k"},
        {ATTN_X_V, p->dtype, 3, {p->b, p->sk, ANY}, "x_v"},
        {ATTN_W_Q, p->dtype, 2, {p->hq * p->dq, x_q->shape[2]}, "w_q"},
        {ATTN_W_K, p->dtype, 2, {p->hkv * p->dk, x_k->shape[2]}, "w_k"},
        {ATTN_W_V, p->dtype, 2, {p->hkv * p->dv, x_v->shape[2]}, "w_v"},
        {ATTN_W_O, p->dtype, 2, {ANY, joined}, "w_o"},
        {ATTN_B_Q, p->dtype, 1, {p->hq * p->dq}, "b_q"},
        {ATTN_B_K, p->dtype, 1, {p->hkv * p->dk}, "b_k"},
        {ATTN_B_V, p->dtype, 1, {p->hkv * p->dv}, "b_v"},
        {ATTN_B_O, p->dtype, 1, {wide}, "b_o"},
        {ATTN_HEAD_MASK, ATTN_BOOL, 1, {p->hq}, "head_mask"},
        {ATTN_OUT, p->dtype, 3, {p->b, p->sq, wide}, "out"},
    };
    for (size_t o = 0; o < sizeof operands / sizeof *operands; o++)
        if (check_operand(p, &operands[o], why, size) != ATTN_OK)
            return ATTN_UNSUPPORTED;
    if (p->flags & ATTN_FLAG_RESIDUAL && x_q->shape[2] != wide)
        return refuse(why, size, "a residual needs equal widths of x_q and out");
    return ATTN_OK;
}

int attn_cuda_mha_supports(attn_cuda_supporter *attention, const struct attn_problem *p, char *why,
                           size_t size)
{
    struct attn_problem heads;
    struct attn_tensor tensors[ATTN_CUDA_MHA_TENSORS];
    int status = check_sizes(p, why, size);
    if (status == ATTN_OK)
        status = check_operands(p, why, size);
    if (status == ATTN_OK)
        status = attn_cuda_mha_heads(p, &heads, tensors, why, size);
    if (status == ATTN_OK)
        status = attention(&heads, why, size);
    if (status == ATTN_OK && attn_cublas_open(why, size) != ATTN_OK)
        status = ATTN_UNSUPPORTED;
    return status;
}
