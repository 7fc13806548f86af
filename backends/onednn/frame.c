/* SPDX-License-Identifier: Apache-2.0 */
/* frame.c - what surrounds attention, as a list of stages: before it copies of operands that the
 * library has no layout for, projections, and q^T M; after it the output projection and a copy of
 * out. A stage reads matrices of one operand, [B,H,rows,columns], and writes those of another. */
#include <stdio.h>
#include <string.h>

#include "onednn.h"

/* x_q, x_k, x_v copied and projected, q M, output projection, out copied; one result more, the
 * heads before their projection. */
enum { STAGES = 9, BUFFERS = STAGES + 1 };

struct stage {
    uint32_t from, to; /* operands: a role, or ATTN_ONEDNN_ROLES + a buffer */
    int64_t batches, heads, rows, columns;
    struct attn_onednn_product *product; /* NULL: a copy */
    uint32_t weights, bias;              /* roles */
};

struct attn_onednn_frame {
    struct attn_onednn_library library;
    const struct attn_problem *problem;
    struct attn_onednn_operands operands; /* without data */
    struct attn_onednn_view buffer[BUFFERS];
    struct stage stages[STAGES];
    int n_buffers, n, n_before;
    uint32_t q, k, v, out; /* operands as attention sees them */
};

struct attn_onednn_framed {
    const struct attn_onednn_frame *frame;
    struct attn_onednn_operands operands;
    struct attn_onednn_weights weights[STAGES];
};

static const struct attn_onednn_view *find(const struct attn_onednn_frame *f,
                                           const struct attn_onednn_operands *operands, uint32_t id)
{
    return id < ATTN_ONEDNN_ROLES ? &operands->view[id] : &f->buffer[id - ATTN_ONEDNN_ROLES];
}

/* Can the library read such matrices at full speed: rows or columns contiguous. With any other
 * strides its products take some 600 times as long (3.13, f32, AVX-512). */
static int readable(const struct attn_onednn_view *view, int64_t rows, int64_t columns)
{
    const int64_t *s = view->stride;
    int by_rows = (columns <= 1 || s[3] == 1) && (rows <= 1 || s[2] >= columns);
    return by_rows || (rows > 1 && s[2] == 1 && columns > 1 && s[3] >= rows);
}

/* Can it write them so: rows contiguous. */
static int writable(const struct attn_onednn_view *view, int64_t rows, int64_t columns)
{
    const int64_t *s = view->stride;
    return (columns <= 1 || s[3] == 1) && (rows <= 1 || s[2] >= columns);
}

/* A buffer [b,h,rows,columns], dense; an extent of 1 is broadcast. */
static dnnl_status_t reserve(struct attn_onednn_frame *f, int64_t b, int64_t h, int64_t rows,
                             int64_t columns, uint32_t *id)
{
    const struct attn_services *services = f->library.services;
    size_t bytes = attn_onednn_size(f->problem->dtype);
    const int64_t extents[] = {b, h, rows, columns};
    for (int a = 0; a < 4; a++)
        if (__builtin_mul_overflow(bytes, (size_t)extents[a], &bytes))
            return dnnl_out_of_memory;
    char *data = services->alloc(services->context, bytes, 64);
    if (!data)
        return dnnl_out_of_memory;
    *id = ATTN_ONEDNN_ROLES + (uint32_t)f->n_buffers;
    f->buffer[f->n_buffers++] = (struct attn_onednn_view){
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
    const struct attn_onednn_view *view = find(f, &f->operands, *id);
    if (readable(view, rows, columns))
        return dnnl_success;
    struct stage *stage = &f->stages[f->n++];
    *stage = (struct stage){.from = *id,
                            .batches = view->stride[0] ? f->problem->b : 1,
                            .heads = view->stride[1] ? heads : 1,
                            .rows = rows,
                            .columns = columns};
    dnnl_status_t status = reserve(f, stage->batches, stage->heads, rows, columns, &stage->to);
    *id = stage->to;
    return status;
}

/* Batches that follow one another at the distance of rows are one long matrix. */
static int joined(const struct attn_onednn_view *view, int64_t rows)
{
    return view->stride[3] <= 1 && view->stride[2] > 0 && view->stride[0] == rows * view->stride[2];
}

/* [B,1,S,H*width] as [B,H,S,width]. */
static void split(struct attn_onednn_view *view, int64_t heads, int64_t width)
{
    view->stride[1] = heads > 1 ? width * view->stride[3] : 0;
}

/* The next stage multiplies by weights: from [batches,heads,rows,columns] to `width` columns. */
static dnnl_status_t multiply(struct attn_onednn_frame *f, struct stage stage, int64_t width)
{
    const struct attn_onednn_view *x = find(f, &f->operands, stage.from);
    const struct attn_onednn_view *y = find(f, &f->operands, stage.to);
    if (stage.heads == 1 && joined(x, stage.rows) && joined(y, stage.rows)) {
        stage.rows *= stage.batches;
        stage.batches = 1;
    }
    const struct attn_onednn_product_spec spec = {.rows = stage.rows,
                                                  .inner = stage.columns,
                                                  .width = width,
                                                  .row_stride = x->stride[2],
                                                  .column_stride = x->stride[3],
                                                  .out_stride = y->stride[2],
                                                  .in = f->problem->dtype,
                                                  .out = f->problem->dtype,
                                                  .biased = stage.bias &&
                                                            f->operands.view[stage.bias].dtype};
    struct stage *made = &f->stages[f->n++];
    *made = stage;
    return attn_onednn_product_create(&f->library, &spec, &made->product);
}

/* *id: [B,1,S,E], from now on projected, as [B,heads,S,width/heads]. */
static dnnl_status_t project(struct attn_onednn_frame *f, uint32_t *id, int64_t rows, int64_t heads,
                             uint32_t weights, uint32_t bias)
{
    const struct attn_problem *p = f->problem;
    const int64_t *shape = attn_tensor_find(p, weights)->shape;
    struct stage stage = {.from = *id,
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
        split(&f->buffer[stage.to - ATTN_ONEDNN_ROLES], heads, shape[0] / heads);
    return status;
}

/* q^T M in place of q. */
static dnnl_status_t multiply_by_m(struct attn_onednn_frame *f)
{
    const struct attn_problem *p = f->problem;
    struct stage stage = {.from = f->q,
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
    if (!writable(&f->operands.view[ATTN_OUT], p->sq, width))
        status = reserve(f, p->b, heads, p->sq, width, &last);
    f->out = last;
    if (!status && attn_tensor_find(p, ATTN_W_O)) {
        struct stage stage = {.to = last,
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
        f->stages[f->n++] = (struct stage){.from = last,
                                           .to = ATTN_OUT,
                                           .batches = p->b,
                                           .heads = heads,
                                           .rows = p->sq,
                                           .columns = width};
    return status;
}

/* The operands as attention sees them. */
static void see(const struct attn_onednn_frame *f, const struct attn_onednn_operands *operands,
                struct attn_onednn_operands *seen)
{
    const struct attn_problem *p = f->problem;
    struct attn_onednn_operands found = *operands;
    found.view[ATTN_Q] = *find(f, operands, f->q);
    found.view[ATTN_K] = *find(f, operands, f->k);
    found.view[ATTN_V] = *find(f, operands, f->v);
    found.view[ATTN_OUT] = *find(f, operands, f->out);
    if (p->op == ATTN_OP_MHA)
        split(&found.view[ATTN_OUT], p->hq, p->dv);
    *seen = found;
}

int attn_onednn_frame_create(const struct attn_onednn_library *library,
                             const struct attn_problem *problem, struct attn_problem *inner,
                             struct attn_onednn_operands *seen, struct attn_onednn_frame **frame,
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
    attn_onednn_operands_set(&f->operands, problem, problem->tensors);
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
    see(f, &f->operands, seen);
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

/* w_* are [width,inner], M is [Hq,inner,width]. */
static dnnl_status_t pack(const struct stage *stage, const struct attn_problem *p,
                          const struct attn_onednn_operands *operands,
                          struct attn_onednn_weights *weights)
{
    const struct attn_onednn_view *w = &operands->view[stage->weights];
    const int64_t by_output[] = {0, w->stride[1], w->stride[0]};
    return attn_onednn_product_pack(stage->product, w,
                                    stage->weights == ATTN_SCORE_M ? w->stride : by_output, p->hq,
                                    stage->bias ? &operands->view[stage->bias] : NULL, weights);
}

int attn_onednn_frame_bind(const struct attn_onednn_frame *frame, const struct attn_tensor *tensors,
                           struct attn_onednn_operands *seen, struct attn_onednn_framed **framed,
                           char *why, size_t size)
{
    const struct attn_services *services = frame->library.services;
    struct attn_onednn_framed *made = services->alloc(services->context, sizeof(*made), 64);
    dnnl_status_t status = dnnl_success;
    if (!made) {
        snprintf(why, size, "no memory for a binding of %zu bytes", sizeof(*made));
        return ATTN_OUT_OF_MEMORY;
    }
    *made = (struct attn_onednn_framed){.frame = frame};
    attn_onednn_operands_set(&made->operands, frame->problem, tensors);
    for (int s = 0; s < frame->n && !status; s++)
        if (frame->stages[s].product)
            status = pack(&frame->stages[s], frame->problem, &made->operands, &made->weights[s]);
    if (status) {
        attn_onednn_frame_release(made);
        return attn_onednn_result(status, why, size);
    }
    see(frame, &made->operands, seen);
    *framed = made;
    return ATTN_OK;
}

void attn_onednn_frame_release(struct attn_onednn_framed *framed)
{
    const struct attn_services *services = framed->frame->library.services;
    for (int s = 0; s < framed->frame->n; s++)
        attn_onednn_weights_free(services, &framed->weights[s]);
    services->free(services->context, framed);
}

static char *matrix(const struct attn_onednn_view *view, int64_t b, int64_t h)
{
    return view->data +
           (b * view->stride[0] + h * view->stride[1]) * (int64_t)attn_onednn_size(view->dtype);
}

static void copy(const struct stage *stage, const struct attn_onednn_view *from,
                 const struct attn_onednn_view *to, int64_t b, int64_t h)
{
    size_t element = attn_onednn_size(from->dtype);
    for (int64_t r = 0; r < stage->rows; r++) {
        const char *x = matrix(from, b, h) + r * from->stride[2] * (int64_t)element;
        char *y = matrix(to, b, h) + r * to->stride[2] * (int64_t)element;
        int64_t x_step = from->stride[3] * (int64_t)element;
        int64_t y_step = to->stride[3] * (int64_t)element;
        for (int64_t c = 0; c < stage->columns && element == 4; c++)
            memcpy(y + c * y_step, x + c * x_step, 4);
        for (int64_t c = 0; c < stage->columns && element == 2; c++)
            memcpy(y + c * y_step, x + c * x_step, 2);
    }
}

static dnnl_status_t run_stage(const struct attn_onednn_framed *framed, int s)
{
    const struct attn_onednn_frame *f = framed->frame;
    const struct stage *stage = &f->stages[s];
    const struct attn_onednn_view *from = find(f, &framed->operands, stage->from);
    const struct attn_onednn_view *to = find(f, &framed->operands, stage->to);
    dnnl_status_t status = dnnl_success;
    for (int64_t b = 0; b < stage->batches; b++)
        for (int64_t h = 0; h < stage->heads && !status; h++)
            if (stage->product)
                status = attn_onednn_product_run(stage->product, &framed->weights[s], h,
                                                 matrix(from, b, h), matrix(to, b, h));
            else
                copy(stage, from, to, b, h);
    return status;
}

int attn_onednn_frame_before(const struct attn_onednn_framed *framed, char *why, size_t size)
{
    dnnl_status_t status = dnnl_success;
    for (int s = 0; s < framed->frame->n_before && !status; s++)
        status = run_stage(framed, s);
    return attn_onednn_result(status, why, size);
}

/* Pruned heads become zero, whatever they hold; their lse and weights stay. */
static void prune(const struct attn_onednn_framed *framed)
{
    const struct attn_problem *p = framed->frame->problem;
    const struct attn_onednn_view *mask = &framed->operands.view[ATTN_HEAD_MASK];
    struct attn_onednn_operands seen;
    see(framed->frame, &framed->operands, &seen);
    const struct attn_onednn_view *heads = &seen.view[ATTN_OUT];
    size_t row = (size_t)p->dv * attn_onednn_size(heads->dtype);
    for (int64_t b = 0; b < p->b; b++)
        for (int64_t h = 0; h < p->hq; h++)
            for (int64_t i = 0; i < p->sq && !mask->data[h * mask->stride[0]]; i++)
                memset(matrix(heads, b, h) +
                           i * heads->stride[2] * (int64_t)attn_onednn_size(heads->dtype),
                       0, row);
}

static void add_residual(const struct attn_onednn_framed *framed)
{
    const struct attn_problem *p = framed->frame->problem;
    const struct attn_onednn_view *x = &framed->operands.view[ATTN_X_Q];
    const struct attn_onednn_view *y = &framed->operands.view[ATTN_OUT];
    int64_t width = attn_tensor_find(p, ATTN_OUT)->shape[2];
    for (int64_t b = 0; b < p->b; b++)
        for (int64_t i = 0; i < p->sq; i++) {
            int64_t x_at = b * x->stride[0] + i * x->stride[2];
            int64_t y_at = b * y->stride[0] + i * y->stride[2];
            for (int64_t c = 0; c < width; c++, x_at += x->stride[3], y_at += y->stride[3])
                attn_onednn_store(y->dtype, y->data, y_at,
                                  attn_onednn_load(y, y_at) + attn_onednn_load(x, x_at));
        }
}

int attn_onednn_frame_after(const struct attn_onednn_framed *framed, char *why, size_t size)
{
    const struct attn_onednn_frame *f = framed->frame;
    dnnl_status_t status = dnnl_success;
    if (framed->operands.view[ATTN_HEAD_MASK].dtype)
        prune(framed);
    for (int s = f->n_before; s < f->n && !status; s++)
        status = run_stage(framed, s);
    if (!status && (f->problem->flags & ATTN_FLAG_RESIDUAL))
        add_residual(framed);
    return attn_onednn_result(status, why, size);
}

void attn_onednn_frame_copies(const struct attn_onednn_frame *frame, char *text, size_t size)
{
    static const char *const names[] = {
        [ATTN_Q] = "q",     [ATTN_K] = "k",     [ATTN_V] = "v",     [ATTN_OUT] = "out",
        [ATTN_X_Q] = "x_q", [ATTN_X_K] = "x_k", [ATTN_X_V] = "x_v",
    };
    size_t used = 0;
    if (size)
        text[0] = '\0';
    for (int s = 0; s < frame->n && used < size; s++) {
        const struct stage *stage = &frame->stages[s];
        uint32_t role = stage->from < ATTN_ONEDNN_ROLES ? stage->from : stage->to;
        if (!stage->product)
            used += (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : ", copies ",
                                     names[role]);
    }
}
