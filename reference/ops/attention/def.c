/* SPDX-License-Identifier: Apache-2.0 */
/* def.c - attention: q, k and v as they meet. OP.md has the definition. */
#include <stddef.h>

#include "reference/op_shared.h"
#include "reference/ops/attention/attention.h"

static const struct ref_operand own[] = {
    {ATTN_Q, "q", "bhiq", "", REF_TYPE_MAIN, REF_NEEDED | REF_ACTIVATION, 0},
    {ATTN_K, "k", "bgjk", "", REF_TYPE_MAIN, REF_NEEDED | REF_ACTIVATION, 0},
    {ATTN_V, "v", "bgjv", "", REF_TYPE_MAIN, REF_NEEDED | REF_ACTIVATION, 0},
    {0}};

/* Of disentangled scores. */
static const struct ref_operand positions[] = {
    {ATTN_SCORE_KR, "score_kr", "hPk", "h", REF_TYPE_SIDE, 0, 0},
    {ATTN_SCORE_QR, "score_qr", "hPk", "h", REF_TYPE_SIDE, 0, 0},
    {ATTN_REL_POS, "rel_buckets", "R", "", REF_TYPE_INDEX, 0, 0},
    {0}};

static const struct ref_operand *const groups[] = {own, ref_operands_score, ref_operands_mask,
                                                   positions, NULL};

static const struct ref_param params[] = {
    {"parts", "c2p+p2c|c2p|p2c", "score=disentangled: products with positions", REF_PARAM_WORD, 0,
     ATTN_PARTS_BOTH, ATTN_PARTS_BOTH, ATTN_PARTS_P2C, offsetof(struct attn_problem, parts)},
    {"rel_buckets", "none|tensor|log:N",
     "score=disentangled: a table of distances; log:N: N buckets", REF_PARAM_TABLE, 0, 0, 0, 65535,
     0},
    {"span", "N", "score=disentangled: tables of positions have 2 N rows", REF_PARAM_INT, 's', 0, 1,
     1 << 20, 0},
    {"variant", "code|paper", "score=disentangled: the distance that p2c reads", REF_PARAM_WORD, 0,
     ATTN_POSITIONS_CODE, ATTN_POSITIONS_CODE, ATTN_POSITIONS_PAPER,
     offsetof(struct attn_problem, variant)},
    {0}};

static const struct ref_output outputs[] = {
    {ATTN_OUT, "out", "bhiv", "bhi", REF_TYPE_MAIN, REF_NEEDED | REF_ACTIVATION, 0},
    {ATTN_LSE, "lse", "bhi", "bhi", REF_TYPE_WIDE, 0, 0},
    {ATTN_WEIGHTS, "weights", "bhij", "bhi", REF_TYPE_MAIN, 0, 0},
    {0}};

static const char *const keys[] = {NULL};
static const char *const needed[] = {NULL};

/* A case says span, a problem the rows of its tables. */
static void extents(struct ref_shape *shape)
{
    int64_t *x = shape->extent;

    if (x['P'] < 0 && x['s'] > 0)
        x['P'] = 2 * x['s'];
    else if (x['P'] > 0)
        x['s'] = x['P'] / 2;
    if (x['i'] >= 0 && x['j'] >= 0)
        x['R'] = x['i'] + x['j'] - 1;
}

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
    .params = params,
    .keys = keys,
    .needed = needed,
    .main_operand = "q",
    .extents = extents,
    .flops = flops,
    .unit_cost = unit_cost,
    .compute = ref_attention_compute,
    .linear = linear,
};
