/* SPDX-License-Identifier: Apache-2.0 */
/* supports.c - see supports.h. */
#include "supports.h"

#include <stdio.h>

#include "attnbench/problem.h"

/* Positions are 32 bits wide: i + off + window_right stays below 2^31 with extents up to 2^28. */
#define LARGEST_EXTENT (INT64_C(1) << 28)
/* Rows of all heads: counted in 32 bits, in whole tiles. */
#define MOST_ROWS     (INT64_C(1) << 30)
#define LARGEST_WIDTH 256

/* Of both passes. */
#define TYPES (ATTN_BIT(ATTN_F32) | ATTN_BIT(ATTN_F16) | ATTN_BIT(ATTN_BF16))
#define FLAGS                                                                                      \
    (ATTN_FLAG_CAUSAL | ATTN_FLAG_WINDOW | ATTN_FLAG_OFF_BR | ATTN_FLAG_SOFTCAP |                  \
     ATTN_FLAG_DROPOUT | ATTN_FLAG_DETERMINISTIC)

static const uint32_t optional[] = {ATTN_LSE,   ATTN_WEIGHTS, ATTN_MASK, ATTN_BIAS, ATTN_LEN,
                                    ATTN_ALIBI, ATTN_SINK,    ATTN_KEEP, 0};

/* Kernels read slopes and sinks as f32, and score parameters in the type of q. */
static const struct attn_limit narrow[] = {
    {.role = ATTN_ALIBI, .types = ATTN_BIT(ATTN_F32)},
    {.role = ATTN_SINK, .types = ATTN_BIT(ATTN_F32)},
    {.role = ATTN_SCORE_M, .types = ATTN_LIKE_Q},
    {.role = ATTN_SCORE_WQ, .types = ATTN_LIKE_Q, .name = "w_q"},
    {.role = ATTN_SCORE_WK, .types = ATTN_LIKE_Q, .name = "w_k"},
    {.role = ATTN_SCORE_WV, .types = ATTN_LIKE_Q, .name = "w_v"},
    {0},
};

static const struct attn_limits limits = {
    .ops = ATTN_BIT(ATTN_OP_ATTENTION),
    .scores = ATTN_BIT(ATTN_SCORE_SCALED_DOT) | ATTN_BIT(ATTN_SCORE_DOT) |
              ATTN_BIT(ATTN_SCORE_BILINEAR) | ATTN_BIT(ATTN_SCORE_GAUSSIAN) |
              ATTN_BIT(ATTN_SCORE_ADDITIVE),
    .dtypes = TYPES,
    .flags = FLAGS,
    .optional = optional,
    .narrow = narrow,
    .widest = LARGEST_WIDTH,
    .no_op = "only attention itself is implemented, without projections",
};

static const uint32_t backward_optional[] = {ATTN_MASK,      ATTN_BIAS,
                                             ATTN_LEN,       ATTN_ALIBI,
                                             ATTN_SINK,      ATTN_KEEP,
                                             ATTN_GRAD_Q,    ATTN_GRAD_K,
                                             ATTN_GRAD_V,    ATTN_GRAD_BIAS,
                                             ATTN_GRAD_SINK, ATTN_GRAD_ALIBI,
                                             ATTN_GRAD_LSE,  0};

static const struct attn_limits backward_limits = {
    .ops = ATTN_BIT(ATTN_OP_ATTENTION_BACKWARD),
    .scores = ATTN_BIT(ATTN_SCORE_SCALED_DOT) | ATTN_BIT(ATTN_SCORE_DOT),
    .dtypes = TYPES,
    .flags = FLAGS,
    .optional = backward_optional,
    .narrow = narrow,
    .widest = LARGEST_WIDTH,
    .no_score = "gradients are those of dot products only",
};

/* Are the extents within what 32 bits count. */
static int fits_32_bits(const struct attn_problem *p)
{
    const int64_t extents[] = {p->b, p->hq, p->sq, p->sk, p->dh, p->off, -p->off};
    const int additive = p->score == ATTN_SCORE_ADDITIVE;
    const int64_t longest = additive && p->sk > p->sq ? p->sk : p->sq;
    int64_t rows;

    for (size_t e = 0; e < sizeof extents / sizeof *extents; e++)
        if (extents[e] > LARGEST_EXTENT)
            return 0;
    return !__builtin_mul_overflow(p->b * p->hq, longest, &rows) && rows <= MOST_ROWS;
}

static int check(const struct attn_problem *p, const struct attn_limits *most, char *why,
                 size_t size)
{
    if (attn_problem_check_scalars(p, most, why, size) != ATTN_OK)
        return ATTN_UNSUPPORTED;
    if (!fits_32_bits(p)) {
        snprintf(why, size, "extents beyond 2^28, or more than 2^30 rows, are not supported");
        return ATTN_UNSUPPORTED;
    }
    return attn_problem_check_operands(p, most, why, size);
}

int attn_cuda_supports(const struct attn_problem *p, char *why, size_t size)
{
    return check(p, &limits, why, size);
}

int attn_cuda_backward_supports(const struct attn_problem *p, char *why, size_t size)
{
    int64_t keys;
    if (check(p, &backward_limits, why, size) != ATTN_OK)
        return ATTN_UNSUPPORTED;
    /* the rows of dk and dv are counted like those of dq */
    if (!__builtin_mul_overflow(p->b * p->hkv, p->sk, &keys) && keys <= MOST_ROWS)
        return ATTN_OK;
    snprintf(why, size, "more than 2^30 keys of all heads are not supported");
    return ATTN_UNSUPPORTED;
}
