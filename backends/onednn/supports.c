/* SPDX-License-Identifier: Apache-2.0 */
/* supports.c - what the onednn backend accepts: dot-product attention in the types that the library
 * multiplies on this machine. */
#include <stdio.h>

#include "onednn.h"

#define KNOWN_FLAGS                                                                                \
    (ATTN_FLAG_CAUSAL | ATTN_FLAG_WINDOW | ATTN_FLAG_OFF_BR | ATTN_FLAG_SOFTCAP |                  \
     ATTN_FLAG_DROPOUT | ATTN_FLAG_DETERMINISTIC)

/* Types of an operand: that of q; that or f32; f32; bool; i32. */
enum { SAME, PARAMETER, WIDE, TRUTH, COUNT };

/* One role. `shape` has a letter an axis: b h g(hkv) i j, widths k v. */
static const struct rule {
    uint32_t role;
    int type;
    const char *name, *shape;
} rules[] = {
    {ATTN_Q, SAME, "q", "bhik"},         {ATTN_K, SAME, "k", "bgjk"},
    {ATTN_V, SAME, "v", "bgjv"},         {ATTN_OUT, SAME, "out", "bhiv"},
    {ATTN_LSE, WIDE, "lse", "bhi"},      {ATTN_WEIGHTS, SAME, "weights", "bhij"},
    {ATTN_MASK, TRUTH, "mask", "bhij"},  {ATTN_BIAS, PARAMETER, "bias", "bhij"},
    {ATTN_LEN, COUNT, "len", "bi"},      {ATTN_ALIBI, PARAMETER, "alibi", "h"},
    {ATTN_SINK, PARAMETER, "sink", "h"}, {ATTN_KEEP, TRUTH, "keep", "bhij"},
};

static int64_t extent(const struct attn_problem *p, char letter)
{
    switch (letter) {
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
    case 'k':
        return p->dk;
    default:
        return p->dv;
    }
}

static int type_fits(int type, uint32_t dtype, uint32_t q_type)
{
    switch (type) {
    case SAME:
        return dtype == q_type;
    case PARAMETER:
        return dtype == q_type || dtype == ATTN_F32;
    case WIDE:
        return dtype == ATTN_F32;
    case TRUTH:
        return dtype == ATTN_BOOL;
    default:
        return dtype == ATTN_I32;
    }
}

/* NULL, or what is wrong with a tensor. */
static const char *tensor_fault(const struct attn_problem *problem,
                                const struct attn_tensor *tensor, const struct rule *rule)
{
    if (tensor->space != ATTN_HOST || tensor->device != 0)
        return "does not lie in host memory";
    if (!type_fits(rule->type, tensor->dtype, problem->dtype))
        return "has a type that is not supported";
    uint32_t rank = 0;
    while (rule->shape[rank])
        rank++;
    if (tensor->role == ATTN_LEN && tensor->rank == 1)
        rank = 1;
    if (tensor->rank != rank)
        return "has an unexpected rank";
    for (uint32_t a = 0; a < rank; a++)
        if (tensor->shape[a] != extent(problem, rule->shape[a]))
            return "has a shape that does not fit the problem";
    return NULL;
}

static int check_tensor(const struct attn_problem *problem, const struct attn_tensor *tensor,
                        char *why, size_t size)
{
    for (size_t r = 0; r < sizeof(rules) / sizeof(rules[0]); r++) {
        if (rules[r].role != tensor->role)
            continue;
        const char *fault = tensor_fault(problem, tensor, &rules[r]);
        if (!fault)
            return ATTN_OK;
        snprintf(why, size, "tensor %s %s", rules[r].name, fault);
        return ATTN_UNSUPPORTED;
    }
    snprintf(why, size, "tensor role %u is not known to this operation", tensor->role);
    return ATTN_UNSUPPORTED;
}

/* NULL, or what scalar is unknown or out of range. */
static const char *scalar_fault(const struct attn_problem *p)
{
    if (p->op != ATTN_OP_ATTENTION)
        return "attention alone is put to the library, without projections";
    if (p->score != ATTN_SCORE_SCALED_DOT && p->score != ATTN_SCORE_DOT)
        return "only dot-product scores are a matrix product";
    if (p->dtype != ATTN_F32 && p->dtype != ATTN_BF16 && p->dtype != ATTN_F16)
        return "oneDNN multiplies f32, bf16 and f16 only";
    if (p->flags & ~KNOWN_FLAGS)
        return "a flag of the problem is not known";
    if (p->b < 1 || p->hkv < 1 || p->hq < 1 || p->hq % p->hkv || p->sq < 1 || p->sk < 0 ||
        p->dq < 1 || p->dk < 1 || p->dv < 1)
        return "a size is out of range";
    if (p->dq != p->dk)
        return "query and key widths differ";
    if ((p->flags & ATTN_FLAG_WINDOW) && (p->window_left < -1 || p->window_right < -1))
        return "a window side is below -1";
    if ((p->flags & ATTN_FLAG_DROPOUT) && !(p->dropout_p >= 0 && p->dropout_p < 1))
        return "the dropout probability is outside [0,1)";
    return NULL;
}

/* NULL, or what is wrong with the tensors together. Rows and columns of a matrix may lie in any
 * order and at any distance, but not on one another: the library's layouts have no broadcasting. */
static const char *operand_fault(const struct attn_problem *p)
{
    static const uint32_t needed[] = {ATTN_Q, ATTN_K, ATTN_V, ATTN_OUT};
    for (int n = 0; n < 4; n++) {
        const struct attn_tensor *tensor = attn_tensor_find(p, needed[n]);
        if (!tensor)
            return "an operand that the operation needs is missing";
        for (int a = 2; a < 4; a++)
            if (tensor->shape[a] > 1 && tensor->stride[a] == 0)
                return "a row or a column of an operand is broadcast";
    }
    const struct attn_tensor *len = attn_tensor_find(p, ATTN_LEN);
    if ((p->flags & ATTN_FLAG_OFF_BR) && len && len->rank == 2)
        return "a bottom-right offset needs one length a batch";
    if (attn_tensor_find(p, ATTN_KEEP) && !(p->flags & ATTN_FLAG_DROPOUT))
        return "a keep mask without dropout";
    return NULL;
}

int attn_onednn_supports(const struct attn_problem *problem, const struct attn_services *services,
                         char *why, size_t size)
{
    const char *fault = problem->struct_size < sizeof(*problem)
                            ? "the problem structure is older than this backend"
                            : scalar_fault(problem);
    for (uint32_t t = 0; !fault && t < problem->n_tensors; t++)
        if (check_tensor(problem, &problem->tensors[t], why, size))
            return ATTN_UNSUPPORTED;
    if (!fault)
        fault = operand_fault(problem);
    if (!fault && (problem->flags & ATTN_FLAG_DETERMINISTIC) && services->threads > 1)
        fault = "the order of oneDNN's sums on several threads is not known";
    if (!fault && !attn_onednn_multiplies(problem->dtype))
        fault = "oneDNN does not multiply this type on this processor";
    if (!fault)
        return ATTN_OK;
    snprintf(why, size, "%s", fault);
    return ATTN_UNSUPPORTED;
}
