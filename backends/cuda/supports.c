/* SPDX-License-Identifier: Apache-2.0 */
/* supports.c - the limits of the kernels, and the operands they know. */
#include <stdio.h>
#include <string.h>

#include "plan.h"
#include "transfer.h"

/* Positions are 32 bits wide: i + off + window_right stays below 2^31 with extents up to 2^28. */
#define LARGEST_EXTENT (INT64_C(1) << 28)
/* Rows of all heads: counted in 32 bits, in whole tiles. */
#define MOST_ROWS     (INT64_C(1) << 30)
#define LARGEST_WIDTH 256

static const uint64_t known_flags = ATTN_FLAG_CAUSAL | ATTN_FLAG_WINDOW | ATTN_FLAG_OFF_BR |
                                    ATTN_FLAG_SOFTCAP | ATTN_FLAG_DROPOUT | ATTN_FLAG_DETERMINISTIC;

/* SAME: the type of q; EITHER: that or f32. An axis is a letter of extent(). */
enum { SAME = 0, EITHER = -1 };
static const struct operand {
    uint32_t role;
    int dtype;
    const char *axes, *name;
    size_t view;
} operands[] = {
    {ATTN_Q, SAME, "bhiq", "q", offsetof(struct attn_cuda_args, q)},
    {ATTN_K, SAME, "bgjk", "k", offsetof(struct attn_cuda_args, k)},
    {ATTN_V, SAME, "bgjv", "v", offsetof(struct attn_cuda_args, v)},
    {ATTN_OUT, SAME, "bhiv", "out", offsetof(struct attn_cuda_args, out)},
    {ATTN_LSE, ATTN_F32, "bhi", "lse", offsetof(struct attn_cuda_args, lse)},
    {ATTN_MASK, ATTN_BOOL, "bhij", "mask", offsetof(struct attn_cuda_args, mask)},
    {ATTN_BIAS, EITHER, "bhij", "bias", offsetof(struct attn_cuda_args, bias)},
    {ATTN_LEN, ATTN_I32, "bi" /* or "b" */, "len", offsetof(struct attn_cuda_args, len)},
    {ATTN_ALIBI, ATTN_F32, "h", "alibi", offsetof(struct attn_cuda_args, alibi)},
    {ATTN_SINK, ATTN_F32, "h", "sink", offsetof(struct attn_cuda_args, sink)},
    {ATTN_KEEP, ATTN_BOOL, "bhij", "keep", offsetof(struct attn_cuda_args, keep)},
    {ATTN_WEIGHTS, SAME, "bhij", "weights", offsetof(struct attn_cuda_args, weights)},
    {ATTN_SCORE_M, SAME, "hqk", "m", offsetof(struct attn_cuda_args, score_q)},
    {ATTN_SCORE_WQ, SAME, "huq", "w_q", offsetof(struct attn_cuda_args, score_q)},
    {ATTN_SCORE_WK, SAME, "huk", "w_k", offsetof(struct attn_cuda_args, score_k)},
    {ATTN_SCORE_WV, SAME, "hu", "w_v", offsetof(struct attn_cuda_args, score_v)},
};

static const uint32_t required[] = {ATTN_Q,       ATTN_K,        ATTN_V,        ATTN_OUT,
                                    ATTN_SCORE_M, ATTN_SCORE_WQ, ATTN_SCORE_WK, ATTN_SCORE_WV};

static const struct operand *find_operand(uint32_t role)
{
    for (size_t o = 0; o < sizeof operands / sizeof *operands; o++)
        if (operands[o].role == role)
            return &operands[o];
    return NULL;
}

struct attn_cuda_view *attn_cuda_view_of(struct attn_cuda_args *args, uint32_t role)
{
    return (struct attn_cuda_view *)(void *)((char *)args + find_operand(role)->view);
}

static int64_t extent(const struct attn_problem *p, char axis)
{
    switch (axis) {
    case 'b':
        return p->b;
    case 'h':
        return p->hq;
    case 'g':
        return p->hkv;
    case 'i':
        return p->sq;
    case 'j':
        return p->sk;
    case 'q':
        return p->dq;
    case 'k':
        return p->dk;
    case 'u':
        return p->dh;
    default: /* 'v' */
        return p->dv;
    }
}

/* NULL, or what the kernels do not do. */
static const char *kind_fault(const struct attn_problem *p)
{
    if (p->struct_size < sizeof *p)
        return "the problem structure is older than this plugin";
    if (p->op != ATTN_OP_ATTENTION)
        return "only attention itself is implemented, without projections";
    if (p->score < ATTN_SCORE_SCALED_DOT || p->score > ATTN_SCORE_ADDITIVE)
        return "this kind of score is not known";
    if (p->dtype != ATTN_F32 && p->dtype != ATTN_F16 && p->dtype != ATTN_BF16)
        return "only f32, f16 and bf16 are implemented";
    if (p->flags & ~known_flags)
        return "a flag of the problem is not known";
    if (attn_tensor_find(p, ATTN_KEEP) && !(p->flags & ATTN_FLAG_DROPOUT))
        return "a keep mask without dropout";
    return NULL;
}

static const char *size_fault(const struct attn_problem *p)
{
    const int additive = p->score == ATTN_SCORE_ADDITIVE;
    const int64_t longest = additive && p->sk > p->sq ? p->sk : p->sq;
    int64_t rows;
    if (p->b < 1 || p->hkv < 1 || p->hq < 1 || p->hq % p->hkv || p->sq < 1 || p->sk < 0 ||
        p->dq < 1 || p->dk < 1 || p->dv < 1 || (additive && p->dh < 1) ||
        (p->dq != p->dk && !additive && p->score != ATTN_SCORE_BILINEAR))
        return "the sizes do not make an attention problem";
    if (p->dq > LARGEST_WIDTH || p->dk > LARGEST_WIDTH || p->dv > LARGEST_WIDTH)
        return "heads wider than 256 are not supported";
    if (p->b > LARGEST_EXTENT || p->hq > LARGEST_EXTENT || p->sq > LARGEST_EXTENT ||
        p->sk > LARGEST_EXTENT || p->off > LARGEST_EXTENT || p->off < -LARGEST_EXTENT ||
        p->dh > LARGEST_EXTENT || __builtin_mul_overflow(p->b * p->hq, longest, &rows) ||
        rows > MOST_ROWS)
        return "extents beyond 2^28, or more than 2^30 rows, are not supported";
    if ((p->flags & ATTN_FLAG_DROPOUT) && !(p->dropout_p >= 0 && p->dropout_p < 1))
        return "the dropout probability is outside [0,1)";
    if ((p->flags & ATTN_FLAG_WINDOW) && (p->window_left < -1 || p->window_right < -1))
        return "a window side is below -1";
    return NULL;
}

/* Parameters go with their score, other roles with all. */
static int goes_with(uint32_t role, uint32_t score)
{
    if (role == ATTN_SCORE_M)
        return score == ATTN_SCORE_BILINEAR;
    return role < ATTN_SCORE_WQ || role > ATTN_SCORE_WV || score == ATTN_SCORE_ADDITIVE;
}

/* NULL, or what is wrong with a tensor of a known role. */
static const char *tensor_fault(const struct attn_problem *p, const struct attn_tensor *tensor,
                                const struct operand *known)
{
    const uint32_t rank =
        tensor->role == ATTN_LEN && tensor->rank == 1 ? 1 : (uint32_t)strlen(known->axes);
    const int same = known->dtype <= 0 && tensor->dtype == p->dtype;
    if (!same && (known->dtype == SAME ||
                  tensor->dtype != (uint32_t)(known->dtype == EITHER ? ATTN_F32 : known->dtype)))
        return "type";
    if (tensor->space != ATTN_HOST || tensor->device != 0)
        return "memory space";
    if (tensor->rank != rank)
        return "rank";
    for (uint32_t a = 0; a < rank; a++)
        if (tensor->shape[a] != extent(p, known->axes[a]))
            return "shape";
    return attn_transfer_span(tensor) < 0 ? "stride" : NULL;
}

int attn_cuda_supports(const struct attn_problem *p, char *why, size_t size)
{
    const char *fault = kind_fault(p);
    if (!fault)
        fault = size_fault(p);
    for (uint32_t t = 0; !fault && t < p->n_tensors; t++) {
        const struct attn_tensor *tensor = &p->tensors[t];
        const struct operand *known =
            goes_with(tensor->role, p->score) ? find_operand(tensor->role) : NULL;
        const char *wrong = known ? tensor_fault(p, tensor, known) : NULL;
        if (wrong) {
            snprintf(why, size, "this %s of %s is not supported", wrong, known->name);
            return ATTN_UNSUPPORTED;
        }
        if (!known)
            fault = "a tensor of the problem has a role that is not known";
        if (tensor->role == ATTN_LEN && tensor->rank == 2 && p->flags & ATTN_FLAG_OFF_BR)
            fault = "bottom-right offsets need one length a batch";
    }
    for (size_t r = 0; !fault && r < sizeof required / sizeof *required; r++)
        if (goes_with(required[r], p->score) && !attn_tensor_find(p, required[r]))
            fault = "q, k, v, out and the score's parameters must all be given";
    if (!fault)
        return ATTN_OK;
    snprintf(why, size, "%s", fault);
    return ATTN_UNSUPPORTED;
}
