/* SPDX-License-Identifier: Apache-2.0 */
/* def.c - attention: q, k and v as they meet. OP.md has the definition. */
#include "reference/op_shared.h"
#include "reference/ops/attention/attention.h"

static const struct ref_operand own[] = {
    {ATTN_Q, "q", "bhiq", "", REF_TYPE_MAIN, REF_NEEDED | REF_ACTIVATION, 0},
    {ATTN_K, "k", "bgjk", "", REF_TYPE_MAIN, REF_NEEDED | REF_ACTIVATION, 0},
    {ATTN_V, "v", "bgjv", "", REF_TYPE_MAIN, REF_NEEDED | REF_ACTIVATION, 0},
    {0}};

static const struct ref_operand *const groups[] = {own, ref_operands_score, ref_operands_mask,
                                                   NULL};

static const struct ref_output outputs[] = {
    {ATTN_OUT, "out", "bhiv", "bhi", REF_TYPE_MAIN, REF_NEEDED | REF_ACTIVATION, 0},
    {ATTN_LSE, "lse", "bhi", "bhi", REF_TYPE_WIDE, 0, 0},
    {ATTN_WEIGHTS, "weights", "bhij", "bhi", REF_TYPE_MAIN, 0, 0},
    {0}};

static const char *const keys[] = {NULL};
static const char *const needed[] = {NULL};

static double flops(const struct ref_shape *shape, double nnz)
{
    return 2.0 * (double)(shape->extent['k'] + shape->extent['v']) * nnz;
}

static double unit_cost(const struct attn_problem *problem, int output)
{
    (void)output;
    return ref_head_cost(problem);
}

static uint32_t linear(const struct attn_problem *problem, const char **word)
{
    (void)problem;
    *word = "v";
    return ATTN_V;
}

const struct ref_op ref_op_attention = {
    .op = ATTN_OP_ATTENTION,
    .name = "attention",
    .summary = "scores of q and k, mask, softmax over keys, weighted sum of v",
    .traits = REF_QKV | REF_SOFTMAX,
    .flags = ATTN_FLAG_CAUSAL | ATTN_FLAG_WINDOW | ATTN_FLAG_OFF_BR | ATTN_FLAG_SOFTCAP |
             ATTN_FLAG_DROPOUT | ATTN_FLAG_DETERMINISTIC,
    .scores = REF_SCORES_ALL,
    .operands = groups,
    .outputs = outputs,
    .keys = keys,
    .needed = needed,
    .main_operand = "q",
    .flops = flops,
    .unit_cost = unit_cost,
    .compute = ref_attention_compute,
    .linear = linear,
};
