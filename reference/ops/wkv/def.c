/* SPDX-License-Identifier: Apache-2.0 */
/* def.c - wkv, the recurrence of RWKV-4: its tables. OP.md has the definition. */
#include <math.h>

#include "reference/ops/wkv/wkv.h"

static const struct ref_operand own[] = {
    {ATTN_K, "k", "bgjk", "", REF_TYPE_MAIN, REF_NEEDED | REF_ACTIVATION, 0},
    {ATTN_V, "v", "bgjv", "", REF_TYPE_MAIN, REF_NEEDED | REF_ACTIVATION, 0},
    {ATTN_DECAY, "decay", "v", "", REF_TYPE_WIDE, REF_NEEDED, 0},
    {ATTN_BONUS, "bonus", "v", "", REF_TYPE_WIDE, REF_NEEDED, 0},
    {ATTN_STATE_IN, "state_in", "bv3", "", REF_TYPE_WIDE, 0, 0},
    {0}};
static const struct ref_operand *const groups[] = {own, NULL};

static const struct ref_output outputs[] = {
    {ATTN_OUT, "out", "bhiv", "bhi", REF_TYPE_MAIN, REF_NEEDED | REF_ACTIVATION, REF_WKV_OUT},
    {ATTN_STATE_OUT, "state_out", "bv3", "bv", REF_TYPE_WIDE, 0, REF_WKV_STATE},
    {0}};

static const struct ref_param params[] = {
    {"state_in", "0|1", "does a state of earlier steps go before", REF_PARAM_WORD, 0, 0, 0, 1, 0},
    {0}};

static const struct ref_stream stream = {ATTN_STATE_IN, ATTN_STATE_OUT, ref_wkv_allow};

static const char *const none[] = {NULL};

static const struct ref_tie ties[] = {{'h', '1', "wkv has channels, not heads: hq = hkv = 1"},
                                      {'g', '1', "wkv has channels, not heads: hq = hkv = 1"},
                                      {'j', 'i', "wkv has one sequence: sk = sq"},
                                      {'v', 'k', "wkv has a key for each channel: dv = dk"},
                                      {0}};

static const char *const fills[] = {"census",   "stair_up", "stair_down",   "rounding", "overflow",
                                    "negative", "tiny",     "strong_decay", NULL};

/* exp of it is not finite, and of its negative it is 0. */
static double far(const struct ref_drawn *x)
{
    return x->is_f64 ? 1000 : 200;
}

/* Keys are logits: exp of those of `overflow` is not finite, of those of `negative` it is 0. The
 * stairs rise or fall by 4 at each step, faster than the decay; as high as f16 goes. */
static double key(const struct ref_drawn *x, double number)
{
    const int64_t channels = x->shape[3], t = x->index / channels % x->shape[2];
    const double stair = 4.0 * (double)(t < 8000 ? t : 8000);
    return ref_drawn_under(x, "census")       ? 0
           : ref_drawn_under(x, "overflow")   ? number + far(x)
           : ref_drawn_under(x, "negative")   ? number - far(x)
           : ref_drawn_under(x, "stair_up")   ? stair
           : ref_drawn_under(x, "stair_down") ? -stair
                                              : number;
}

static double value(const struct ref_drawn *x, double number)
{
    return ref_drawn_under(x, "census")     ? (number < 0 ? -1 : 1)
           : ref_drawn_under(x, "rounding") ? fabs(number)
           : ref_drawn_under(x, "tiny")     ? 1e-6 * number
                                            : number;
}

/* a, b, p: b is above 0, and p is a logit like the keys. */
static double state(const struct ref_drawn *x, double number)
{
    const bool counted = ref_drawn_under(x, "census");
    switch (x->index % 3) {
    case 0:
        return value(x, number);
    case 1:
        return counted ? 1 : exp(number);
    default:
        return counted                          ? 0
               : ref_drawn_under(x, "overflow") ? number + far(x)
               : ref_drawn_under(x, "negative") ? number - far(x)
                                                : number;
    }
}

/* Decays of a hundredth of a step to ten, as trained models have them; none for `census`, which
 * counts the keys. */
static bool draw(const struct ref_drawn *x, double *number)
{
    const bool counted = ref_drawn_under(x, "census"), made = ref_drawn_made(x, fills);
    switch (x->role) {
    case ATTN_K:
        *number = key(x, *number);
        return made;
    case ATTN_V:
        *number = value(x, *number);
        return made;
    case ATTN_DECAY:
        *number = counted                              ? 0
                  : ref_drawn_under(x, "strong_decay") ? 8.0 * (double)(x->index % 2)
                                                       : exp(1.5 * *number - 2.5);
        return true;
    case ATTN_BONUS:
        *number = counted ? 0 : *number;
        return true;
    case ATTN_STATE_IN:
        *number = state(x, *number);
        return true;
    default:
        return false;
    }
}

static void comparable(int output, double *unit)
{
    if (output == REF_WKV_STATE)
        ref_wkv_state(unit);
}

/* Multiplications and additions of the recurrence: for out and for the state, 3 for the numerator
 * and 2 for the denominator. */
static double flops(const struct ref_shape *shape, double nnz)
{
    (void)nnz;
    return 10.0 * (double)ref_shape_elements(shape, "bjv");
}

static double unit_cost(const struct attn_problem *problem, int output)
{
    const double steps = 60.0 * (double)problem->sk;
    return output == REF_WKV_OUT ? steps * (double)problem->dv : steps;
}

/* A state of earlier steps has values of its own. */
static uint32_t linear(const struct attn_problem *problem, const char **word)
{
    *word = "v";
    return attn_tensor_find(problem, ATTN_STATE_IN) ? 0 : ATTN_V;
}

const struct ref_op ref_op_wkv = {
    .op = ATTN_OP_WKV,
    .name = "wkv",
    .summary = "RWKV-4: each channel a softmax over its past, which decays",
    .operands = groups,
    .outputs = outputs,
    .params = params,
    .keys = none,
    .needed = none,
    .main_operand = "k",
    .ties = ties,
    .stream = &stream,
    .draw = draw,
    .fills = fills,
    .comparable = comparable,
    .flops = flops,
    .unit_cost = unit_cost,
    .compute = ref_wkv_compute,
    .linear = linear,
};
