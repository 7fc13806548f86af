/* SPDX-License-Identifier: Apache-2.0 */
/* problem_c11.c - problem.h alone, as strict C11. */
#include "attnbench/problem.h"

uint32_t attn_test_problem_c11(const struct attn_problem *problem, char *why, size_t size);

uint32_t attn_test_problem_c11(const struct attn_problem *problem, char *why, size_t size)
{
    static const uint32_t optional[] = {ATTN_LSE, ATTN_LEN, 0};
    static const struct attn_limit narrow[] = {{.role = ATTN_K, .multiple = 1}, {.role = 0}};
    static const struct attn_limits limits = {
        .ops = ATTN_BIT(ATTN_OP_ATTENTION),
        .scores = ATTN_BIT(ATTN_SCORE_SCALED_DOT),
        .dtypes = ATTN_BIT(ATTN_F32) | ATTN_BIT(ATTN_BF16),
        .flags = ATTN_FLAG_CAUSAL,
        .optional = optional,
        .narrow = narrow,
        .widest = 64,
    };
    return (uint32_t)attn_problem_check(problem, &limits, why, size);
}
