/* SPDX-License-Identifier: Apache-2.0 */
/* problem_cxx17.cc - problem.h alone, as strict C++17: the same limits as problem_c11.c, and every
 * function that C++ might read otherwise. */
#include "attnbench/problem.h"

extern "C" uint32_t attn_test_problem_cxx17(const attn_problem *problem, char *why, size_t size);
extern "C" int64_t attn_test_problem_row_cxx17(const attn_problem *problem);

extern "C" uint32_t attn_test_problem_cxx17(const attn_problem *problem, char *why, size_t size)
{
    static const uint32_t optional[] = {ATTN_LSE, ATTN_LEN, 0};
    static const attn_limit narrow[] = {{ATTN_K, 0, 1, nullptr, nullptr},
                                        {0, 0, 0, nullptr, nullptr}};
    attn_limits limits = {};
    limits.ops = ATTN_BIT(ATTN_OP_ATTENTION);
    limits.scores = ATTN_BIT(ATTN_SCORE_SCALED_DOT);
    limits.dtypes = ATTN_BIT(ATTN_F32) | ATTN_BIT(ATTN_BF16);
    limits.flags = ATTN_FLAG_CAUSAL;
    limits.optional = optional;
    limits.narrow = narrow;
    limits.widest = 64;
    return static_cast<uint32_t>(attn_problem_check(problem, &limits, why, size));
}

/* Keys that query 1 sees, with the mask and dropout of the first batch and head. */
extern "C" int64_t attn_test_problem_row_cxx17(const attn_problem *problem)
{
    attn_operands operands;
    attn_operands_set(&operands, problem->tensors, problem->n_tensors);
    const attn_keys keys =
        attn_keys_trim(attn_keys_seen(problem, &operands.len, 0, 1), &operands.mask, 0, 0, 1);
    int64_t count = 0;
    for (int64_t j = keys.first; j < keys.end; j++)
        count += attn_dropout_keeps(problem, &operands.keep, 0, 0, 1, j);
    return count;
}
