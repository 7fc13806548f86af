/* SPDX-License-Identifier: Apache-2.0 */
/* mha_supports.c - the limits of multi-head attention: its own operands here, the rest by asking
 * for the attention inside. */
#include <stdio.h>

#include "mha.h"

/* As for attention alone: no product of an extent and a width overflows. */
#define LARGEST_EXTENT (INT64_C(1) << 40)
#define LARGEST_WIDTH  (INT64_C(1) << 16)

#define ANY INT64_C(-1)

/* An operand of the projections and its shape; ANY where it is compared with another operand. */
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

static bool is_own(uint32_t role)
{
    return role == ATTN_OUT || role == ATTN_HEAD_MASK || (role >= ATTN_X_Q && role <= ATTN_B_O);
}

/* Elements of a buffer's row: a cache line more than it needs, for at multiples of 4 KiB rows would
 * fall into the same cache sets. */
static int64_t row_of(int64_t width, uint32_t dtype)
{
    int64_t line = 64 / attn_element_size(dtype);
    return attn_round_up(width, line) + line;
}

/* A dense buffer [B,S,H*D] as [B,H,S,D]. */
static struct attn_tensor buffer(uint32_t role, uint32_t dtype, int64_t b, int64_t h, int64_t s,
                                 int64_t d)
{
    int64_t row = row_of(h * d, dtype);
    return (struct attn_tensor){.role = role,
                                .dtype = dtype,
                                .rank = 4,
                                .shape = {b, h, s, d},
                                .stride = {s * row, d, row, 1}};
}

int attn_mha_heads(const struct attn_problem *problem, uint32_t dtype, struct attn_mha *mha,
                   char *why, size_t size)
{
    const struct attn_problem *p = problem;
    const struct attn_tensor *out = attn_tensor_find(p, ATTN_OUT);
    uint32_t n = 4;
    if (!out)
        return refuse(why, size, "out must be given");
    mha->heads = *p;
    mha->heads.op = ATTN_OP_ATTENTION;
    mha->heads.dtype = dtype;
    mha->residual = p->flags & ATTN_FLAG_RESIDUAL;
    mha->heads.flags &= ~(uint64_t)ATTN_FLAG_RESIDUAL;
    mha->tensors[0] = buffer(ATTN_Q, dtype, p->b, p->hq, p->sq, p->dq);
    mha->tensors[1] = buffer(ATTN_K, dtype, p->b, p->hkv, p->sk, p->dk);
    mha->tensors[2] = buffer(ATTN_V, dtype, p->b, p->hkv, p->sk, p->dv);
    mha->tensors[3] = buffer(ATTN_OUT, dtype, p->b, p->hq, p->sq, p->dv);
    /* Without an output projection out is the heads side by side; a residual joins what the buffers
     * would hold. */
    mha->buffers = 4;
    if (!attn_tensor_find(p, ATTN_W_O) && !(mha->residual && out->dtype != dtype)) {
        const int64_t *stride = out->stride;
        mha->buffers = 3;
        mha->tensors[3].dtype = out->dtype;
        const int64_t split[] = {stride[0], p->dv * stride[2], stride[1], stride[2]};
        for (int a = 0; a < 4; a++)
            mha->tensors[3].stride[a] = split[a];
    }
    for (uint32_t t = 0; t < p->n_tensors; t++) {
        uint32_t role = p->tensors[t].role;
        if (is_own(role))
            continue;
        if (role == ATTN_Q || role == ATTN_K || role == ATTN_V)
            return refuse(why, size, "q, k, v are projected in multi-head attention, not given");
        if (n == ATTN_MHA_TENSORS)
            return refuse(why, size, "so many operands are not supported");
        mha->tensors[n] = p->tensors[t];
        mha->tensors[n++].data = NULL;
    }
    mha->heads.tensors = mha->tensors;
    mha->heads.n_tensors = n;
    return ATTN_OK;
}

static int check_sizes(const struct attn_problem *p, char *why, size_t size)
{
    if (!attn_element_known(p->dtype))
        return refuse(why, size, "only f32, f16 and bf16 are implemented");
    const int64_t extents[] = {p->b, p->sq, p->sk, p->hq, p->hkv};
    const int64_t widths[] = {p->dq, p->dk, p->dv};
    int64_t heads = p->hq > p->hkv ? p->hq : p->hkv, rows = p->sq > p->sk ? p->sq : p->sk;
    for (size_t n = 0; n < sizeof extents / sizeof *extents; n++)
        if (extents[n] < 0 || extents[n] > LARGEST_EXTENT)
            return refuse(why, size, "negative extents, or beyond 2^40, are not supported");
    for (size_t n = 0; n < sizeof widths / sizeof *widths; n++)
        if (widths[n] < 1 || widths[n] > LARGEST_WIDTH)
            return refuse(why, size, "heads without width, or wider than 65536, are not supported");
    if (__builtin_mul_overflow(rows, p->b, &rows) ||
        __builtin_mul_overflow(rows, row_of(heads * LARGEST_WIDTH, ATTN_F32), &rows))
        return refuse(why, size, "so many projected rows are not supported");
    const uint32_t required[] = {ATTN_X_Q, ATTN_W_Q, ATTN_W_K, ATTN_W_V};
    for (size_t r = 0; r < sizeof required / sizeof *required; r++)
        if (!attn_tensor_find(p, required[r]))
            return refuse(why, size, "x_q, w_q, w_k and w_v must all be given");
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
        if (known->shape[a] == ANY ? tensor->shape[a] < 1 : tensor->shape[a] != known->shape[a])
            what = "shape";
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
    int64_t joined = p->hq * p->dv, wide = w_o ? w_o->shape[0] : joined;
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

int attn_mha_supports(const struct attn_problem *problem, char *why, size_t size)
{
    struct attn_mha mha;
    if (problem->struct_size < sizeof *problem)
        return refuse(why, size, "the problem structure is older than this plugin");
    int status = check_sizes(problem, why, size);
    if (status == ATTN_OK)
        status = attn_mha_heads(problem, ATTN_F32, &mha, why, size);
    if (status == ATTN_OK)
        status = attn_plan_supports(&mha.heads, why, size);
    if (status == ATTN_OK)
        status = check_operands(problem, why, size);
    return status;
}
