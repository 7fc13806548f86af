/* SPDX-License-Identifier: Apache-2.0 */
/* def.c - linear_decay, linear attention whose state decays: its tables. OP.md has the
 * definition. */
#include <math.h>
#include <stddef.h>

#include "reference/ops/linear_decay/linear_decay.h"

static const struct ref_operand own[] = {
    {ATTN_Q, "q", "bhiq", "", REF_TYPE_MAIN, REF_NEEDED | REF_ACTIVATION, 0},
    {ATTN_K, "k", "bgjk", "", REF_TYPE_MAIN, REF_NEEDED | REF_ACTIVATION, 0},
    {ATTN_V, "v", "bgjv", "", REF_TYPE_MAIN, REF_NEEDED | REF_ACTIVATION, 0},
    {ATTN_DECAY, "decay", "bgjk", "bgjk", REF_TYPE_WIDE, REF_NEEDED, 0},
    {ATTN_BONUS, "bonus", "gk", "", REF_TYPE_WIDE, 0, 0},
    {ATTN_STATE_IN, "state_in", "bgkv", "", REF_TYPE_WIDE, 0, 0},
    {0}};
static const struct ref_operand *const groups[] = {own, NULL};

static const struct ref_output outputs[] = {
    {ATTN_OUT, "out", "bhiv", "bhi", REF_TYPE_MAIN, REF_NEEDED | REF_ACTIVATION, REF_DECAY_OUT},
    {ATTN_STATE_OUT, "state_out", "bgkv", "bgk", REF_TYPE_WIDE, 0, REF_DECAY_STATE},
    {0}};

static const struct ref_param params[] = {
    {"decay", "exclusive|inclusive", "does the own step's decay meet the state before it is read",
     REF_PARAM_WORD, 0, ATTN_DECAY_EXCLUSIVE, ATTN_DECAY_EXCLUSIVE, ATTN_DECAY_INCLUSIVE,
     offsetof(struct attn_problem, variant)},
    {"bonus", "0|1", "is the own step weighted by a bonus", REF_PARAM_WORD, 0, 0, 0, 1, 0},
    {"state_in", "0|1", "does a state of earlier steps go before", REF_PARAM_WORD, 0, 0, 0, 1, 0},
    {0}};

static const struct ref_tie ties[] = {{'g', 'h', "linear_decay has a key head for each query head"},
                                      {'j', 'i', "linear_decay has one sequence: sk = sq"},
                                      {0}};

static const struct ref_stream stream = {ATTN_STATE_IN, ATTN_STATE_OUT, ref_linear_decay_allow};

static const char *const none[] = {NULL};
static const char *const fills[] = {"census", "rounding", "cancel", "tiny", "strong_decay", NULL};

/* Logarithms of decay. Drawn ones lie between 1 and 1/20 a step, as gates have them. Under
 * `strong_decay` a channel in two decays by exp(-8) at each step, so that a product of a few
 * hundred leaves the range of f32; the others do not decay. */
static double decay(const struct ref_drawn *x, double number)
{
    if (ref_drawn_under(x, "census"))
        return 0;
    if (ref_drawn_under(x, "strong_decay"))
        return x->index % x->shape[3] % 2 ? -8 : 0;
    return -exp(1.2 * number - 2.5);
}

/* census: q and k have one column of 1, so that every key counts once. */
static double product(const struct ref_drawn *x, double number)
{
    return ref_drawn_under(x, "census") ? x->index % x->shape[3] == 0 : number;
}

static double value(const struct ref_drawn *x, double number)
{
    const int64_t t = x->index / x->shape[3] % x->shape[2];
    return ref_drawn_under(x, "census")     ? (number < 0 ? -1 : 1)
           : ref_drawn_under(x, "rounding") ? fabs(number)
           : ref_drawn_under(x, "cancel")   ? (t % 2 ? -1 : 1)
           : ref_drawn_under(x, "tiny")     ? 1e-6 * number
                                            : number;
}

static bool draw(const struct ref_drawn *x, double *number)
{
    const bool made = ref_drawn_made(x, fills);
    switch (x->role) {
    case ATTN_Q:
    case ATTN_K:
        *number = product(x, *number);
        return made;
    case ATTN_V:
        *number = value(x, *number);
        return made;
    case ATTN_DECAY:
        *number = decay(x, *number);
        return true;
    case ATTN_BONUS:
        *number = ref_drawn_under(x, "census") ? 1 : *number;
        return true;
    default:
        return false;
    }
}

/* The sequential form: k v into the state, and q out of it. */
static double flops(const struct ref_shape *shape, double nnz)
{
    (void)nnz;
    return 4.0 * (double)ref_shape_elements(shape, "bhik") * (double)shape->extent['v'];
}

static double unit_cost(const struct attn_problem *problem, int output)
{
    const double steps = (double)problem->sk;
    (void)output;
    return steps * (12.0 * (double)problem->dk + 4.0 * (double)problem->dv);
}

static uint32_t linear(const struct attn_problem *problem, const char **word)
{
    *word = "v";
    return attn_tensor_find(problem, ATTN_STATE_IN) ? 0 : ATTN_V;
}

const struct ref_op ref_op_linear_decay = {
    .op = ATTN_OP_LINEAR_DECAY,
    .name = "linear_decay",
    .summary = "linear attention whose state decays: RWKV-5 and 6, GLA, RetNet",
    .operands = groups,
    .outputs = outputs,
    .params = params,
    .keys = none,
    .needed = none,
    .main_operand = "q",
    .scaled = true,
    .ties = ties,
    .stream = &stream,
    .draw = draw,
    .fills = fills,
    .flops = flops,
    .unit_cost = unit_cost,
    .compute = ref_linear_decay_compute,
    .linear = linear,
};
