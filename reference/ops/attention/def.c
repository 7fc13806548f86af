/* SPDX-License-Identifier: Apache-2.0 */
/* def.c - attention: q, k and v as they meet. OP.md has the definition. */
#include <stddef.h>
#include <stdio.h>

#include <stdio.h>

#include "reference/op_shared.h"
#include "reference/operands.h"
#include "reference/ops/attention/attention.h"
#include "reference/weight.h"

static const struct ref_operand own[] = {
    {ATTN_Q, "q", "bhiq", "", REF_TYPE_MAIN, REF_NEEDED | REF_ACTIVATION, 0},
    {ATTN_K, "k", "bgjk", "", REF_TYPE_MAIN, REF_NEEDED | REF_ACTIVATION, 0},
    {ATTN_V, "v", "bgjv", "", REF_TYPE_MAIN, REF_NEEDED | REF_ACTIVATION, 0},
    {ATTN_GATE, "gate", "bhiv", "", REF_TYPE_MAIN, REF_ACTIVATION, 0},
    {0}};

/* Of disentangled scores. */
static const struct ref_operand positions[] = {
    {ATTN_SCORE_KR, "score_kr", "hPk", "h", REF_TYPE_SIDE, 0, 0},
    {ATTN_SCORE_QR, "score_qr", "hPk", "h", REF_TYPE_SIDE, 0, 0},
    {ATTN_REL_POS, "rel_buckets", "D", "", REF_TYPE_INDEX, 0, 0},
    {0}};

/* Global tokens, the keys of a dilated window, and projections of global rows. */
static const struct ref_operand sparse[] = {
    {ATTN_GLOBAL, "global", "bj", "b", REF_TYPE_BOOL, 0, 0},
    {ATTN_DILATION, "dilation", "h", "", REF_TYPE_INDEX, 0, 0},
    {ATTN_Q_GLOBAL, "q_global", "bhiq", "", REF_TYPE_MAIN, REF_ACTIVATION, 0},
    {ATTN_K_GLOBAL, "k_global", "bgjk", "", REF_TYPE_MAIN, REF_ACTIVATION, 0},
    {ATTN_V_GLOBAL, "v_global", "bgjv", "", REF_TYPE_MAIN, REF_ACTIVATION, 0},
    {0}};

static const struct ref_operand *const groups[] = {
    own, ref_operands_score, ref_operands_mask, positions, sparse, NULL};

static const struct ref_param params[] = {
    {"gate", "0|1", "is out multiplied by a tensor of its shape", REF_PARAM_WORD, 0, 0, 0, 1, 0},
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
    {"weight_fn", "softmax|sigmoid|relu2|laplace", "what makes a weight of a score", REF_PARAM_WORD,
     0, ATTN_WEIGHT_SOFTMAX, ATTN_WEIGHT_SOFTMAX, ATTN_WEIGHT_LAPLACE,
     offsetof(struct attn_problem, weight_fn)},
    {0}};

static const struct ref_output outputs[] = {
    {ATTN_OUT, "out", "bhiv", "bhi", REF_TYPE_MAIN, REF_NEEDED | REF_ACTIVATION, 0},
    {ATTN_LSE, "lse", "bhi", "bhi", REF_TYPE_WIDE, 0, 0},
    {ATTN_WEIGHTS, "weights", "bhij", "bhi", REF_TYPE_MAIN, 0, 0},
    {0}};

static const char *const keys[] = {"global_proj", NULL};
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
        x['D'] = x['i'] + x['j'] - 1;
}

static uint64_t param_flags(const struct attn_problem *problem)
{
    return problem->weight_fn != ATTN_WEIGHT_SOFTMAX ? ATTN_FLAG_WEIGHT : 0;
}

/* Without a softmax there is no denominator that could be given, or that a sink could join. */
static const char *weight_fault(const struct ref_operands *operands)
{
    const struct attn_problem *p = operands->problem;
    const bool weighed = p->flags & ATTN_FLAG_WEIGHT;

    if (weighed ? !ref_weight_find(p->weight_fn) : p->weight_fn != ATTN_WEIGHT_SOFTMAX)
        return "the weight function is not known, or its flag is not set";
    if (weighed && operands->by_role[ATTN_SINK])
        return "a sink joins the denominator of a softmax, which this weight function has not";
    if (weighed && operands->by_role[ATTN_LSE])
        return "lse is of the denominator of a softmax, which this weight function has not";
    return NULL;
}

/* Do the operands of global tokens and dilated windows go together? */
static const char *sparse_fault(const struct ref_operands *operands)
{
    const struct attn_problem *p = operands->problem;
    const struct attn_tensor *const *role = operands->by_role;
    const bool q = role[ATTN_Q_GLOBAL], k = role[ATTN_K_GLOBAL], v = role[ATTN_V_GLOBAL];

    if (role[ATTN_GLOBAL] && p->sq != p->sk)
        return "global tokens need sq = sk";
    if (q != k || q != v)
        return "q_global, k_global and v_global go together";
    if (q && !role[ATTN_GLOBAL])
        return "q_global, k_global and v_global need global tokens";
    if (role[ATTN_DILATION] && !(p->flags & ATTN_FLAG_WINDOW))
        return "a dilation needs a window";
    return NULL;
}

static int check(const struct ref_operands *operands, char *why, size_t size)
{
    const char *fault = weight_fault(operands);

    if (!fault)
        fault = sparse_fault(operands);
    if (fault)
        snprintf(why, size, "%s", fault);
    return fault ? ATTN_INVALID : ATTN_OK;
}

static double flops(const struct ref_shape *shape, double nnz)
{
    const double gate = shape->present[ATTN_GATE] ? (double)ref_shape_elements(shape, "bhiv") : 0.0;

    return 2.0 * (double)(shape->extent['k'] + shape->extent['v']) * nnz + gate;
}

static double unit_cost(const struct attn_problem *problem, int output)
{
    (void)output;
    return ref_head_cost(problem);
}

static uint32_t linear(const struct attn_problem *problem, const char **word)
{
    *word = "v";
    /* Global rows with values of their own do not look at v. */
    return attn_tensor_find(problem, ATTN_V_GLOBAL) ? 0 : ATTN_V;
}

const struct ref_op ref_op_attention = {
    .op = ATTN_OP_ATTENTION,
    .name = "attention",
    .summary = "scores of q and k, mask, softmax over keys, weighted sum of v",
    .traits = REF_QKV | REF_SOFTMAX,
    .flags = ATTN_FLAG_CAUSAL | ATTN_FLAG_WINDOW | ATTN_FLAG_OFF_BR | ATTN_FLAG_SOFTCAP |
             ATTN_FLAG_DROPOUT | ATTN_FLAG_DETERMINISTIC | ATTN_FLAG_WEIGHT,
    .scores = REF_SCORES_ALL,
    .operands = groups,
    .outputs = outputs,
    .params = params,
    .keys = keys,
    .needed = needed,
    .main_operand = "q",
    .extents = extents,
    .param_flags = param_flags,
    .check = check,
    .flops = flops,
    .unit_cost = unit_cost,
    .compute = ref_attention_compute,
    .linear = linear,
};
