/* SPDX-License-Identifier: Apache-2.0 */
/* supports.c - what the onednn backend accepts: the whole operator in the types that the library
 * multiplies on this machine. */
#include <stdio.h>

#include "onednn.h"

#define KNOWN_FLAGS                                                                                \
    (ATTN_FLAG_CAUSAL | ATTN_FLAG_WINDOW | ATTN_FLAG_OFF_BR | ATTN_FLAG_SOFTCAP |                  \
     ATTN_FLAG_DROPOUT | ATTN_FLAG_RESIDUAL | ATTN_FLAG_DETERMINISTIC)

enum { ATTENTION = 1 << ATTN_OP_ATTENTION, MHA = 1 << ATTN_OP_MHA, BOTH = ATTENTION | MHA };

/* Types of an operand: that of q; that or f32; f32; bool; i32. */
enum { SAME, PARAMETER, WIDE, TRUTH, COUNT };

/* One role. `shape` has a letter an axis: b h g(hkv) i j, widths q k v x(hidden), heads side by
 * side Q(hq*dq) K(hkv*dk) V(hkv*dv) O(hq*dv); * is any (the model widths, checked by pairs). */
static const struct rule {
    uint32_t role;
    int ops, type;
    uint32_t score; /* 0: any */
    const char *name, *shape;
} rules[] = {
    {ATTN_Q, ATTENTION, SAME, 0, "q", "bhiq"},
    {ATTN_K, ATTENTION, SAME, 0, "k", "bgjk"},
    {ATTN_V, ATTENTION, SAME, 0, "v", "bgjv"},
    {ATTN_OUT, ATTENTION, SAME, 0, "out", "bhiv"},
    {ATTN_OUT, MHA, SAME, 0, "out", "bi*"},
    {ATTN_LSE, BOTH, WIDE, 0, "lse", "bhi"},
    {ATTN_WEIGHTS, BOTH, SAME, 0, "weights", "bhij"},
    {ATTN_MASK, BOTH, TRUTH, 0, "mask", "bhij"},
    {ATTN_BIAS, BOTH, PARAMETER, 0, "bias", "bhij"},
    {ATTN_LEN, BOTH, COUNT, 0, "len", "bi"},
    {ATTN_ALIBI, BOTH, PARAMETER, 0, "alibi", "h"},
    {ATTN_SINK, BOTH, PARAMETER, 0, "sink", "h"},
    {ATTN_KEEP, BOTH, TRUTH, 0, "keep", "bhij"},
    {ATTN_HEAD_MASK, MHA, TRUTH, 0, "head_mask", "h"},
    {ATTN_SCORE_M, BOTH, SAME, ATTN_SCORE_BILINEAR, "m", "hqk"},
    {ATTN_SCORE_WQ, BOTH, SAME, ATTN_SCORE_ADDITIVE, "score_w_q", "hxq"},
    {ATTN_SCORE_WK, BOTH, SAME, ATTN_SCORE_ADDITIVE, "score_w_k", "hxk"},
    {ATTN_SCORE_WV, BOTH, SAME, ATTN_SCORE_ADDITIVE, "score_w_v", "hx"},
    {ATTN_X_Q, MHA, SAME, 0, "x_q", "bi*"},
    {ATTN_X_K, MHA, SAME, 0, "x_k", "bj*"},
    {ATTN_X_V, MHA, SAME, 0, "x_v", "bj*"},
    {ATTN_W_Q, MHA, SAME, 0, "w_q", "Q*"},
    {ATTN_W_K, MHA, SAME, 0, "w_k", "K*"},
    {ATTN_W_V, MHA, SAME, 0, "w_v", "V*"},
    {ATTN_W_O, MHA, SAME, 0, "w_o", "*O"},
    {ATTN_B_Q, MHA, SAME, 0, "b_q", "Q"},
    {ATTN_B_K, MHA, SAME, 0, "b_k", "K"},
    {ATTN_B_V, MHA, SAME, 0, "b_v", "V"},
    {ATTN_B_O, MHA, SAME, 0, "b_o", "*"},
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
    case 'q':
        return p->dq;
    case 'k':
        return p->dk;
    case 'v':
        return p->dv;
    case 'x':
        return p->dh;
    case 'Q':
        return p->hq * p->dq;
    case 'K':
        return p->hkv * p->dk;
    case 'V':
        return p->hkv * p->dv;
    case 'O':
        return p->hq * p->dv;
    default:
        return -1;
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
        if (rule->shape[a] != '*' && tensor->shape[a] != extent(problem, rule->shape[a]))
            return "has a shape that does not fit the problem";
    return NULL;
}

static int check_tensor(const struct attn_problem *problem, const struct attn_tensor *tensor,
                        char *why, size_t size)
{
    for (size_t r = 0; r < sizeof(rules) / sizeof(rules[0]); r++) {
        const struct rule *rule = &rules[r];
        if (rule->role != tensor->role || !(rule->ops & 1 << problem->op) ||
            (rule->score && rule->score != problem->score))
            continue;
        const char *fault = tensor_fault(problem, tensor, rule);
        if (!fault)
            return ATTN_OK;
        snprintf(why, size, "tensor %s %s", rule->name, fault);
        return ATTN_UNSUPPORTED;
    }
    snprintf(why, size, "tensor role %u is not known to this operation", tensor->role);
    return ATTN_UNSUPPORTED;
}

/* NULL, or what scalar is unknown or out of range. */
static const char *scalar_fault(const struct attn_problem *p)
{
    if (p->op != ATTN_OP_ATTENTION && p->op != ATTN_OP_MHA)
        return "the operation is not known";
    if (p->score < ATTN_SCORE_SCALED_DOT || p->score > ATTN_SCORE_ADDITIVE)
        return "the score is not known";
    if (p->dtype != ATTN_F32 && p->dtype != ATTN_BF16 && p->dtype != ATTN_F16)
        return "oneDNN multiplies f32, bf16 and f16 only";
    if (p->score == ATTN_SCORE_BILINEAR && p->dtype == ATTN_F16)
        return "q M would be stored in f16, whose range it may leave";
    if (p->flags & ~KNOWN_FLAGS)
        return "a flag of the problem is not known";
    if (p->b < 1 || p->hkv < 1 || p->hq < 1 || p->hq % p->hkv || p->sq < 1 || p->sk < 0 ||
        p->dq < 1 || p->dk < 1 || p->dv < 1 || (p->score == ATTN_SCORE_ADDITIVE && p->dh < 1))
        return "a size is out of range";
    if (p->hq > INT32_MAX / p->dq || p->hq > INT32_MAX / p->dk || p->hq > INT32_MAX / p->dv)
        return "heads side by side are too wide";
    if (p->dq != p->dk && p->score != ATTN_SCORE_BILINEAR && p->score != ATTN_SCORE_ADDITIVE)
        return "query and key widths differ";
    if ((p->flags & ATTN_FLAG_WINDOW) && (p->window_left < -1 || p->window_right < -1))
        return "a window side is below -1";
    if ((p->flags & ATTN_FLAG_DROPOUT) && !(p->dropout_p >= 0 && p->dropout_p < 1))
        return "the dropout probability is outside [0,1)";
    if ((p->flags & ATTN_FLAG_RESIDUAL) && p->op != ATTN_OP_MHA)
        return "a residual is part of multi-head attention only";
    return NULL;
}

/* Are the tensors there that the operation and the score need; the lists end in 0. */
static int complete(const struct attn_problem *p)
{
    static const uint32_t attention[] = {ATTN_Q, ATTN_K, ATTN_V, ATTN_OUT, 0};
    static const uint32_t mha[] = {ATTN_X_Q, ATTN_W_Q, ATTN_W_K, ATTN_W_V, ATTN_OUT, 0};
    static const uint32_t none[] = {0}, bilinear[] = {ATTN_SCORE_M, 0};
    static const uint32_t additive[] = {ATTN_SCORE_WQ, ATTN_SCORE_WK, ATTN_SCORE_WV, 0};
    const uint32_t *const needed[] = {p->op == ATTN_OP_MHA ? mha : attention,
                                      p->score == ATTN_SCORE_BILINEAR   ? bilinear
                                      : p->score == ATTN_SCORE_ADDITIVE ? additive
                                                                        : none};
    for (int n = 0; n < 2; n++)
        for (const uint32_t *role = needed[n]; *role; role++)
            if (!attn_tensor_find(p, *role))
                return 0;
    return 1;
}

/* NULL, or which widths of multi-head attention disagree. */
static const char *width_fault(const struct attn_problem *p)
{
    const struct attn_tensor *x_q = attn_tensor_find(p, ATTN_X_Q);
    const struct attn_tensor *x_k = attn_tensor_find(p, ATTN_X_K);
    const struct attn_tensor *x_v = attn_tensor_find(p, ATTN_X_V);
    const struct attn_tensor *w_o = attn_tensor_find(p, ATTN_W_O);
    const struct attn_tensor *b_o = attn_tensor_find(p, ATTN_B_O);
    int64_t width = attn_tensor_find(p, ATTN_OUT)->shape[2];
    if (!x_k && p->sk != p->sq)
        return "self-attention with as many keys as queries expected";
    x_k = x_k ? x_k : x_q;
    x_v = x_v ? x_v : x_k;
    if (attn_tensor_find(p, ATTN_W_Q)->shape[1] != x_q->shape[2] ||
        attn_tensor_find(p, ATTN_W_K)->shape[1] != x_k->shape[2] ||
        attn_tensor_find(p, ATTN_W_V)->shape[1] != x_v->shape[2])
        return "a projection does not fit the width of its input";
    if (width != (w_o ? w_o->shape[0] : p->hq * p->dv) || (b_o && b_o->shape[0] != width))
        return "the output projection does not fit the width of out";
    if (b_o && !w_o)
        return "an output bias without an output projection";
    if ((p->flags & ATTN_FLAG_RESIDUAL) && x_q->shape[2] != width)
        return "a residual needs equal widths of x_q and out";
    return NULL;
}

/* NULL, or what is wrong with the tensors together. */
static const char *operand_fault(const struct attn_problem *p)
{
    const struct attn_tensor *len = attn_tensor_find(p, ATTN_LEN);
    if (!complete(p))
        return "an operand that the operation needs is missing";
    if ((p->flags & ATTN_FLAG_OFF_BR) && len && len->rank == 2)
        return "a bottom-right offset needs one length a batch";
    if (attn_tensor_find(p, ATTN_KEEP) && !(p->flags & ATTN_FLAG_DROPOUT))
        return "a keep mask without dropout";
    return p->op == ATTN_OP_MHA ? width_fault(p) : NULL;
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
