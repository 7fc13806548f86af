/* SPDX-License-Identifier: Apache-2.0 */
/* supports.c - the limits of this plugin, and the operands it knows. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "plan.h"

/* Extents up to 2^40 and widths up to 2^16 keep every index and scratch size far from overflow. */
#define LARGEST_EXTENT (INT64_C(1) << 40)
#define LARGEST_WIDTH  (INT64_C(1) << 16)

static const uint64_t known_flags = ATTN_FLAG_CAUSAL | ATTN_FLAG_WINDOW | ATTN_FLAG_OFF_BR |
                                    ATTN_FLAG_SOFTCAP | ATTN_FLAG_DROPOUT | ATTN_FLAG_DETERMINISTIC;

/* Types of an operand: that of the problem; any float known here, because the heads of multi-head
 * attention are f32 and what surrounds them need not be; f32, bool, i32. */
enum { SAME, FLOATS, WIDE, TRUTH, COUNT };

/* Operands: type, axes, and the place of their view in the job. An axis is a letter of extent(). */
static const struct operand {
    uint32_t role;
    int type;
    const char *axes, *name;
    size_t view;
} operands[] = {
    {ATTN_Q, SAME, "bhiq", "q", offsetof(struct attn_flash, q)},
    {ATTN_K, SAME, "bgjk", "k", offsetof(struct attn_flash, k)},
    {ATTN_V, SAME, "bgjv", "v", offsetof(struct attn_flash, v)},
    {ATTN_OUT, FLOATS, "bhiv", "out", offsetof(struct attn_flash, out)},
    {ATTN_LSE, WIDE, "bhi", "lse", offsetof(struct attn_flash, lse)},
    {ATTN_WEIGHTS, FLOATS, "bhij", "weights", offsetof(struct attn_flash, weights)},
    {ATTN_MASK, TRUTH, "bhij", "mask", offsetof(struct attn_flash, mask)},
    {ATTN_BIAS, FLOATS, "bhij", "bias", offsetof(struct attn_flash, bias)},
    {ATTN_LEN, COUNT, "bi" /* or "b" */, "len", offsetof(struct attn_flash, len)},
    {ATTN_ALIBI, FLOATS, "h", "alibi", offsetof(struct attn_flash, alibi)},
    {ATTN_SINK, FLOATS, "h", "sink", offsetof(struct attn_flash, sink)},
    {ATTN_KEEP, TRUTH, "bhij", "keep", offsetof(struct attn_flash, keep)},
    {ATTN_SCORE_M, FLOATS, "hqk", "m", offsetof(struct attn_flash, m)},
    {ATTN_SCORE_WQ, FLOATS, "huq", "w_q", offsetof(struct attn_flash, w_q)},
    {ATTN_SCORE_WK, FLOATS, "huk", "w_k", offsetof(struct attn_flash, w_k)},
    {ATTN_SCORE_WV, FLOATS, "hu", "w_v", offsetof(struct attn_flash, w_v)},
};

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
    case 'v':
        return p->dv;
    default: /* 'u' */
        return p->dh;
    }
}

static const struct operand *find_operand(uint32_t role)
{
    for (size_t o = 0; o < sizeof operands / sizeof *operands; o++)
        if (operands[o].role == role)
            return &operands[o];
    return NULL;
}

static int refuse(char *why, size_t size, const char *text)
{
    snprintf(why, size, "%s", text);
    return ATTN_UNSUPPORTED;
}

static int refuse_operand(char *why, size_t size, const struct operand *operand, const char *what)
{
    snprintf(why, size, "this %s of %s is not supported", what, operand->name);
    return ATTN_UNSUPPORTED;
}

static int refuse_number(char *why, size_t size, const char *what, uint64_t number)
{
    snprintf(why, size, "%s 0x%" PRIx64 " is not known", what, number);
    return ATTN_UNSUPPORTED;
}

static int check_kind(const struct attn_problem *p, char *why, size_t size)
{
    if (p->struct_size < sizeof *p)
        return refuse(why, size, "the problem structure is older than this plugin");
    if (p->op != ATTN_OP_ATTENTION)
        return refuse_number(why, size, "op", p->op);
    if (p->score < ATTN_SCORE_SCALED_DOT || p->score > ATTN_SCORE_ADDITIVE)
        return refuse_number(why, size, "score", p->score);
    if (!attn_element_known(p->dtype))
        return refuse(why, size, "only f32, f16 and bf16 are implemented");
    if (p->flags & ~known_flags)
        return refuse_number(why, size, "flag", p->flags & ~known_flags);
    return ATTN_OK;
}

static int check_sizes(const struct attn_problem *p, char *why, size_t size)
{
    int64_t rows;
    bool additive = p->score == ATTN_SCORE_ADDITIVE;
    if (p->b < 0 || p->sq < 0 || p->sk < 0 || p->hq < 1 || p->hkv < 1 || p->hq % p->hkv ||
        p->dq < 1 || p->dk < 1 || p->dv < 1 || (additive && p->dh < 1) ||
        (p->dq != p->dk && !additive && p->score != ATTN_SCORE_BILINEAR))
        return refuse(why, size, "the sizes do not make an attention problem");
    if (p->b > LARGEST_EXTENT || p->sq > LARGEST_EXTENT || p->sk > LARGEST_EXTENT ||
        p->hq > LARGEST_EXTENT || __builtin_mul_overflow(p->b, p->hq, &rows) ||
        __builtin_mul_overflow(rows, p->sq, &rows))
        return refuse(why, size, "extents beyond 2^40, or rows beyond 2^63, are not supported");
    if (p->dq > LARGEST_WIDTH || p->dk > LARGEST_WIDTH || p->dv > LARGEST_WIDTH ||
        (additive && p->dh > LARGEST_WIDTH))
        return refuse(why, size, "heads wider than 65536 are not supported");
    if (p->off > LARGEST_EXTENT || p->off < -LARGEST_EXTENT)
        return refuse(why, size, "mask offsets beyond 2^40 are not supported");
    return ATTN_OK;
}

static bool type_fits(const struct attn_problem *p, uint32_t dtype, int type)
{
    switch (type) {
    case SAME:
        return dtype == p->dtype;
    case FLOATS:
        return attn_element_known(dtype);
    case WIDE:
        return dtype == ATTN_F32;
    case TRUTH:
        return dtype == ATTN_BOOL;
    default: /* COUNT */
        return dtype == ATTN_I32;
    }
}

static bool shape_fits(const struct attn_problem *p, const struct attn_tensor *tensor,
                       const struct operand *known)
{
    uint32_t rank = (uint32_t)strlen(known->axes);
    if (tensor->rank != rank && (tensor->role != ATTN_LEN || tensor->rank != 1))
        return false;
    for (uint32_t a = 0; a < tensor->rank; a++)
        if (tensor->shape[a] != extent(p, known->axes[a]))
            return false;
    return true;
}

/* The score parameters that go with each score; other roles go with all. */
static bool goes_with(uint32_t role, uint32_t score)
{
    if (role == ATTN_SCORE_M)
        return score == ATTN_SCORE_BILINEAR;
    if (role == ATTN_SCORE_WQ || role == ATTN_SCORE_WK || role == ATTN_SCORE_WV)
        return score == ATTN_SCORE_ADDITIVE;
    return true;
}

static int check_tensors(const struct attn_problem *p, char *why, size_t size)
{
    for (uint32_t t = 0; t < p->n_tensors; t++) {
        const struct attn_tensor *tensor = &p->tensors[t];
        const struct operand *known = find_operand(tensor->role);
        if (!known || !goes_with(tensor->role, p->score))
            return refuse_number(why, size, "tensor role", tensor->role);
        if (!type_fits(p, tensor->dtype, known->type))
            return refuse_operand(why, size, known, "type");
        if (tensor->space != ATTN_HOST)
            return refuse_operand(why, size, known, "memory space");
        if (!shape_fits(p, tensor, known))
            return refuse_operand(why, size, known, "shape");
        if (tensor->role == ATTN_LEN && tensor->rank == 2 && p->flags & ATTN_FLAG_OFF_BR)
            return refuse(why, size, "bottom-right offsets need one length a batch");
    }
    const uint32_t required[] = {ATTN_Q,       ATTN_K,        ATTN_V,        ATTN_OUT,
                                 ATTN_SCORE_M, ATTN_SCORE_WQ, ATTN_SCORE_WK, ATTN_SCORE_WV};
    for (size_t r = 0; r < sizeof required / sizeof *required; r++)
        if (goes_with(required[r], p->score) && !attn_tensor_find(p, required[r]))
            return refuse(why, size, "q, k, v, out and the score's parameters must all be given");
    return ATTN_OK;
}

int attn_plan_supports(const struct attn_problem *problem, char *why, size_t size)
{
    int status = check_kind(problem, why, size);
    if (status == ATTN_OK)
        status = check_sizes(problem, why, size);
    if (status == ATTN_OK)
        status = check_tensors(problem, why, size);
    return status;
}

void attn_plan_attach(struct attn_flash *job, const struct attn_tensor *tensors, uint32_t n_tensors)
{
    for (uint32_t t = 0; t < n_tensors; t++) {
        const struct operand *known = find_operand(tensors[t].role);
        struct attn_view *view = (struct attn_view *)(void *)((char *)job + known->view);
        view->data = tensors[t].data;
        view->dtype = tensors[t].dtype;
        for (uint32_t a = 0; a < tensors[t].rank && a < 4; a++)
            view->stride[a] = tensors[t].stride[a];
        if (tensors[t].role == ATTN_LEN)
            job->len_rank = (int)tensors[t].rank;
    }
}
