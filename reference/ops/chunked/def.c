/* SPDX-License-Identifier: Apache-2.0 */
/* def.c - chunked, the mixed chunk attention of FLASH: its tables. OP.md has the definition. */
#include <math.h>
#include <stddef.h>
#include <stdio.h>

#include "reference/operands.h"
#include "reference/ops/chunked/chunked.h"

/* Letters of its own: c tokens of a chunk, l width of lin_q and lin_k. */
static const struct ref_operand own[] = {
    {ATTN_Q, "q", "bhiq", "", REF_TYPE_MAIN, REF_NEEDED | REF_ACTIVATION, 0},
    {ATTN_K, "k", "bgjk", "", REF_TYPE_MAIN, REF_NEEDED | REF_ACTIVATION, 0},
    {ATTN_LIN_Q, "lin_q", "bhil", "", REF_TYPE_MAIN, REF_NEEDED | REF_ACTIVATION, 0},
    {ATTN_LIN_K, "lin_k", "bgjl", "", REF_TYPE_MAIN, REF_NEEDED | REF_ACTIVATION, 0},
    {ATTN_V, "v", "bgjv", "", REF_TYPE_MAIN, REF_NEEDED | REF_ACTIVATION, 0},
    {ATTN_BIAS, "bias", "bhcc", "bhc", REF_TYPE_SIDE, 0, 0},
    {ATTN_LEN, "len", "b", "", REF_TYPE_INDEX, 0, 0},
    {ATTN_GATE, "gate", "bhiv", "", REF_TYPE_MAIN, REF_ACTIVATION, 0},
    {0}};
static const struct ref_operand *const groups[] = {own, NULL};

static const struct ref_output outputs[] = {
    {ATTN_OUT, "out", "bhiv", "bhi", REF_TYPE_MAIN, REF_NEEDED | REF_ACTIVATION, 0}, {0}};

static const struct ref_param params[] = {
    {"chunk", "N", "tokens of a chunk", REF_PARAM_INT, 'c', 256, 1, 1 << 20,
     offsetof(struct attn_problem, chunk)},
    {"dl", "N", "width of lin_q and lin_k; 0: dk", REF_PARAM_INT, 'l', 0, 0, (1 << 20) - 1, 0},
    {"gate", "0|1", "is out multiplied by a gate", REF_PARAM_WORD, 0, 0, 0, 1, 0},
    {"lin_scale", "X", "factor of the linear part; 0: 1/sq, with mask=causal 1/chunk",
     REF_PARAM_REAL, 0, 0, -64, 64, offsetof(struct attn_problem, lin_scale)},
    {0}};

static const struct ref_tie ties[] = {{'g', 'h', "chunked has a key head for each query head"},
                                      {'j', 'i', "chunked has one sequence: sk = sq"},
                                      {'q', 'k', "chunked has queries as wide as keys: dq = dk"},
                                      {0}};

static const char *const none[] = {NULL};
static const char *const fills[] = {"census", "rounding", "negative", "cancel", "tiny", NULL};

/* census: one column of 8 in q and k, so that a score is 64 scale, and of 1 in lin_q and lin_k:
 * each key counts in both parts. negative: column 0 makes every score negative, so the quadratic
 * part is 0. */
static double factor(const struct ref_drawn *x, double number)
{
    const bool first = x->index % x->shape[3] == 0;
    const bool linear = x->role == ATTN_LIN_Q || x->role == ATTN_LIN_K;
    if (ref_drawn_under(x, "census"))
        return !first ? 0 : linear ? 1 : 8;
    if (ref_drawn_under(x, "negative") && first && !linear)
        return x->role == ATTN_Q ? 64 : -64;
    return number;
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
    const bool made = ref_drawn_made(x, fills), counted = ref_drawn_under(x, "census");
    switch (x->role) {
    case ATTN_Q:
    case ATTN_K:
    case ATTN_LIN_Q:
    case ATTN_LIN_K:
        *number = factor(x, *number);
        return made;
    case ATTN_V:
        *number = value(x, *number);
        return made;
    case ATTN_BIAS:
        *number = counted ? 1 : ref_drawn_under(x, "negative") ? -fabs(*number) : *number;
        return true;
    case ATTN_GATE:
        *number = counted ? (*number < 0 ? 1 : 2) : *number;
        return made;
    default:
        return false;
    }
}

static void extents(struct ref_shape *shape)
{
    if (shape->extent['l'] == 0)
        shape->extent['l'] = shape->extent['k'];
}

static double scale(const struct ref_shape *shape)
{
    return 1.0 / (double)shape->extent['c'];
}

double ref_chunked_lin_scale(const struct attn_problem *p)
{
    if (p->lin_scale != 0)
        return p->lin_scale;
    return 1.0 / (double)(p->flags & ATTN_FLAG_CAUSAL ? p->chunk : p->sk);
}

static int check(const struct ref_operands *operands, char *why, size_t size)
{
    const struct attn_problem *p = operands->problem;
    const struct attn_tensor *lin_q = operands->by_role[ATTN_LIN_Q];
    const char *fault = p->chunk < 1 || p->chunk > INT64_C(1) << 60 ? "a chunk has 1 to 2^60 tokens"
                        : p->off != 0                               ? "chunked has no offset"
                        : !isfinite(p->lin_scale)                   ? "lin_scale is not finite"
                        : lin_q->shape[3] < 1                       ? "lin_q has no columns"
                                                                    : NULL;
    if (fault)
        snprintf(why, size, "%s", fault);
    return fault ? ATTN_INVALID : ATTN_OK;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Cells of the quadratic part. */
static int64_t cells(const struct attn_problem *p)
{
    struct ref_operands operands;
    int64_t count = 0;
    ref_operands_init(&operands, p);
    for (int64_t b = 0; b < p->b; b++)
        for (int64_t i = 0; i < p->sq; i++) {
            const int64_t chunk = i / p->chunk * p->chunk;
            int64_t begin, end;
            ref_key_range(&operands, b, i, &begin, &end);
            end = smaller(end, chunk + p->chunk);
            count += end > chunk ? end - chunk : 0;
        }
    return count * p->hq;
}

/* The linear part: k v into a state, and q out of it. */
static double flops(const struct ref_shape *shape, double nnz)
{
    return 2.0 * (double)(shape->extent['k'] + shape->extent['v']) * nnz +
           4.0 * (double)ref_shape_elements(shape, "bhil") * (double)shape->extent['v'];
}

static double unit_cost(const struct attn_problem *p, int output)
{
    const struct attn_tensor *lin_q = attn_tensor_find(p, ATTN_LIN_Q);
    const double chunk = (double)smaller(p->chunk, p->sk);
    const double dl = lin_q ? (double)lin_q->shape[3] : 0;
    (void)output;
    return chunk * (3.0 * (double)p->dk + 4.0 * (double)p->dv) +
           (double)p->sk * (4.0 * dl + 4.0 * (double)p->dv);
}

static uint32_t linear(const struct attn_problem *problem, const char **word)
{
    (void)problem;
    *word = "v";
    return ATTN_V;
}

const struct ref_op ref_op_chunked = {
    .op = ATTN_OP_CHUNKED,
    .name = "chunked",
    .summary = "FLASH: relu^2 attention within chunks, linear attention beyond them",
    .flags = ATTN_FLAG_CAUSAL,
    .operands = groups,
    .outputs = outputs,
    .params = params,
    .keys = none,
    .needed = none,
    .main_operand = "q",
    .scaled = true,
    .scale = scale,
    .ties = ties,
    .check = check,
    .extents = extents,
    .draw = draw,
    .fills = fills,
    .cells = cells,
    .flops = flops,
    .unit_cost = unit_cost,
    .compute = ref_chunked_compute,
    .linear = linear,
};
