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
    .ops = ATTN_BIT(ATTN_OP_ATTENTION) | ATTN_BIT(ATTN_OP_MHA),
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

/* NULL, or what the library or this use of it rules out. */
static const char *library_fault(const struct attn_problem *p, uint32_t threads)
{
    if (p->hq > INT32_MAX / p->dq || p->hq > INT32_MAX / p->dk || p->hq > INT32_MAX / p->dv)
        return "heads side by side are too wide";
    if ((p->flags & ATTN_FLAG_DETERMINISTIC) && threads > 1)
        return "the order of oneDNN's sums on several threads is not known";
    if (!attn_onednn_multiplies(p->dtype))
        return "oneDNN does not multiply this type on this processor";
    return NULL;
}

int attn_onednn_supports(const struct attn_problem *problem, const struct attn_services *services,
                         char *why, size_t size)
{
    if (attn_problem_check(problem, &limits, why, size) != ATTN_OK)
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
