/* SPDX-License-Identifier: Apache-2.0 */
/* backward.c - gradients of attention as one partition of oneDNN's Graph API, the pattern that its
 * guide has for training: MatMul, Multiply by the scale, Add of the mask, Subtract of the lse, Exp;
 * MatMul for dV and for dP; SoftMaxBackward, Multiply; MatMul for dQ and for dK. In 16 bits a
 * TypeCast stores the weights, and dS, before they are multiplied. */
#include <math.h>
#include <stdio.h>

#include "partition.h"

/* Ids of the logical tensors. The first are operands, in the order of their handles. */
enum { Q, K, V, OUT, DOUT, SCALE, MASK, STATS, DQ, DK, DV, OPERANDS };
enum {
    SCORES = ATTN_ONEDNN_PORTS,
    SCALED,
    MASKED,
    SHIFTED,
    WEIGHTS,
    STORED_WEIGHTS,
    DWEIGHTS,
    CENTRED,
    DSCORES,
    DSCALED,
    STORED_DSCALED,
    CELLS,
    PRODUCTS = CELLS,
    DELTA,
    HEADS_DK, /* of each query head */
    HEADS_DV,
    TENSORS
};
_Static_assert((int)OPERANDS <= (int)ATTN_ONEDNN_PORTS, "room for operands");
_Static_assert((int)TENSORS <= (int)ATTN_ONEDNN_TENSORS, "room for the rest");

struct attn_onednn_backward {
    struct attn_onednn_partition partition;
    const struct attn_problem *problem;
    const struct attn_onednn_mask *mask;
    float scale;
    float *stats; /* [B,Hq,Sq] the lse, 0 where that is -infinity: such a row has no weights */
    float *sums;  /* see redo_row */
};

struct attn_onednn_backward_tensors {
    struct attn_onednn_partition_tensors tensors;
};

/* ---- the partition ---- */

static dnnl_status_t declare_all(struct attn_onednn_draft *d, const struct attn_operands *o,
                                 const struct attn_onednn_mask *mask)
{
    const struct attn_problem *p = d->problem;
    const dnnl_data_type_t type = attn_onednn_type(p->dtype);
    dnnl_status_t status = attn_onednn_draft_operand(d, Q, &o->q, 0, p->sq, p->dk);
    status = status ? status : attn_onednn_draft_operand(d, K, &o->k, 1, p->sk, p->dk);
    status = status ? status : attn_onednn_draft_operand(d, V, &o->v, 1, p->sk, p->dv);
    status = status ? status : attn_onednn_draft_operand(d, OUT, &o->out, 0, p->sq, p->dv);
    status = status ? status : attn_onednn_draft_operand(d, DOUT, &o->dout, 0, p->sq, p->dv);
    status = status ? status : attn_onednn_draft_operand(d, DQ, &o->grad_q, 0, p->sq, p->dk);
    status = status ? status : attn_onednn_draft_operand(d, DK, &o->grad_k, 1, p->sk, p->dk);
    status = status ? status : attn_onednn_draft_operand(d, DV, &o->grad_v, 1, p->sk, p->dv);
    status = status ? status : attn_onednn_draft_scale(d, SCALE, dnnl_f32);
    status = status ? status : attn_onednn_draft_mask(d, MASK, dnnl_f32, mask);
    status = status ? status : attn_onednn_draft_middle(d, STATS, dnnl_f32, p->sq, 1);
    for (int id = SCORES; id < CELLS && !status; id++) {
        const int stored = id == STORED_WEIGHTS || id == STORED_DSCALED;
        status = attn_onednn_draft_middle(d, id, stored ? type : dnnl_f32, p->sq, p->sk);
    }
    status = status ? status : attn_onednn_draft_middle(d, PRODUCTS, dnnl_f32, p->sq, p->dv);
    status = status ? status : attn_onednn_draft_middle(d, DELTA, dnnl_f32, p->sq, 1);
    status = status ? status : attn_onednn_draft_middle(d, HEADS_DK, type, p->sk, p->dk);
    return status ? status : attn_onednn_draft_middle(d, HEADS_DV, type, p->sk, p->dv);
}

static dnnl_status_t make(struct attn_onednn_backward *g, const struct attn_operands *operands)
{
    const struct attn_problem *p = g->problem;
    const dnnl_graph_op_attr_t first = dnnl_graph_op_attr_transpose_a,
                               second = dnnl_graph_op_attr_transpose_b, none = 0;
    const int wide = p->dtype == ATTN_F32, plain = !g->mask->needed, single = p->hq == p->hkv;
    const int weights = wide ? WEIGHTS : STORED_WEIGHTS, ds = wide ? DSCALED : STORED_DSCALED;
    const struct attn_onednn_op ops[] = {
        {dnnl_graph_op_matmul, Q, K, SCORES, second, 0, 0},
        {dnnl_graph_op_multiply, SCORES, SCALE, SCALED, none, 0, 0},
        {dnnl_graph_op_add, SCALED, MASK, MASKED, none, plain, 0},
        {dnnl_graph_op_subtract, plain ? SCALED : MASKED, STATS, SHIFTED, none, 0, 0},
        {dnnl_graph_op_exp, SHIFTED, -1, WEIGHTS, none, 0, 0},
        {dnnl_graph_op_type_cast, WEIGHTS, -1, STORED_WEIGHTS, none, wide, 0},
        {dnnl_graph_op_matmul, weights, DOUT, single ? DV : HEADS_DV, first, 0, 0},
        {dnnl_graph_op_reduce_sum, HEADS_DV, -1, DV, none, single, 1},
        {dnnl_graph_op_matmul, DOUT, V, DWEIGHTS, second, 0, 0},
        {dnnl_graph_op_multiply, OUT, DOUT, PRODUCTS, none, 0, 0},
        {dnnl_graph_op_reduce_sum, PRODUCTS, -1, DELTA, none, 0, 0},
        {dnnl_graph_op_subtract, DWEIGHTS, DELTA, CENTRED, none, 0, 0},
        {dnnl_graph_op_multiply, WEIGHTS, CENTRED, DSCORES, none, 0, 0},
        {dnnl_graph_op_multiply, DSCORES, SCALE, DSCALED, none, 0, 0},
        {dnnl_graph_op_type_cast, DSCALED, -1, STORED_DSCALED, none, wide, 0},
        {dnnl_graph_op_matmul, ds, K, DQ, none, 0, 0},
        {dnnl_graph_op_matmul, ds, Q, single ? DK : HEADS_DK, first, 0, 0},
        {dnnl_graph_op_reduce_sum, HEADS_DK, -1, DK, none, single, 1},
    };
    struct attn_onednn_draft draft = {.problem = p};
    const dnnl_status_t status = declare_all(&draft, operands, g->mask);
    return status ? status
                  : attn_onednn_partition_make(&g->partition, &draft, ops,
                                               sizeof(ops) / sizeof(ops[0]));
}

/* The lse, and the sums of a head. */
static int reserve(struct attn_onednn_backward *g)
{
    const struct attn_problem *p = g->problem;
    const struct attn_services *s = g->partition.library.services;
    size_t rows = sizeof(float), sums = sizeof(float), width = 0, widths = 0;
    if (__builtin_mul_overflow(rows, (size_t)p->b, &rows) ||
        __builtin_mul_overflow(rows, (size_t)p->hq, &rows) ||
        __builtin_mul_overflow(rows, (size_t)p->sq, &rows) ||
        __builtin_add_overflow((size_t)p->dk, (size_t)p->dv, &width) ||
        __builtin_add_overflow(width, (size_t)3, &width) ||
        __builtin_mul_overflow(width, (size_t)p->sk, &widths) ||
        __builtin_add_overflow(widths, (size_t)p->dk, &widths) ||
        __builtin_mul_overflow(sums, widths, &sums))
        return -1;
    g->stats = s->alloc(s->context, rows, 64);
    g->sums = s->alloc(s->context, sums, 64);
    return g->stats && g->sums ? 0 : -1;
}

int attn_onednn_backward_create(const struct attn_onednn_library *library,
                                const struct attn_problem *problem,
                                const struct attn_operands *operands,
                                const struct attn_onednn_mask *mask,
                                struct attn_onednn_backward **backward, char *why, size_t size)
{
    const struct attn_services *s = library->services;
    struct attn_onednn_backward *made = s->alloc(s->context, sizeof(*made), 64);
    if (!made) {
        snprintf(why, size, "no memory for a plan of %zu bytes", sizeof(*made));
        return ATTN_OUT_OF_MEMORY;
    }
    *made = (struct attn_onednn_backward){.partition.library = *library,
                                          .problem = problem,
                                          .mask = mask,
                                          .scale = (float)problem->scale};
    const dnnl_status_t status = reserve(made) ? dnnl_out_of_memory : make(made, operands);
    if (!status) {
        *backward = made;
        return ATTN_OK;
    }
    snprintf(why, size, "oneDNN does not make one partition of these gradients (status %d)",
             (int)status);
    attn_onednn_backward_destroy(made);
    return status == dnnl_out_of_memory ? ATTN_OUT_OF_MEMORY : ATTN_UNSUPPORTED;
}

void attn_onednn_backward_destroy(struct attn_onednn_backward *backward)
{
    const struct attn_services *s = backward->partition.library.services;
    attn_onednn_partition_free(&backward->partition);
    if (backward->stats)
        s->free(s->context, backward->stats);
    if (backward->sums)
        s->free(s->context, backward->sums);
    s->free(s->context, backward);
}

int attn_onednn_backward_bind(struct attn_onednn_backward *backward,
                              const struct attn_operands *operands,
                              struct attn_onednn_backward_tensors **tensors, char *why, size_t size)
{
    const struct attn_services *s = backward->partition.library.services;
    void *const handles[OPERANDS] = {
        [Q] = operands->q.data,        [K] = operands->k.data,       [V] = operands->v.data,
        [OUT] = operands->out.data,    [DOUT] = operands->dout.data, [SCALE] = &backward->scale,
        [MASK] = backward->mask->data, [STATS] = backward->stats,    [DQ] = operands->grad_q.data,
        [DK] = operands->grad_k.data,  [DV] = operands->grad_v.data};
    struct attn_onednn_backward_tensors *made = s->alloc(s->context, sizeof(*made), 64);
    if (!made) {
        snprintf(why, size, "no memory for a binding of %zu bytes", sizeof(*made));
        return ATTN_OUT_OF_MEMORY;
    }
    *made = (struct attn_onednn_backward_tensors){0};
    if (!attn_onednn_partition_bind(&backward->partition, handles, &made->tensors)) {
        *tensors = made;
        return ATTN_OK;
    }
    snprintf(why, size, "the library refuses an operand's memory");
    attn_onednn_backward_release(backward, made);
    return ATTN_FAILED;
}

void attn_onednn_backward_release(struct attn_onednn_backward *backward,
                                  struct attn_onednn_backward_tensors *tensors)
{
    const struct attn_services *s = backward->partition.library.services;
    attn_onednn_partition_release(&tensors->tensors);
    s->free(s->context, tensors);
}

/* ---- key heads once more, in C ---- */

static float dot(const struct attn_tensor *x, int64_t x_at, const struct attn_tensor *y,
                 int64_t y_at, int64_t n)
{
    float sum = 0;
    for (int64_t d = 0; d < n; d++)
        sum += attn_onednn_load(x, x_at + d * x->stride[3]) *
               attn_onednn_load(y, y_at + d * y->stride[3]);
    return sum;
}

static void add(float *to, float factor, const struct attn_tensor *x, int64_t at, int64_t n)
{
    for (int64_t d = 0; d < n; d++)
        to[d] += factor * attn_onednn_load(x, at + d * x->stride[3]);
}

static void store(const struct attn_tensor *to, int64_t at, int64_t n, const float *row)
{
    for (int64_t d = 0; d < n; d++)
        attn_element_write(to->dtype, to->data, at + d * to->stride[3], row[d]);
}

/* Turns the addends of a row into its weights, which are 0 where a key takes no part, and writes
 * dP. */
static void weigh(const struct attn_problem *p, const struct attn_operands *o, int64_t b, int64_t h,
                  int64_t i, float *addend, float *weight, float *dp)
{
    const int64_t g = h / (p->hq / p->hkv);
    const int64_t q_at = attn_row_start(&o->q, b, h, i), o_at = attn_row_start(&o->dout, b, h, i);
    const float lse = attn_onednn_load(&o->lse, attn_row_start(&o->lse, b, h, i));
    for (int64_t j = 0; j < p->sk; j++) {
        if (addend[j] > -INFINITY || isnan(addend[j]))
            addend[j] +=
                (float)p->scale * dot(&o->q, q_at, &o->k, attn_row_start(&o->k, b, g, j), p->dk);
        weight[j] = dp[j] = 0;
        if (addend[j] == -INFINITY)
            continue;
        weight[j] = expf(addend[j] - lse);
        dp[j] = dot(&o->dout, o_at, &o->v, attn_row_start(&o->v, b, g, j), p->dv);
    }
}

/* One row of dQ, and what it adds to dK and dV. */
static void redo_row(const struct attn_onednn_backward *g, const struct attn_operands *o, int64_t b,
                     int64_t h, int64_t i)
{
    const struct attn_problem *p = g->problem;
    const int64_t group = h / (p->hq / p->hkv), q_at = attn_row_start(&o->q, b, h, i),
                  o_at = attn_row_start(&o->dout, b, h, i);
    float *addend = g->sums, *weight = addend + p->sk, *dp = weight + p->sk, *dq = dp + p->sk;
    float *dk = dq + p->dk, *dv = dk + p->sk * p->dk;
    const float delta = dot(&o->out, attn_row_start(&o->out, b, h, i), &o->dout, o_at, p->dv);
    attn_onednn_addend(p, o, b, h, i, addend);
    weigh(p, o, b, h, i, addend, weight, dp);
    for (int64_t d = 0; d < p->dk; d++)
        dq[d] = 0;
    for (int64_t j = 0; j < p->sk; j++) {
        const float ds = (float)p->scale * (weight[j] * (dp[j] - delta));
        if (addend[j] == -INFINITY)
            continue;
        add(dq, ds, &o->k, attn_row_start(&o->k, b, group, j), p->dk);
        add(dk + j * p->dk, ds, &o->q, q_at, p->dk);
        add(dv + j * p->dv, weight[j], &o->dout, o_at, p->dv);
    }
    store(&o->grad_q, attn_row_start(&o->grad_q, b, h, i), p->dk, dq);
}

/* All gradients of one key head by their formulas, key by key, so that a cell that takes no part is
 * never read. */
static void redo_group(const struct attn_onednn_backward *g, const struct attn_operands *o,
                       int64_t b, int64_t group)
{
    const struct attn_problem *p = g->problem;
    const int64_t heads = p->hq / p->hkv;
    float *dk = g->sums + 3 * p->sk + p->dk, *dv = dk + p->sk * p->dk;
    for (int64_t n = 0; n < p->sk * (p->dk + p->dv); n++)
        dk[n] = 0;
    for (int64_t h = group * heads; h < (group + 1) * heads; h++)
        for (int64_t i = 0; i < p->sq; i++)
            redo_row(g, o, b, h, i);
    for (int64_t j = 0; j < p->sk; j++) {
        store(&o->grad_k, attn_row_start(&o->grad_k, b, group, j), p->dk, dk + j * p->dk);
        store(&o->grad_v, attn_row_start(&o->grad_v, b, group, j), p->dv, dv + j * p->dv);
    }
}

/* Of heads first .. first + n - 1. */
static int any_nan(const struct attn_tensor *x, int64_t b, int64_t first, int64_t n)
{
    for (int64_t h = first; h < first + n; h++)
        for (int64_t r = 0; r < x->shape[2]; r++) {
            const int64_t at = attn_row_start(x, b, h, r);
            for (int64_t d = 0; d < x->shape[3]; d++)
                if (isnan(attn_onednn_load(x, at + d * x->stride[3])))
                    return 1;
        }
    return 0;
}

/* ---- run ---- */

/* The lse of each row, dense. */
static void copy_lse(const struct attn_onednn_backward *g, const struct attn_tensor *lse)
{
    const struct attn_problem *p = g->problem;
    float *to = g->stats;
    for (int64_t b = 0; b < p->b; b++)
        for (int64_t h = 0; h < p->hq; h++)
            for (int64_t i = 0; i < p->sq; i++) {
                const float x = attn_onednn_load(lse, attn_row_start(lse, b, h, i));
                *to++ = x == -INFINITY ? 0 : x;
            }
}

int attn_onednn_backward_run(const struct attn_onednn_backward *backward,
                             const struct attn_operands *operands,
                             const struct attn_onednn_backward_tensors *tensors, char *why,
                             size_t size)
{
    const struct attn_problem *p = backward->problem;
    const struct attn_operands *o = operands;
    const int64_t heads = p->hq / p->hkv;
    copy_lse(backward, &o->lse);
    const int result =
        attn_onednn_partition_run(&backward->partition, &tensors->tensors, why, size);
    for (int64_t b = 0; b < p->b && result == ATTN_OK && backward->mask->needed; b++)
        for (int64_t g = 0; g < p->hkv; g++)
            if (any_nan(&o->grad_q, b, g * heads, heads) || any_nan(&o->grad_k, b, g, 1) ||
                any_nan(&o->grad_v, b, g, 1))
                redo_group(backward, o, b, g);
    return result;
}
