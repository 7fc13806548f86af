/* SPDX-License-Identifier: Apache-2.0 */
/* def.c - performer, attention by positive random features (FAVOR+): its tables. OP.md has the
 * definition. */
#include <math.h>
#include <stddef.h>
#include <stdio.h>

#include "reference/ops/performer/performer.h"

static const struct ref_operand own[] = {
    {ATTN_Q, "q", "bhiq", "", REF_TYPE_MAIN, REF_NEEDED | REF_ACTIVATION, 0},
    {ATTN_K, "k", "bgjk", "", REF_TYPE_MAIN, REF_NEEDED | REF_ACTIVATION, 0},
    {ATTN_V, "v", "bgjv", "", REF_TYPE_MAIN, REF_NEEDED | REF_ACTIVATION, 0},
    {ATTN_FEATURES, "features", "hmk", "h", REF_TYPE_SIDE,
     REF_NEEDED | REF_BY_HEAD | REF_ORTHOGONAL, 0},
    {ATTN_LEN, "len", "b", "", REF_TYPE_INDEX, 0, 0},
    {0}};
static const struct ref_operand *const groups[] = {own, NULL};

static const struct ref_output outputs[] = {
    {ATTN_OUT, "out", "bhiv", "bhi", REF_TYPE_MAIN, REF_NEEDED | REF_ACTIVATION, 0}, {0}};

static const struct ref_param params[] = {
    {"features", "N", "random features of a head", REF_PARAM_INT, 'm', 64, 1, 65536, 0},
    {"eps", "X", "added to each feature; 0: none, and any maximum may be taken out", REF_PARAM_REAL,
     0, 0, 0, 1, offsetof(struct attn_problem, eps)},
    {0}};

static const char *const none[] = {NULL};
static const char *const fills[] = {"overflow", "tiny_phi", NULL};

/* The size of the numbers of a row with which |x'|^2 / 2 is near `half`, at the default scale. */
static double stretch(int64_t width, double half)
{
    return sqrt(2 * half / sqrt((double)width));
}

/* overflow: exp(w q') leaves the range of f32 (f64). tiny_phi: exp(-|x'|^2 / 2) is 0 in f32 (f64);
 * all vectors have a long part in common, so that keys weigh alike and features of q and k meet. */
static bool draw(const struct ref_drawn *x, double *number)
{
    const bool is_q = x->role == ATTN_Q, tiny = ref_drawn_under(x, "tiny_phi");
    if ((!is_q && x->role != ATTN_K) || (!tiny && !ref_drawn_under(x, "overflow")))
        return false;
    const int64_t width = x->shape[3];
    const double most = stretch(width, x->is_f64 ? 60000 : 1000);
    const double common = stretch(width, x->is_f64 ? 900 : 130);
    if (!tiny)
        *number *= is_q ? most : 0.3;
    else
        *number = (is_q ? 1 : 0.3) * *number + (x->index % width % 2 ? -common : common);
    return true;
}

static int check(const struct ref_operands *operands, char *why, size_t size)
{
    const struct attn_problem *p = operands->problem;
    if (!(p->eps >= 0 && p->eps <= 1))
        snprintf(why, size, "eps must lie in 0..1");
    else if (!(p->scale >= 0))
        snprintf(why, size, "the scale of performer is not below 0: its root goes to q and to k");
    else if (p->flags & ATTN_FLAG_CAUSAL && p->sq != p->sk)
        snprintf(why, size, "a causal performer has one sequence: sk = sq");
    else if (p->flags & ATTN_FLAG_CAUSAL && p->off != 0)
        snprintf(why, size, "a causal performer has no offset");
    else if (p->flags & ATTN_FLAG_CAUSAL && p->eps > 0)
        snprintf(why, size, "with eps the largest feature of all keys counts: not causal");
    else
        return ATTN_OK;
    return ATTN_INVALID;
}

/* Projections of q and k; k v^T into the state, and q out of it. */
static double flops(const struct ref_shape *shape, double nnz)
{
    const double rows = (double)(shape->extent['i'] + shape->extent['j']);
    (void)nnz;
    return 2.0 * (double)ref_shape_elements(shape, "bhm") * rows *
           (double)(shape->extent['k'] + shape->extent['v']);
}

/* A row has a product of features for each key. The features of the keys are made once a head. */
static double unit_cost(const struct attn_problem *problem, int output)
{
    const struct attn_tensor *w = attn_tensor_find(problem, ATTN_FEATURES);
    const double m = (double)w->shape[1], keys = (double)problem->sk;
    const double head = m * keys * (3.0 * (double)problem->dk + 20.0) / (double)problem->sq;
    (void)output;
    return head + keys * (m + 6.0 * (double)problem->dv + 100.0) + m * 3.0 * (double)problem->dk;
}

static uint32_t linear(const struct attn_problem *problem, const char **word)
{
    (void)problem;
    *word = "v";
    return ATTN_V;
}

const struct ref_op ref_op_performer = {
    .op = ATTN_OP_PERFORMER,
    .name = "performer",
    .summary = "attention by positive random features (FAVOR+)",
    .traits = REF_QKV | REF_UNIFORM | REF_APPROXIMATES | REF_ROWS_ALIKE,
    .flags = ATTN_FLAG_CAUSAL | ATTN_FLAG_DETERMINISTIC,
    .scores = 1u << ATTN_SCORE_SCALED_DOT,
    .operands = groups,
    .outputs = outputs,
    .params = params,
    .keys = none,
    .needed = none,
    .main_operand = "q",
    .stabilised = true,
    .check = check,
    .draw = draw,
    .fills = fills,
    .flops = flops,
    .unit_cost = unit_cost,
    .compute = ref_performer_compute,
    .linear = linear,
};
