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
    PRODUCTS,
    DELTA,
    CENTRED,
    DSCORES,
    DSCALED,
    STORED_DSCALED,
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
    float *sums;  /* see redo_head */
};

struct attn_onednn_backward_tensors {
    struct attn_onednn_partition_tensors tensors;
};

/* ---- the partition ---- */

/* An operand [B,H,rows,columns] where it lies. Strides of axes of extent 1 do not matter. */
static dnnl_status_t declare_operand(struct attn_onednn_draft *d, int id,
                                     const struct attn_problem *p, uint32_t role)
{
    const struct attn_tensor *view = attn_tensor_find(p, role);
    int64_t stride[4], dense = 1;
    for (int a = 4; a-- > 0; dense *= view->shape[a])
        stride[a] = view->shape[a] > 1 ? view->stride[a] : dense;
    return attn_onednn_draft_tensor(d, id, attn_onednn_type(view->dtype), view->shape, stride);
}

static dnnl_status_t declare_all(struct attn_onednn_draft *d, const struct attn_problem *p,
                                 const struct attn_onednn_mask *m)
{
    static const uint32_t roles[OPERANDS] = {
        [Q] = ATTN_Q,           [K] = ATTN_K,       [V] = ATTN_V,       [OUT] = ATTN_OUT,
        [DOUT] = ATTN_GRAD_OUT, [DQ] = ATTN_GRAD_Q, [DK] = ATTN_GRAD_K, [DV] = ATTN_GRAD_V};
    const int64_t cells[4] = {p->b, p->hq, p->sq, p->sk}, rows[4] = {p->b, p->hq, p->sq, 1};
    const int64_t mask[4] = {m->b, m->h, m->i, p->sk}, one[4] = {1, 1, 1, 1};
    const int64_t values[4] = {p->b, p->hq, p->sq, p->dv};
    dnnl_status_t status = attn_onednn_draft_tensor(d, SCALE, dnnl_f32, one, NULL);
    status = status ? status : attn_onednn_draft_tensor(d, MASK, dnnl_f32, mask, NULL);
    status = status ? status : attn_onednn_draft_tensor(d, STATS, dnnl_f32, rows, NULL);
    for (int id = 0; id < OPERANDS && !status; id++)
        if (roles[id])
            status = declare_operand(d, id, p, roles[id]);
    for (int id = SCORES; id < TENSORS && !status; id++) {
        const int stored = id == STORED_WEIGHTS || id == STORED_DSCALED;
        const int64_t *shape = id == PRODUCTS ? values : id == DELTA ? rows : cells;
        status = attn_onednn_draft_tensor(d, id, stored ? attn_onednn_type(p->dtype) : dnnl_f32,
                                          shape, NULL);
    }
    return status;
}

static dnnl_status_t make(struct attn_onednn_backward *g)
{
    const dnnl_graph_op_attr_t first = dnnl_graph_op_attr_transpose_a,
                               second = dnnl_graph_op_attr_transpose_b, none = 0;
    const int wide = g->problem->dtype == ATTN_F32, plain = !g->mask->needed;
    const int weights = wide ? WEIGHTS : STORED_WEIGHTS, ds = wide ? DSCALED : STORED_DSCALED;
    const struct attn_onednn_op ops[] = {
        {dnnl_graph_op_matmul, Q, K, SCORES, second, 0},
        {dnnl_graph_op_multiply, SCORES, SCALE, SCALED, none, 0},
        {dnnl_graph_op_add, SCALED, MASK, MASKED, none, plain},
        {dnnl_graph_op_subtract, plain ? SCALED : MASKED, STATS, SHIFTED, none, 0},
        {dnnl_graph_op_exp, SHIFTED, -1, WEIGHTS, none, 0},
        {dnnl_graph_op_type_cast, WEIGHTS, -1, STORED_WEIGHTS, none, wide},
        {dnnl_graph_op_matmul, weights, DOUT, DV, first, 0},
        {dnnl_graph_op_matmul, DOUT, V, DWEIGHTS, second, 0},
        {dnnl_graph_op_multiply, OUT, DOUT, PRODUCTS, none, 0},
        {dnnl_graph_op_reduce_sum, PRODUCTS, -1, DELTA, none, 0},
        {dnnl_graph_op_subtract, DWEIGHTS, DELTA, CENTRED, none, 0},
        {dnnl_graph_op_multiply, WEIGHTS, CENTRED, DSCORES, none, 0},
        {dnnl_graph_op_multiply, DSCORES, SCALE, DSCALED, none, 0},
        {dnnl_graph_op_type_cast, DSCALED, -1, STORED_DSCALED, none, wide},
        {dnnl_graph_op_matmul, ds, K, DQ, none, 0},
        {dnnl_graph_op_matmul, ds, Q, DK, first, 0},
    };
    struct attn_onednn_draft draft = {.rank = 4};
    const dnnl_status_t status = declare_all(&draft, g->problem, g->mask);
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
    const dnnl_status_t status = reserve(made) ? dnnl_out_of_memory : make(made);
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

/* ---- heads once more, in C ---- */

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
    const int64_t q_at = attn_row_start(&o->q, b, h, i), o_at = attn_row_start(&o->dout, b, h, i);
    const float lse = attn_onednn_load(&o->lse, attn_row_start(&o->lse, b, h, i));
    for (int64_t j = 0; j < p->sk; j++) {
        if (addend[j] > -INFINITY || isnan(addend[j]))
            addend[j] +=
                (float)p->scale * dot(&o->q, q_at, &o->k, attn_row_start(&o->k, b, h, j), p->dk);
        weight[j] = dp[j] = 0;
        if (addend[j] == -INFINITY)
            continue;
        weight[j] = expf(addend[j] - lse);
        dp[j] = dot(&o->dout, o_at, &o->v, attn_row_start(&o->v, b, h, j), p->dv);
    }
}

/* All gradients of one head by their formulas, key by key, so that a cell that takes no part is
 * never read. */
static void redo_head(const struct attn_onednn_backward *g, const struct attn_operands *o,
                      int64_t b, int64_t h)
{
    const struct attn_problem *p = g->problem;
    float *addend = g->sums, *weight = addend + p->sk, *dp = weight + p->sk, *dq = dp + p->sk;
    float *dk = dq + p->dk, *dv = dk + p->sk * p->dk;
    for (int64_t n = 0; n < p->sk * (p->dk + p->dv); n++)
        dk[n] = 0;
    for (int64_t i = 0; i < p->sq; i++) {
        attn_onednn_addend(p, o, b, h, i, addend);
        const float delta = dot(&o->out, attn_row_start(&o->out, b, h, i), &o->dout,
                                attn_row_start(&o->dout, b, h, i), p->dv);
        weigh(p, o, b, h, i, addend, weight, dp);
        for (int64_t d = 0; d < p->dk; d++)
            dq[d] = 0;
        for (int64_t j = 0; j < p->sk; j++) {
            const float ds = (float)p->scale * (weight[j] * (dp[j] - delta));
            if (addend[j] == -INFINITY)
                continue;
            add(dq, ds, &o->k, attn_row_start(&o->k, b, h, j), p->dk);
            add(dk + j * p->dk, ds, &o->q, attn_row_start(&o->q, b, h, i), p->dk);
            add(dv + j * p->dv, weight[j], &o->dout, attn_row_start(&o->dout, b, h, i), p->dv);
        }
        store(&o->grad_q, attn_row_start(&o->grad_q, b, h, i), p->dk, dq);
    }
    for (int64_t j = 0; j < p->sk; j++) {
        store(&o->grad_k, attn_row_start(&o->grad_k, b, h, j), p->dk, dk + j * p->dk);
        store(&o->grad_v, attn_row_start(&o->grad_v, b, h, j), p->dv, dv + j * p->dv);
    }
}

static int any_nan(const struct attn_tensor *x, int64_t b, int64_t h)
{
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
    copy_lse(backward, &o->lse);
    const int result =
        attn_onednn_partition_run(&backward->partition, &tensors->tensors, why, size);
    for (int64_t b = 0; b < p->b && result == ATTN_OK && backward->mask->needed; b++)
        for (int64_t h = 0; h < p->hq; h++)
            if (any_nan(&o->grad_q, b, h) || any_nan(&o->grad_k, b, h) || any_nan(&o->grad_v, b, h))
                redo_head(backward, o, b, h);
    return result;
}
