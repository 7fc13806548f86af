/* SPDX-License-Identifier: Apache-2.0 */
/* frame.c - what surrounds attention, planned as a list of stages: before it copies of operands
 * that the library has no layout for, projections, and q^T M; after it the output projection and a
 * copy of out. A stage reads matrices of one operand, [B,H,rows,columns], and writes those of
 * another. */
#include "frame.h"

#include <stdio.h>

const struct attn_tensor *attn_onednn_frame_find(const struct attn_onednn_frame *f,
                                                 const struct attn_operands *operands, uint32_t id)
{
    return id < ATTN_ROLE_USER ? attn_operands_find(operands, id) : &f->buffer[id - ATTN_ROLE_USER];
}

/* [B,1,S,H*width] as [B,H,S,width]. */
static void split(struct attn_tensor *view, int64_t heads, int64_t width)
{
    view->stride[1] = heads > 1 ? width * view->stride[3] : 0;
}

void attn_onednn_frame_see(const struct attn_onednn_frame *f, const struct attn_operands *operands,
                           struct attn_operands *seen)
{
    const struct attn_problem *p = f->problem;
    struct attn_operands found = *operands;
    found.q = *attn_onednn_frame_find(f, operands, f->q);
    found.k = *attn_onednn_frame_find(f, operands, f->k);
    found.v = *attn_onednn_frame_find(f, operands, f->v);
    found.out = *attn_onednn_frame_find(f, operands, f->out);
    if (p->op == ATTN_OP_MHA)
        split(&found.out, p->hq, p->dv);
    *seen = found;
}

/* Can the library read such matrices at full speed: rows or columns contiguous. With any other
 * strides its products take some 600 times as long (3.13, f32, AVX-512). */
static int readable(const struct attn_tensor *view, int64_t rows, int64_t columns)
{
    const int64_t *s = view->stride;
    int by_rows = (columns <= 1 || s[3] == 1) && (rows <= 1 || s[2] >= columns);
    return by_rows || (rows > 1 && s[2] == 1 && columns > 1 && s[3] >= rows);
}

/* Can it write them so: rows contiguous. */
static int writable(const struct attn_tensor *view, int64_t rows, int64_t columns)
{
    const int64_t *s = view->stride;
    return (columns <= 1 || s[3] == 1) && (rows <= 1 || s[2] >= columns);
}

/* A buffer [b,h,rows,columns], dense; an extent of 1 is broadcast. */
static dnnl_status_t reserve(struct attn_onednn_frame *f, int64_t b, int64_t h, int64_t rows,
                             int64_t columns, uint32_t *id)
{
    const struct attn_services *services = f->library.services;
    size_t bytes = (size_t)attn_element_bytes(f->problem->dtype);
    const int64_t extents[] = {b, h, rows, columns};
    for (int a = 0; a < 4; a++)
        if (__builtin_mul_overflow(bytes, (size_t)extents[a], &bytes))
            return dnnl_out_of_memory;
    char *data = services->alloc(services->context, bytes, 64);
    if (!data)
        return dnnl_out_of_memory;
    *id = ATTN_ROLE_USER + (uint32_t)f->n_buffers;
    f->buffer[f->n_buffers++] = (struct attn_tensor){
        .data = data,
        .dtype = f->problem->dtype,
        .rank = 4,
        .stride = {b > 1 ? h * rows * columns : 0, h > 1 ? rows * columns : 0, columns, 1}};
    return dnnl_success;
}

/* *id: an operand, from now on its copy where the library could not read it. */
static dnnl_status_t make_readable(struct attn_onednn_frame *f, uint32_t *id, int64_t heads,
                                   int64_t rows, int64_t columns)
{
    const struct attn_tensor *view = attn_onednn_frame_find(f, &f->operands, *id);
    if (readable(view, rows, columns))
        return dnnl_success;
    struct attn_onednn_stage *stage = &f->stages[f->n++];
    *stage = (struct attn_onednn_stage){.from = *id,
                                        .batches = view->stride[0] ? f->problem->b : 1,
                                        .heads = view->stride[1] ? heads : 1,
                                        .rows = rows,
                                        .columns = columns};
    dnnl_status_t status = reserve(f, stage->batches, stage->heads, rows, columns, &stage->to);
    *id = stage->to;
    return status;
}

/* Batches that follow one another at the distance of rows are one long matrix. */
static int joined(const struct attn_tensor *view, int64_t rows)
{
    return view->stride[3] <= 1 && view->stride[2] > 0 && view->stride[0] == rows * view->stride[2];
}

/* The next stage multiplies by weights: from [batches,heads,rows,columns] to `width` columns. */
static dnnl_status_t multiply(struct attn_onednn_frame *f, struct attn_onednn_stage stage,
                              int64_t width)
{
    const struct attn_tensor *x = attn_onednn_frame_find(f, &f->operands, stage.from);
    const struct attn_tensor *y = attn_onednn_frame_find(f, &f->operands, stage.to);
    if (stage.heads == 1 && joined(x, stage.rows) && joined(y, stage.rows)) {
        stage.rows *= stage.batches;
        stage.batches = 1;
    }
    const struct attn_onednn_product_spec spec = {
        .rows = stage.rows,
        .inner = stage.columns,
        .width = width,
        .row_stride = x->stride[2],
        .column_stride = x->stride[3],
        .out_stride = y->stride[2],
        .in = f->problem->dtype,
        .out = f->problem->dtype,
        .biased = attn_tensor_find(f->problem, stage.bias) != NULL};
    struct attn_onednn_stage *made = &f->stages[f->n++];
    *made = stage;
    return attn_onednn_product_create(&f->library, &spec, &made->product);
}

/* *id: [B,1,S,E], from now on projected, as [B,heads,S,width/heads]. */
static dnnl_status_t project(struct attn_onednn_frame *f, uint32_t *id, int64_t rows, int64_t heads,
                             uint32_t weights, uint32_t bias)
{
    const struct attn_problem *p = f->problem;
    const int64_t *shape = attn_tensor_find(p, weights)->shape;
    struct attn_onednn_stage stage = {.from = *id,
                                      .batches = p->b,
                                      .heads = 1,
                                      .rows = rows,
                                      .columns = shape[1],
                                      .weights = weights,
                                      .bias = bias};
    dnnl_status_t status = reserve(f, p->b, 1, rows, shape[0], &stage.to);
    status = status ? status : multiply(f, stage, shape[0]);
    *id = stage.to;
    if (!status)
        split(&f->buffer[stage.to - ATTN_ROLE_USER], heads, shape[0] / heads);
    return status;
}

/* q^T M in place of q. */
static dnnl_status_t multiply_by_m(struct attn_onednn_frame *f)
{
    const struct attn_problem *p = f->problem;
    struct attn_onednn_stage stage = {.from = f->q,
                                      .batches = p->b,
                                      .heads = p->hq,
                                      .rows = p->sq,
                                      .columns = p->dq,
                                      .weights = ATTN_SCORE_M};
    dnnl_status_t status = reserve(f, p->b, p->hq, p->sq, p->dk, &stage.to);
    f->q = stage.to;
    return status ? status : multiply(f, stage, p->dk);
}

static dnnl_status_t project_all(struct attn_onednn_frame *f)
{
    const struct attn_problem *p = f->problem;
    f->q = ATTN_X_Q;
    dnnl_status_t status =
        make_readable(f, &f->q, 1, p->sq, attn_tensor_find(p, ATTN_X_Q)->shape[2]);
    f->k = f->q;
    if (!status && attn_tensor_find(p, ATTN_X_K)) {
        f->k = ATTN_X_K;
        status = make_readable(f, &f->k, 1, p->sk, attn_tensor_find(p, ATTN_X_K)->shape[2]);
    }
    f->v = f->k;
    if (!status && attn_tensor_find(p, ATTN_X_V)) {
        f->v = ATTN_X_V;
        status = make_readable(f, &f->v, 1, p->sk, attn_tensor_find(p, ATTN_X_V)->shape[2]);
    }
    status = status ? status : project(f, &f->q, p->sq, p->hq, ATTN_W_Q, ATTN_B_Q);
    status = status ? status : project(f, &f->k, p->sk, p->hkv, ATTN_W_K, ATTN_B_K);
    return status ? status : project(f, &f->v, p->sk, p->hkv, ATTN_W_V, ATTN_B_V);
}

static dnnl_status_t make_before(struct attn_onednn_frame *f)
{
    const struct attn_problem *p = f->problem;
    dnnl_status_t status;
    if (p->op == ATTN_OP_MHA) {
        status = project_all(f);
    } else {
        status = make_readable(f, &f->q, p->hq, p->sq, p->dq);
        status = status ? status : make_readable(f, &f->k, p->hkv, p->sk, p->dk);
        status = status ? status : make_readable(f, &f->v, p->hkv, p->sk, p->dv);
    }
    return status || p->score != ATTN_SCORE_BILINEAR ? status : multiply_by_m(f);
}

/* What attention writes to, and the stages from there to out. */
static dnnl_status_t make_after(struct attn_onednn_frame *f)
{
    const struct attn_problem *p = f->problem;
    const struct attn_tensor *out = attn_tensor_find(p, ATTN_OUT);
    int64_t heads = p->op == ATTN_OP_MHA ? 1 : p->hq, width = out->shape[out->rank - 1];
    uint32_t last = ATTN_OUT;
    dnnl_status_t status = dnnl_success;
    f->n_before = f->n;
    if (!writable(&f->operands.out, p->sq, width))
        status = reserve(f, p->b, heads, p->sq, width, &last);
    f->out = last;
    if (!status && attn_tensor_find(p, ATTN_W_O)) {
        struct attn_onednn_stage stage = {.to = last,
                                          .batches = p->b,
                                          .heads = 1,
                                          .rows = p->sq,
                                          .columns = p->hq * p->dv,
                                          .weights = ATTN_W_O,
                                          .bias = ATTN_B_O};
        status = reserve(f, p->b, 1, p->sq, stage.columns, &stage.from);
        f->out = stage.from;
        status = status ? status : multiply(f, stage, width);
    }
    if (!status && last != ATTN_OUT)
        f->stages[f->n++] = (struct attn_onednn_stage){.from = last,
                                                       .to = ATTN_OUT,
                                                       .batches = p->b,
                                                       .heads = heads,
                                                       .rows = p->sq,
                                                       .columns = width};
    return status;
}

int attn_onednn_frame_create(const struct attn_onednn_library *library,
                             const struct attn_problem *problem, struct attn_problem *inner,
                             struct attn_operands *seen, struct attn_onednn_frame **frame,
                             char *why, size_t size)
{
    const struct attn_services *services = library->services;
    struct attn_onednn_frame *f = services->alloc(services->context, sizeof(*f), 64);
    if (!f) {
        snprintf(why, size, "no memory for a plan of %zu bytes", sizeof(*f));
        return ATTN_OUT_OF_MEMORY;
    }
    *f = (struct attn_onednn_frame){
        .library = *library, .problem = problem, .q = ATTN_Q, .k = ATTN_K, .v = ATTN_V};
    attn_onednn_operands_set(&f->operands, problem->tensors, problem->n_tensors);
    dnnl_status_t status = problem->sk ? make_before(f) : dnnl_success;
    status = status ? status : make_after(f);
    if (status) {
        attn_onednn_frame_destroy(f);
        return attn_onednn_result(status, why, size);
    }
    *inner = *problem;
    inner->op = ATTN_OP_ATTENTION;
    inner->flags &= ~(uint64_t)ATTN_FLAG_RESIDUAL;
    if (problem->score == ATTN_SCORE_BILINEAR) {
        inner->score = ATTN_SCORE_DOT;
        inner->dq = problem->dk;
    }
    attn_onednn_frame_see(f, &f->operands, seen);
    *frame = f;
    return ATTN_OK;
}

void attn_onednn_frame_destroy(struct attn_onednn_frame *frame)
{
    const struct attn_services *services = frame->library.services;
    for (int s = 0; s < frame->n; s++)
        if (frame->stages[s].product)
            attn_onednn_product_destroy(frame->stages[s].product);
    for (int b = 0; b < frame->n_buffers; b++)
        services->free(services->context, frame->buffer[b].data);
    services->free(services->context, frame);
}

void attn_onednn_frame_copies(const struct attn_onednn_frame *frame, char *text, size_t size)
{
    size_t used = 0;
    if (size)
        text[0] = '\0';
    for (int s = 0; s < frame->n && used < size; s++) {
        const struct attn_onednn_stage *stage = &frame->stages[s];
        uint32_t role = stage->from < ATTN_ROLE_USER ? stage->from : stage->to;
        if (!stage->product)
            used += (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : ", copies ",
                                     attn_problem_role_name(role));
    }
}
