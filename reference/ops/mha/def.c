/* SPDX-License-Identifier: Apache-2.0 */
/* def.c - multi-head attention: projections, heads, concatenation, W_o. OP.md has the definition.
 */
#include <stdio.h>

#include "reference/op_shared.h"
#include "reference/operands.h"
#include "reference/ops/mha/mha.h"

static const struct ref_operand own[] = {
    {ATTN_X_Q, "x_q", "bie", "", REF_TYPE_MAIN, REF_NEEDED | REF_ACTIVATION, 0},
    {ATTN_X_K, "x_k", "bjf", "", REF_TYPE_MAIN, REF_ACTIVATION, ATTN_X_Q},
    {ATTN_X_V, "x_v", "bjw", "", REF_TYPE_MAIN, REF_ACTIVATION, ATTN_X_K},
    {ATTN_W_Q, "w_q", "Qe", "", REF_TYPE_MAIN, REF_NEEDED, 0},
    {ATTN_W_K, "w_k", "Kf", "", REF_TYPE_MAIN, REF_NEEDED, 0},
    {ATTN_W_V, "w_v", "Vw", "", REF_TYPE_MAIN, REF_NEEDED, 0},
    {ATTN_W_O, "w_o", "oO", "", REF_TYPE_MAIN, 0, 0},
    {ATTN_B_Q, "b_q", "Q", "", REF_TYPE_MAIN, 0, 0},
    {ATTN_B_K, "b_k", "K", "", REF_TYPE_MAIN, 0, 0},
    {ATTN_B_V, "b_v", "V", "", REF_TYPE_MAIN, 0, 0},
    {ATTN_B_O, "b_o", "o", "", REF_TYPE_MAIN, 0, 0},
    {0}};

static const struct ref_operand heads[] = {
    {ATTN_HEAD_MASK, "head_mask", "h", "", REF_TYPE_BOOL, 0, 0}, {0}};

static const struct ref_operand *const groups[] = {own, ref_operands_score, ref_operands_mask,
                                                   heads, NULL};

/* Units of lse and weights are numbered with the head last: those of one row of out lie together.
 */
static const struct ref_output outputs[] = {
    {ATTN_OUT, "out", "bio", "bi", REF_TYPE_MAIN, REF_NEEDED | REF_ACTIVATION, 0},
    {ATTN_LSE, "lse", "bhi", "bih", REF_TYPE_WIDE, 0, 0},
    {ATTN_WEIGHTS, "weights", "bhij", "bih", REF_TYPE_MAIN, 0, 0},
    {0}};

/* A case that has several of them in vain is told of the first. */
static const char *const keys[] = {"e",       "kv",       "proj_bias", "prune",
                                   "weights", "residual", "wo",        NULL};
static const char *const needed[] = {"hq", NULL};

static int refuse(char *why, size_t size, const char *reason)
{
    snprintf(why, size, "%s", reason);
    return ATTN_INVALID;
}

static int check(const struct ref_operands *operands, char *why, size_t size)
{
    const struct attn_tensor *const *t = operands->by_role;

    if (t[ATTN_B_O] && !t[ATTN_W_O])
        return refuse(why, size, "b_o is given without w_o");
    /* Widths are read from these, so their ranks come first. */
    for (uint32_t role = ATTN_X_Q; role <= ATTN_X_V; role++)
        if (t[role]->rank != 3 || t[ATTN_OUT]->rank != 3)
            return refuse(why, size, "x_q, x_k, x_v and out of multi-head attention have rank 3");
    /* What stands in for x_k or x_v is of the keys' length. */
    if (t[ATTN_X_K]->shape[1] != operands->problem->sk ||
        t[ATTN_X_V]->shape[1] != operands->problem->sk)
        return refuse(why, size, "without x_k, sk must be sq");
    if ((operands->problem->flags & ATTN_FLAG_RESIDUAL) &&
        t[ATTN_X_Q]->shape[2] != t[ATTN_OUT]->shape[2])
        return refuse(why, size, "a residual needs x_q and out of equal width");
    return ATTN_OK;
}

static void extents(struct ref_shape *shape)
{
    if (!shape->present[ATTN_W_O])
        shape->extent['o'] = shape->extent['O'];
}

/* The multiply-adds of attention, twice, and of the projections. */
static double flops(const struct ref_shape *shape, double nnz)
{
    const int64_t *x = shape->extent;
    const double b = (double)x['b'], sq = (double)x['i'], sk = (double)x['j'];
    const double q = sq * (double)x['e'] * (double)x['Q'];
    const double k = sk * (double)x['f'] * (double)x['K'];
    const double v = sk * (double)x['w'] * (double)x['V'];
    const double o = shape->present[ATTN_W_O] ? sq * (double)x['O'] * (double)x['o'] : 0.0;

    return 2.0 * (double)(x['k'] + x['v']) * nnz + 2.0 * b * (q + k + v + o);
}

static double unit_cost(const struct attn_problem *problem, int output)
{
    double head = ref_head_cost(problem);

    (void)output;
    for (uint32_t t = 0; t < problem->n_tensors; t++) {
        const struct attn_tensor *tensor = &problem->tensors[t];
        /* One row of q and of out; keys and values are projected once, not once a row. */
        if (tensor->role == ATTN_W_Q || tensor->role == ATTN_W_O)
            head += 2.0 * (double)tensor->shape[0] * (double)tensor->shape[1] / (double)problem->hq;
    }
    return head * (double)problem->hq;
}

/* A bias of v or of the output, or x added to it, may be all that there is: x may be zero, every
 * head pruned, every key forbidden. */
static uint32_t linear(const struct attn_problem *problem, const char **word)
{
    static const uint32_t sources[] = {ATTN_X_V, ATTN_X_K, ATTN_X_Q};

    *word = "x";
    if (attn_tensor_find(problem, ATTN_B_V) || attn_tensor_find(problem, ATTN_B_O) ||
        (problem->flags & ATTN_FLAG_RESIDUAL))
        return 0;
    for (size_t s = 0; s < sizeof(sources) / sizeof(*sources); s++)
        if (attn_tensor_find(problem, sources[s]))
            return sources[s];
    return 0;
}

const struct ref_op ref_op_mha = {
    .op = ATTN_OP_MHA,
    .name = "mha",
    .summary = "projections, attention of every head, concatenation, output projection",
    .traits = REF_PROJECTED | REF_SOFTMAX,
    .flags = ATTN_FLAG_CAUSAL | ATTN_FLAG_WINDOW | ATTN_FLAG_OFF_BR | ATTN_FLAG_SOFTCAP |
             ATTN_FLAG_DROPOUT | ATTN_FLAG_DETERMINISTIC | ATTN_FLAG_RESIDUAL,
    .scores = REF_SCORES_ALL & ~(UINT32_C(1) << ATTN_SCORE_DISENTANGLED),
    .operands = groups,
    .outputs = outputs,
    .keys = keys,
    .needed = needed,
    .main_operand = "x_q",
    .check = check,
    .extents = extents,
    .flops = flops,
    .unit_cost = unit_cost,
    .compute = ref_mha_compute,
    .linear = linear,
};
