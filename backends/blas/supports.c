/* SPDX-License-Identifier: Apache-2.0 */
/* supports.c - what the blas backend accepts: attention, its gradients and mha in f32 and f64. */
#include <limits.h>
#include <stdio.h>

#include "blas.h"

static const uint32_t optional[] = {ATTN_LSE,
                                    ATTN_WEIGHTS,
                                    ATTN_MASK,
                                    ATTN_BIAS,
                                    ATTN_LEN,
                                    ATTN_ALIBI,
                                    ATTN_SINK,
                                    ATTN_KEEP,
                                    ATTN_HEAD_MASK,
                                    ATTN_X_K,
                                    ATTN_X_V,
                                    ATTN_W_O,
                                    ATTN_B_Q,
                                    ATTN_B_K,
                                    ATTN_B_V,
                                    ATTN_B_O,
                                    ATTN_GRAD_BIAS,
                                    ATTN_GRAD_SINK,
                                    ATTN_GRAD_ALIBI,
                                    ATTN_GRAD_Q,
                                    ATTN_GRAD_K,
                                    ATTN_GRAD_V,
                                    0};

/* Read, or added up in place, as numbers of the problem's type. */
static const struct attn_limit narrow[] = {{.role = ATTN_BIAS, .types = ATTN_LIKE_Q},
                                           {.role = ATTN_GRAD_BIAS, .types = ATTN_LIKE_Q},
                                           {.role = ATTN_GRAD_SINK, .types = ATTN_LIKE_Q},
                                           {.role = ATTN_GRAD_ALIBI, .types = ATTN_LIKE_Q},
                                           {.role = 0}};

static const struct attn_limits limits = {
    .ops =
        ATTN_BIT(ATTN_OP_ATTENTION) | ATTN_BIT(ATTN_OP_MHA) | ATTN_BIT(ATTN_OP_ATTENTION_BACKWARD),
    .scores = ATTN_BIT(ATTN_SCORE_SCALED_DOT) | ATTN_BIT(ATTN_SCORE_DOT) |
              ATTN_BIT(ATTN_SCORE_BILINEAR) | ATTN_BIT(ATTN_SCORE_GAUSSIAN) |
              ATTN_BIT(ATTN_SCORE_ADDITIVE),
    .dtypes = ATTN_BIT(ATTN_F32) | ATTN_BIT(ATTN_F64),
    .flags = ATTN_FLAG_CAUSAL | ATTN_FLAG_WINDOW | ATTN_FLAG_OFF_BR | ATTN_FLAG_SOFTCAP |
             ATTN_FLAG_DROPOUT | ATTN_FLAG_RESIDUAL | ATTN_FLAG_DETERMINISTIC,
    .optional = optional,
    .narrow = narrow,
    .no_dtype = "CBLAS has f32 and f64 only",
};

/* NULL, or which size is beyond the int that CBLAS counts with. */
static const char *size_fault(const struct attn_problem *p)
{
    static const uint32_t wide[] = {ATTN_X_Q, ATTN_X_K, ATTN_X_V, ATTN_OUT};
    const int64_t sizes[] = {p->sq, p->sk, p->dq, p->dk, p->dv, p->dh};
    int64_t widest = p->dq > p->dk ? p->dq : p->dk;
    for (size_t n = 0; n < sizeof(sizes) / sizeof(sizes[0]); n++)
        if (sizes[n] > INT_MAX)
            return "a length or a width is beyond what CBLAS counts";
    for (size_t n = 0; n < sizeof(wide) / sizeof(wide[0]) && p->op == ATTN_OP_MHA; n++)
        if (attn_tensor_find(p, wide[n]) && attn_tensor_find(p, wide[n])->shape[2] > INT_MAX)
            return "a length or a width is beyond what CBLAS counts";
    widest = p->dv > widest ? p->dv : widest;
    if (p->hq > INT_MAX / widest)
        return "heads side by side are wider than CBLAS counts";
    return NULL;
}

/* NULL, or what is known before the operands are. */
static const char *scalar_fault(const struct attn_problem *p, uint32_t threads)
{
    if ((p->flags & ATTN_FLAG_DETERMINISTIC) && threads > 1)
        return "the order of sums of a threaded BLAS is not known";
    return NULL;
}

int attn_blas_supports(const struct attn_problem *problem, const struct attn_services *services,
                       char *why, size_t size)
{
    if (attn_problem_check_scalars(problem, &limits, why, size) != ATTN_OK)
        return ATTN_UNSUPPORTED;
    const char *fault = scalar_fault(problem, services->threads);
    if (!fault && attn_problem_check_operands(problem, &limits, why, size) != ATTN_OK)
        return ATTN_UNSUPPORTED;
    fault = fault ? fault : size_fault(problem);
    if (!fault)
        return ATTN_OK;
    snprintf(why, size, "%s", fault);
    return ATTN_UNSUPPORTED;
}
