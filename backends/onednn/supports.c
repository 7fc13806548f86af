/* SPDX-License-Identifier: Apache-2.0 */
/* supports.c - what the onednn backend accepts: the whole operator in the types that the library
 * multiplies on this machine. */
#include <stdio.h>

#include "onednn.h"

static const uint32_t optional[] = {
    ATTN_LSE,  ATTN_WEIGHTS, ATTN_MASK,      ATTN_BIAS, ATTN_LEN, ATTN_ALIBI,
    ATTN_SINK, ATTN_KEEP,    ATTN_HEAD_MASK, ATTN_X_K,  ATTN_X_V, ATTN_W_O,
    ATTN_B_Q,  ATTN_B_K,     ATTN_B_V,       ATTN_B_O,  0};

static const struct attn_limits limits = {
    .ops =
        ATTN_BIT(ATTN_OP_ATTENTION) | ATTN_BIT(ATTN_OP_MHA) | ATTN_BIT(ATTN_OP_ATTENTION_BACKWARD),
    .scores = ATTN_BIT(ATTN_SCORE_SCALED_DOT) | ATTN_BIT(ATTN_SCORE_DOT) |
              ATTN_BIT(ATTN_SCORE_BILINEAR) | ATTN_BIT(ATTN_SCORE_GAUSSIAN) |
              ATTN_BIT(ATTN_SCORE_ADDITIVE),
    .dtypes = ATTN_BIT(ATTN_F32) | ATTN_BIT(ATTN_BF16) | ATTN_BIT(ATTN_F16),
    .flags = ATTN_FLAG_CAUSAL | ATTN_FLAG_WINDOW | ATTN_FLAG_OFF_BR | ATTN_FLAG_SOFTCAP |
             ATTN_FLAG_DROPOUT | ATTN_FLAG_RESIDUAL | ATTN_FLAG_DETERMINISTIC,
    .optional = optional,
    .no_dtype = "oneDNN multiplies f32, bf16 and f16 only",
};

/* NULL, or which parameter of the score is not of the type of q: a product has one type. */
static const char *mixed_product(const struct attn_problem *p)
{
    for (uint32_t t = 0; t < p->n_tensors; t++) {
        const uint32_t role = p->tensors[t].role;
        if (role >= ATTN_SCORE_M && role <= ATTN_SCORE_WV && p->tensors[t].dtype != p->dtype)
            return attn_problem_role_name(role);
    }
    return NULL;
}

/* The elements from one row of k or v to the next, or between columns if these lie apart instead.
 * 0: neither is contiguous, so the operand is copied before the library sees it. */
static int64_t distance(const struct attn_tensor *x)
{
    const int64_t rows = x->shape[2] > 1 ? x->stride[2] : 0;
    const int64_t columns = x->shape[3] > 1 ? x->stride[3] : 0;
    if (rows > 1 && columns > 1)
        return 0;
    return rows > columns ? rows : columns;
}

/* Products multiply by k and v where these lie. Their code reaches sixteen rows from one register,
 * by displacements of 32 bits. From this many bytes between rows on, some shapes get no primitive
 * or make the Graph API abort, and the thread gets no other code afterwards (3.13). */
#define FAR_BYTES (INT64_C(1) << 27)

/* Whether k or v lies like that, with the reason. */

static int is_far(const struct attn_problem *p, char *why, size_t size)
{
    for (uint32_t t = 0; t < p->n_tensors; t++) {
        const struct attn_tensor *x = &p->tensors[t];
        if (x->role != ATTN_K && x->role != ATTN_V)
            continue;
        const int64_t limit = FAR_BYTES / attn_element_bytes(x->dtype);
        if (distance(x) < limit)
            continue;
        snprintf(why, size,
                 "rows or columns of %s lie %lld elements apart; oneDNN reaches less than %lld",
                 attn_problem_role_name(x->role), (long long)distance(x), (long long)limit);
        return 1;
    }
    return 0;
}

/* Does the Graph API have a layout for a matrix of gradients: rows contiguous, nothing broadcast.
 */
static int is_laid_out(const struct attn_tensor *x)
{
    for (int a = 0; a < 3; a++)
        if (x->shape[a] > 1 && x->stride[a] == 0)
            return 0;
    return (x->shape[3] <= 1 || x->stride[3] == 1) &&
           (x->shape[2] <= 1 || x->stride[2] >= x->shape[3]);
}

/* NULL, or which gradients the library's pattern for them leaves out. */
static const char *backward_fault(const struct attn_problem *p)
{
    static const uint32_t roles[] = {ATTN_Q,        ATTN_K,      ATTN_V,      ATTN_OUT,
                                     ATTN_GRAD_OUT, ATTN_GRAD_Q, ATTN_GRAD_K, ATTN_GRAD_V};
    if (p->op != ATTN_OP_ATTENTION_BACKWARD)
        return NULL;
    if ((p->flags & (ATTN_FLAG_SOFTCAP | ATTN_FLAG_DROPOUT)) || attn_tensor_find(p, ATTN_SINK))
        return "gradients with softcap, dropout or a sink are not supported";
    if (p->sk == 0)
        return "gradients without keys are not supported";
    if (p->dv == 1) /* the library aborts (3.13.2): its ReduceSum is over an axis of one element */
        return "gradients of values of width 1 are not supported";
    for (size_t r = 0; r < sizeof(roles) / sizeof(roles[0]); r++)
        if (!is_laid_out(attn_tensor_find(p, roles[r])))
            return "the Graph API has no layout for this stride of gradients";
    return NULL;
}

/* NULL, or what the library or this use of it rules out. */
static const char *library_fault(const struct attn_problem *p, uint32_t threads)
{
    if (p->hq > INT32_MAX / p->dq || p->hq > INT32_MAX / p->dk || p->hq > INT32_MAX / p->dv)
        return "heads side by side are too wide";
    if ((p->flags & ATTN_FLAG_DETERMINISTIC) && threads > 1)
        return "the order of oneDNN's sums on several threads is not known";
    if (!attn_onednn_multiplies(p->dtype))
        return "oneDNN does not multiply this type on this processor";
    return backward_fault(p);
}

int attn_onednn_supports(const struct attn_problem *problem, const struct attn_services *services,
                         char *why, size_t size)
{
    if (attn_problem_check(problem, &limits, why, size) != ATTN_OK)
        return ATTN_UNSUPPORTED;
    if (is_far(problem, why, size))
        return ATTN_UNSUPPORTED;
    const char *fault, *mixed = mixed_product(problem);
    if (problem->score == ATTN_SCORE_BILINEAR && problem->dtype == ATTN_F16) {
        fault = "q M would be stored in f16, whose range it may leave";
    } else if (mixed) {
        snprintf(why, size, "tensor %s has a type that is not supported", mixed);
        return ATTN_UNSUPPORTED;
    } else {
        fault = library_fault(problem, services->threads);
    }
    if (!fault)
        return ATTN_OK;
    snprintf(why, size, "%s", fault);
    return ATTN_UNSUPPORTED;
}
