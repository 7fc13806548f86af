/* SPDX-License-Identifier: Apache-2.0 */
/* supports.c - the limits of this plugin. */
#include <stdio.h>

#include "lsh.h"
#include "mha.h"

/* Extents up to 2^40 and widths up to 2^16 keep every index and scratch size far from overflow. */
#define LARGEST_EXTENT (INT64_C(1) << 40)
#define LARGEST_WIDTH  (INT64_C(1) << 16)

#define FLOATS (ATTN_BIT(ATTN_F32) | ATTN_BIT(ATTN_F16) | ATTN_BIT(ATTN_BF16))

static const uint32_t optional[] = {ATTN_LSE,       ATTN_WEIGHTS,     ATTN_MASK,
                                    ATTN_BIAS,      ATTN_LEN,         ATTN_ALIBI,
                                    ATTN_SINK,      ATTN_KEEP,        ATTN_HEAD_MASK,
                                    ATTN_X_K,       ATTN_X_V,         ATTN_W_O,
                                    ATTN_B_Q,       ATTN_B_K,         ATTN_B_V,
                                    ATTN_B_O,       ATTN_BONUS,       ATTN_STATE_IN,
                                    ATTN_STATE_OUT, ATTN_GATE,        ATTN_PROJ_F,
                                    ATTN_GLOBAL,    ATTN_DILATION,    ATTN_REL_POS,
                                    ATTN_Q_GLOBAL,  ATTN_K_GLOBAL,    ATTN_V_GLOBAL,
                                    ATTN_BUCKETS,   ATTN_BUCKETS_OUT, ATTN_GRAD_BIAS,
                                    ATTN_GRAD_SINK, ATTN_GRAD_ALIBI,  ATTN_GRAD_Q,
                                    ATTN_GRAD_K,    ATTN_GRAD_V,      0};

/* Kernels convert these from and to each of the types, whatever the type of the problem. */
static const struct attn_limit narrow[] = {
    {.role = ATTN_WEIGHTS, .types = FLOATS},
    {.role = ATTN_BIAS, .types = FLOATS},
    {.role = ATTN_ALIBI, .types = FLOATS},
    {.role = ATTN_SINK, .types = FLOATS},
    {.role = ATTN_SCORE_M, .types = FLOATS},
    {.role = ATTN_SCORE_WQ, .types = FLOATS, .name = "w_q"},
    {.role = ATTN_SCORE_WK, .types = FLOATS, .name = "w_k"},
    {.role = ATTN_SCORE_WV, .types = FLOATS, .name = "w_v"},
    {.role = ATTN_SCORE_KR, .types = FLOATS},
    {.role = ATTN_SCORE_QR, .types = FLOATS},
    {.role = ATTN_FEATURES, .types = FLOATS},
    {.role = 0},
};

static const struct attn_limits limits = {
    .ops = ATTN_BIT(ATTN_OP_ATTENTION) | ATTN_BIT(ATTN_OP_MHA) | ATTN_BIT(ATTN_OP_WKV) |
           ATTN_BIT(ATTN_OP_LINEAR_DECAY) | ATTN_BIT(ATTN_OP_CHUNKED) |
           ATTN_BIT(ATTN_OP_LINFORMER) | ATTN_BIT(ATTN_OP_PERFORMER) | ATTN_BIT(ATTN_OP_NYSTROM) |
           ATTN_BIT(ATTN_OP_LSH) | ATTN_BIT(ATTN_OP_ATTENTION_BACKWARD),
    .scores = ATTN_BIT(ATTN_SCORE_SCALED_DOT) | ATTN_BIT(ATTN_SCORE_DOT) |
              ATTN_BIT(ATTN_SCORE_BILINEAR) | ATTN_BIT(ATTN_SCORE_GAUSSIAN) |
              ATTN_BIT(ATTN_SCORE_ADDITIVE) | ATTN_BIT(ATTN_SCORE_DISENTANGLED),
    .dtypes = FLOATS,
    .flags = ATTN_FLAG_CAUSAL | ATTN_FLAG_WINDOW | ATTN_FLAG_OFF_BR | ATTN_FLAG_SOFTCAP |
             ATTN_FLAG_DROPOUT | ATTN_FLAG_RESIDUAL | ATTN_FLAG_DETERMINISTIC | ATTN_FLAG_WEIGHT,
    .optional = optional,
    .narrow = narrow,
    .widest = LARGEST_WIDTH,
};

/* NULL, or which size is too large. */
static const char *size_fault(const struct attn_problem *p)
{
    int64_t rows;
    if (p->b > LARGEST_EXTENT || p->sq > LARGEST_EXTENT || p->sk > LARGEST_EXTENT ||
        p->hq > LARGEST_EXTENT || __builtin_mul_overflow(p->b, p->hq, &rows) ||
        __builtin_mul_overflow(rows, p->sq, &rows))
        return "extents beyond 2^40, or rows beyond 2^63, are not supported";
    if (attn_tensor_find(p, ATTN_GLOBAL) && p->sk > INT32_MAX)
        return "global tokens beyond 2^31 are not supported";
    if (p->score == ATTN_SCORE_DISENTANGLED && p->op != ATTN_OP_ATTENTION)
        return "disentangled scores are for op attention only";
    if (p->score == ATTN_SCORE_DISENTANGLED && attn_problem_extent(p, 'P') > INT32_MAX)
        return "positions beyond 2^31 are not supported";
    if (p->score == ATTN_SCORE_ADDITIVE && p->dh > LARGEST_WIDTH)
        return "heads wider than 65536 are not supported";
    if (p->op == ATTN_OP_CHUNKED && attn_problem_extent(p, 'l') > LARGEST_WIDTH)
        return "lin_q wider than 65536 is not supported";
    if (p->off > LARGEST_EXTENT || p->off < -LARGEST_EXTENT)
        return "mask offsets beyond 2^40 are not supported";
    if (p->op == ATTN_OP_PERFORMER && attn_problem_extent(p, 'm') > LARGEST_WIDTH)
        return "more than 65536 random features are not supported";
    if (p->op == ATTN_OP_LSH && (p->sq > ATTN_LSH_MOST_TOKENS || p->buckets > ATTN_LSH_MOST_TOKENS))
        return "lsh of more than 2^24 tokens or buckets is not supported";
    if (p->op == ATTN_OP_LSH && p->rounds > ATTN_LSH_MOST_ROUNDS)
        return "more than 256 rounds of lsh are not supported";
    if (p->op == ATTN_OP_MHA && !attn_mha_fits(p))
        return "the projected rows of all heads are too large";
    return NULL;
}

int attn_plan_supports(const struct attn_problem *problem, char *why, size_t size)
{
    if (attn_problem_check_scalars(problem, &limits, why, size) != ATTN_OK)
        return ATTN_UNSUPPORTED;
    const char *fault = size_fault(problem);
    if (!fault)
        return attn_problem_check_operands(problem, &limits, why, size);
    snprintf(why, size, "%s", fault);
    return ATTN_UNSUPPORTED;
}
