/* SPDX-License-Identifier: Apache-2.0 */
/* mha_heads.c - the attention inside a problem of multi-head attention. */
#include <assert.h>

#include "mha.h"

/* Elements of a buffer's row: a cache line more than it needs. Rows at multiples of 4 KiB would
 * fall into the same cache sets. */
static int64_t row_of(int64_t width, uint32_t dtype)
{
    int64_t line = 64 / attn_element_bytes(dtype);
    return attn_round_up(width, line) + line;
}

bool attn_mha_fits(const struct attn_problem *p)
{
    int64_t heads = p->hq > p->hkv ? p->hq : p->hkv, rows = p->sq > p->sk ? p->sq : p->sk;
    int64_t width = p->dq > p->dk ? p->dq : p->dk;
    width = p->dv > width ? p->dv : width;
    return !__builtin_mul_overflow(rows, p->b, &rows) &&
           !__builtin_mul_overflow(rows, row_of(heads * width, ATTN_F32), &rows);
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

/* Whether an operand belongs to the projections, or to what follows the heads. */
static bool is_own(uint32_t role)
{
    return role == ATTN_OUT || role == ATTN_HEAD_MASK || (role >= ATTN_X_Q && role <= ATTN_B_O);
}

/* q, k, v and out of the heads. Without an output projection, out is the heads side by side and
 * needs no buffer. The exception: a residual that joins heads of another type than out. */
static void set_buffers(struct attn_mha *mha, const struct attn_problem *p, uint32_t dtype)
{
    const struct attn_tensor *out = attn_tensor_find(p, ATTN_OUT);
    const int64_t split[] = {out->stride[0], p->dv * out->stride[2], out->stride[1],
                             out->stride[2]};
    mha->tensors[0] = buffer(ATTN_Q, dtype, p->b, p->hq, p->sq, p->dq);
    mha->tensors[1] = buffer(ATTN_K, dtype, p->b, p->hkv, p->sk, p->dk);
    mha->tensors[2] = buffer(ATTN_V, dtype, p->b, p->hkv, p->sk, p->dv);
    mha->tensors[3] = buffer(ATTN_OUT, dtype, p->b, p->hq, p->sq, p->dv);
    mha->buffers = 4;
    if (attn_tensor_find(p, ATTN_W_O) || (mha->residual && out->dtype != dtype))
        return;
    mha->buffers = 3;
    mha->tensors[3].dtype = out->dtype;
    for (int a = 0; a < 4; a++)
        mha->tensors[3].stride[a] = split[a];
}

void attn_mha_heads(const struct attn_problem *problem, uint32_t dtype, struct attn_mha *mha)
{
    uint32_t n = 4;
    mha->heads = *problem;
    mha->heads.op = ATTN_OP_ATTENTION;
    mha->heads.dtype = dtype;
    mha->heads.flags &= ~(uint64_t)ATTN_FLAG_RESIDUAL;
    mha->residual = problem->flags & ATTN_FLAG_RESIDUAL;
    set_buffers(mha, problem, dtype);
    for (uint32_t t = 0; t < problem->n_tensors; t++) {
        if (is_own(problem->tensors[t].role))
            continue;
        assert(n < ATTN_MHA_TENSORS);
        mha->tensors[n] = problem->tensors[t];
        mha->tensors[n++].data = NULL;
    }
    mha->heads.tensors = mha->tensors;
    mha->heads.n_tensors = n;
}
