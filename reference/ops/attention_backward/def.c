/* SPDX-License-Identifier: Apache-2.0 */
/* def.c - attention_backward, the gradients of attention: its tables. OP.md has the definition.
 *
 * Letters of its own: W X Y Z, the axes of the bias, 1 where it is broadcast. */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "reference/op_shared.h"
#include "reference/ops/attention_backward/attention_backward.h"
#include "reference/reference.h"

static const struct ref_operand own[] = {
    {ATTN_Q, "q", "bhiq", "", REF_TYPE_MAIN, REF_NEEDED | REF_ACTIVATION, 0},
    {ATTN_K, "k", "bgjk", "", REF_TYPE_MAIN, REF_NEEDED | REF_ACTIVATION, 0},
    {ATTN_V, "v", "bgjv", "", REF_TYPE_MAIN, REF_NEEDED | REF_ACTIVATION, 0},
    {ATTN_OUT, "out", "bhiv", "", REF_TYPE_MAIN, REF_NEEDED | REF_ACTIVATION, 0},
    {ATTN_LSE, "lse", "bhi", "", REF_TYPE_WIDE, REF_NEEDED, 0},
    {ATTN_GRAD_OUT, "dout", "bhiv", "", REF_TYPE_MAIN, REF_NEEDED | REF_ACTIVATION, 0},
    {ATTN_GRAD_LSE, "dlse", "bhi", "", REF_TYPE_WIDE, 0, 0},
    {0}};
static const struct ref_operand *const groups[] = {own, ref_operands_mask, NULL};

static const struct ref_output outputs[] = {
    {ATTN_GRAD_Q, "dq", "bhiq", "bhi", REF_TYPE_MAIN, REF_DEFAULT | REF_ACTIVATION, REF_GRAD_Q},
    {ATTN_GRAD_K, "dk", "bgjk", "bgj", REF_TYPE_MAIN, REF_DEFAULT | REF_ACTIVATION, REF_GRAD_K},
    {ATTN_GRAD_V, "dv", "bgjv", "bgj", REF_TYPE_MAIN, REF_DEFAULT | REF_ACTIVATION, REF_GRAD_K},
    {ATTN_GRAD_BIAS, "dbias", "WXYZ", "WXY", REF_TYPE_WIDE, 0, REF_GRAD_BIAS},
    {ATTN_GRAD_SINK, "dsink", "h", "h", REF_TYPE_WIDE, 0, REF_GRAD_SINK},
    {ATTN_GRAD_ALIBI, "dalibi", "h", "h", REF_TYPE_WIDE, 0, REF_GRAD_ALIBI},
    {0}};

static const struct ref_gradient gradients[] = {{ATTN_GRAD_BIAS, ATTN_BIAS, "WXYZ"},
                                                {ATTN_GRAD_SINK, ATTN_SINK, NULL},
                                                {ATTN_GRAD_ALIBI, ATTN_ALIBI, NULL},
                                                {0}};

static const struct ref_param params[] = {
    {"dlse", "0|1", "is a gradient of lse given, too", REF_PARAM_WORD, 0, 0, 0, 1, 0}, {0}};

static const char *const none[] = {NULL};
static const char *const fills[] = {"census",    "rounding",     "constant",    "tiny",
                                    "zero_grad", "sparse_grad",  "sparse_keys", "big_grad",
                                    "tiny_grad", "cancel_delta", NULL};
/* Those whose q and k are attention's. */
static const char *const crafted[] = {"spike",      "one_hot",  "two_hot",  "stair_up",
                                      "stair_down", "overflow", "negative", NULL};

/* census: v is 1 or -1 in turn. */
static double counted(int64_t j)
{
    return j % 2 ? -1 : 1;
}

/* Sparse fills: of n rows of a head all but some 64 are 0. Which ones depends on the head. */
#define SPARSE 64

static bool is_kept(const struct ref_drawn *x, int64_t always)
{
    const int64_t n = x->shape[2], row = x->index / x->shape[3], i = row % n, head = row / n;
    const int64_t step = n / SPARSE > 7 ? n / SPARSE : 7;

    return n < 4 || i == always || i % step == (3 + 5 * head) % step;
}

/* sparse_keys: k and v of the first key stay, so that every row under causal sees one. */
static bool is_left_out(const struct ref_drawn *x)
{
    return ref_drawn_under(x, "sparse_keys") && !is_kept(x, 0);
}

/* census: q and k have no column in common, so all scores are 0. dS is the sign of dO, times v:
 * what remains of a pair of query and key is a code in columns of dK, and one in columns of dQ. */
static double product(const struct ref_drawn *x, double number)
{
    const int64_t width = x->shape[3], c = x->index % width, row = x->index / width;
    const int64_t j = row % x->shape[2], head = row / x->shape[2];

    if (!ref_drawn_under(x, "census"))
        return x->role == ATTN_K && is_left_out(x) ? 0 : number;
    if ((c < (width + 1) / 2) != (x->role == ATTN_Q))
        return 0;
    return ref_backward_code(x->role, head, j, c) *
           (x->role == ATTN_K ? counted(j) : ref_backward_code(ATTN_GRAD_OUT, head, j, 0));
}

static double value(const struct ref_drawn *x, double number)
{
    const int64_t c = x->index % x->shape[3], j = x->index / x->shape[3] % x->shape[2];

    return ref_drawn_under(x, "census")         ? (c == 0 ? counted(j) : 0)
           : ref_drawn_under(x, "rounding")     ? fabs(number)
           : ref_drawn_under(x, "constant")     ? ref_backward_sign((uint64_t)c)
           : ref_drawn_under(x, "cancel_delta") ? 1 + 0x1p-6 * number
           : ref_drawn_under(x, "tiny")         ? 1e-6 * number
           : ref_drawn_under(x, "two_hot")      ? ref_backward_sign((uint64_t)x->index)
           : is_left_out(x)                     ? 0
                                                : number;
}

static double gradient(const struct ref_drawn *x, double number)
{
    return ref_drawn_under(x, "rounding")       ? fabs(number)
           : ref_drawn_under(x, "zero_grad")    ? 0
           : ref_drawn_under(x, "sparse_grad")  ? (is_kept(x, x->shape[2] - 1) ? number : 0)
           : ref_drawn_under(x, "big_grad")     ? 1e4 * number
           : ref_drawn_under(x, "tiny_grad")    ? 1e-6 * number
           : ref_drawn_under(x, "cancel_delta") ? 1
           : ref_drawn_under(x, "two_hot")      ? ref_backward_sign(~(uint64_t)x->index)
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
        return made || ref_drawn_under(x, "two_hot");
    case ATTN_GRAD_OUT: /* census: ref_attention_backward_derive writes it */
        *number = gradient(x, *number);
        return made || ref_drawn_under(x, "two_hot");
    case ATTN_GRAD_LSE: /* fills but normal say what dO makes of the results */
        if (!ref_drawn_under(x, "normal"))
            *number = 0;
        return made || ref_drawn_made(x, crafted);
    case ATTN_OUT: /* that function writes these, too */
    case ATTN_LSE:
        *number = 0;
        return true;
    default:
        return false;
    }
}

/* Of each cell the score, dP if something needs it, and one product for each of dQ, dK and dV: five
 * for all of these. A kernel that recomputes more gets no credit for it. */
static double flops(const struct ref_shape *shape, double nnz)
{
    const bool dq = shape->present[ATTN_GRAD_Q], dk = shape->present[ATTN_GRAD_K];
    const bool dp = dq || dk || shape->present[ATTN_GRAD_BIAS] || shape->present[ATTN_GRAD_ALIBI];
    const double wide_k = 1.0 + dq + dk, wide_v = (double)dp + shape->present[ATTN_GRAD_V];

    return 2.0 * nnz * (wide_k * (double)shape->extent['k'] + wide_v * (double)shape->extent['v']);
}

/* All weights of one query, dP and dS, with their errors. */
static double row_cost(const struct attn_problem *p)
{
    return (double)p->sk * (4.0 * (double)p->dk + 4.0 * (double)p->dv + 200.0);
}

/* Queries of all heads of one key head. */
static double rows_of(const struct attn_problem *p)
{
    return (double)(p->hq / p->hkv) * (double)p->sq;
}

/* A key needs all rows that may see it, and each of these all of its keys. */
static double group_cost(const struct attn_problem *p, int output)
{
    return output == REF_GRAD_K ? rows_of(p) * row_cost(p) : 0.0;
}

static double unit_cost(const struct attn_problem *p, int output)
{
    const double dk = (double)p->dk, dv = (double)p->dv;

    switch (output) {
    case REF_GRAD_Q:
        return row_cost(p) + (double)p->sk * 4.0 * dk;
    case REF_GRAD_K:
        return rows_of(p) * (10.0 * dk + 10.0 * dv + 200.0);
    case REF_GRAD_V:
        return 0.0;
    default:
        return (double)p->b * (double)p->sq * row_cost(p);
    }
}

/* dO and OUT of census do not follow from each other. */
static bool untied(const char *fill)
{
    return strcmp(fill, "census") == 0;
}

/* Does the problem have an output that follows this one? */
static bool leads(const struct attn_problem *p, int output)
{
    return output == REF_GRAD_Q ? attn_tensor_find(p, ATTN_GRAD_Q) != NULL
           : output == REF_GRAD_K
               ? attn_tensor_find(p, ATTN_GRAD_K) || attn_tensor_find(p, ATTN_GRAD_V)
               : false;
}

/* Census is counted. Rows without dO add nothing to a key, if lse has no gradient. Keys of 0 add
 * nothing to dQ; they are taken together if their scores are alike, and lse is the one that is
 * given. The errors of a delta of their own are alike without dropout. */
static double whole(const struct attn_problem *p, const struct attn_numerics *numerics,
                    const char *fill, int output)
{
    const bool keys = strcmp(fill, "sparse_keys") == 0, grad = strcmp(fill, "sparse_grad") == 0;
    const bool given =
        !numerics || (!numerics->bwd_lse && !(numerics->bwd_delta && p->flags & ATTN_FLAG_DROPOUT));
    const double cells = (double)p->b * (double)p->hq * (double)p->sq * (double)p->sk;
    const double dk = (double)p->dk, dv = (double)p->dv;
    double kept; /* of the rows or keys of a head, those that cost anything */

    if (!leads(p, output))
        return 0;
    if (untied(fill))
        return ref_backward_may_count(p, numerics)
                   ? (rows_of(p) + (double)p->sk) * (20.0 * (dk + dv) + 500.0)
                   : 0;
    if (!(keys && given && output == REF_GRAD_Q && !attn_tensor_find(p, ATTN_BIAS) &&
          !attn_tensor_find(p, ATTN_ALIBI) && !attn_tensor_find(p, ATTN_MASK)) &&
        !(grad && output == REF_GRAD_K && !attn_tensor_find(p, ATTN_GRAD_LSE)))
        return 0;
    kept = (SPARSE + 1) * (double)ref_count_allowed(p) / fmax(cells, 1.0);
    return keys ? rows_of(p) * kept * (8.0 * dk + 4.0 * dv + 200.0)
                : (double)(p->hq / p->hkv) * kept *
                      (row_cost(p) + (double)p->sk * (10.0 * dk + 10.0 * dv + 200.0));
}

static uint32_t linear(const struct attn_problem *problem, const char **word)
{
    (void)problem;
    *word = "dout";
    return ATTN_GRAD_OUT;
}

const struct ref_op ref_op_attention_backward = {
    .op = ATTN_OP_ATTENTION_BACKWARD,
    .name = "attention_backward",
    .summary = "gradients of attention by q, k, v, and by bias, sink and slopes",
    .flags = ATTN_FLAG_CAUSAL | ATTN_FLAG_WINDOW | ATTN_FLAG_OFF_BR | ATTN_FLAG_SOFTCAP |
             ATTN_FLAG_DROPOUT | ATTN_FLAG_DETERMINISTIC,
    .scores = 1u << ATTN_SCORE_SCALED_DOT | 1u << ATTN_SCORE_DOT,
    .operands = groups,
    .outputs = outputs,
    .params = params,
    .gradients = gradients,
    .keys = none,
    .needed = none,
    .main_operand = "q",
    .draw = draw,
    .fills = fills,
    .crafted = crafted,
    .derive = ref_attention_backward_derive,
    .untied = untied,
    .cells = ref_count_allowed,
    .flops = flops,
    .unit_cost = unit_cost,
    .group_cost = group_cost,
    .whole = whole,
    .compute = ref_attention_backward_compute,
    .linear = linear,
};
