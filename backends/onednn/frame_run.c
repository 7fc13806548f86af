/* SPDX-License-Identifier: Apache-2.0 */
/* frame_run.c - the stages around attention bound to tensors and run. */
#include "frame.h"

#include <stdio.h>
#include <string.h>

/* w_* are [width,inner], M is [Hq,inner,width]. */
static dnnl_status_t pack(const struct attn_onednn_stage *stage, const struct attn_problem *p,
                          const struct attn_operands *operands, struct attn_onednn_weights *weights)
{
    const struct attn_tensor *w = attn_operands_find(operands, stage->weights);
    const int64_t by_output[] = {0, w->stride[1], w->stride[0]};
    return attn_onednn_product_pack(
        stage->product, w, stage->weights == ATTN_SCORE_M ? w->stride : by_output, p->hq,
        stage->bias ? attn_operands_find(operands, stage->bias) : NULL, weights);
}

int attn_onednn_frame_bind(const struct attn_onednn_frame *frame, const struct attn_tensor *tensors,
                           struct attn_operands *seen, struct attn_onednn_framed **framed,
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
    attn_onednn_operands_set(&made->operands, tensors, frame->problem->n_tensors);
    for (int s = 0; s < frame->n && !status; s++)
        if (frame->stages[s].product)
            status = pack(&frame->stages[s], frame->problem, &made->operands, &made->weights[s]);
    if (status) {
        attn_onednn_frame_release(made);
        return attn_onednn_result(status, why, size);
    }
    attn_onednn_frame_see(frame, &made->operands, seen);
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

static char *matrix(const struct attn_tensor *view, int64_t b, int64_t h)
{
    return attn_element_at(view, attn_row_start(view, b, h, 0));
}

static void copy(const struct attn_onednn_stage *stage, const struct attn_tensor *from,
                 const struct attn_tensor *to, int64_t b, int64_t h)
{
    size_t element = (size_t)attn_element_bytes(from->dtype);
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
    const struct attn_onednn_stage *stage = &f->stages[s];
    const struct attn_tensor *from = attn_onednn_frame_find(f, &framed->operands, stage->from);
    const struct attn_tensor *to = attn_onednn_frame_find(f, &framed->operands, stage->to);
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
    const struct attn_tensor *mask = &framed->operands.head_mask;
    struct attn_operands seen;
    attn_onednn_frame_see(framed->frame, &framed->operands, &seen);
    const struct attn_tensor *heads = &seen.out;
    size_t row = (size_t)p->dv * (size_t)attn_element_bytes(heads->dtype);
    for (int64_t b = 0; b < p->b; b++)
        for (int64_t h = 0; h < p->hq; h++)
            for (int64_t i = 0; i < p->sq && !((const uint8_t *)mask->data)[h * mask->stride[0]];
                 i++)
                memset(matrix(heads, b, h) +
                           i * heads->stride[2] * attn_element_bytes(heads->dtype),
                       0, row);
}

static void add_residual(const struct attn_onednn_framed *framed)
{
    const struct attn_problem *p = framed->frame->problem;
    const struct attn_tensor *x = &framed->operands.x_q;
    const struct attn_tensor *y = &framed->operands.out;
    int64_t width = attn_tensor_find(p, ATTN_OUT)->shape[2];
    for (int64_t b = 0; b < p->b; b++)
        for (int64_t i = 0; i < p->sq; i++) {
            int64_t x_at = b * x->stride[0] + i * x->stride[2];
            int64_t y_at = b * y->stride[0] + i * y->stride[2];
            for (int64_t c = 0; c < width; c++, x_at += x->stride[3], y_at += y->stride[3])
                attn_element_write(y->dtype, y->data, y_at,
                                   attn_onednn_load(y, y_at) + attn_onednn_load(x, x_at));
        }
}

int attn_onednn_frame_after(const struct attn_onednn_framed *framed, char *why, size_t size)
{
    const struct attn_onednn_frame *f = framed->frame;
    dnnl_status_t status = dnnl_success;
    if (framed->operands.head_mask.dtype)
        prune(framed);
    for (int s = f->n_before; s < f->n && !status; s++)
        status = run_stage(framed, s);
    if (!status && (f->problem->flags & ATTN_FLAG_RESIDUAL))
        add_residual(framed);
    return attn_onednn_result(status, why, size);
}
