/* SPDX-License-Identifier: Apache-2.0 */
/* mha.c - projections before and after the heads, all of a batch in f32. */
#include <string.h>

#include "mutant.h"

/* y[b,s,o] = x[b,s,:] . w[o,:] + bias[o], y dense. */
static void project(const struct mutant_job *job, uint32_t x_role, uint32_t w_role,
                    uint32_t bias_role, float *y)
{
    const struct attn_tensor *x = &job->operands.view[x_role];
    const struct attn_tensor *w = &job->operands.view[w_role];
    const int64_t rows = x->shape[1], inner = x->shape[2], width = w->shape[0];
    const bool transposed = bug(projection_transposed) && w_role == ATTN_W_Q;
    for (int64_t b = 0; b < x->shape[0]; b++)
        for (int64_t s = 0; s < rows; s++)
            for (int64_t o = 0; o < width; o++) {
                float sum = 0;
                for (int64_t c = 0; c < inner; c++)
                    sum += mutant_get(job, x_role,
                                      b * x->stride[0] + s * x->stride[1] + c * x->stride[2]) *
                           mutant_get(job, w_role,
                                      transposed ? c * w->stride[0] + o * w->stride[1]
                                                 : o * w->stride[0] + c * w->stride[1]);
                if (mutant_has(job, bias_role) && !bug(projection_bias))
                    sum += mutant_get(job, bias_role, o * job->operands.view[bias_role].stride[0]);
                y[(b * rows + s) * width + o] = sum;
            }
}

/* A dense [B,S,H*D] buffer seen as [B,H,S,D]. */
static struct attn_tensor heads_view(float *data, const struct attn_problem *p, int64_t heads,
                                     int64_t rows, int64_t width)
{
    return (struct attn_tensor){
        .data = data,
        .dtype = ATTN_F32,
        .rank = 4,
        .shape = {p->b, heads, rows, width},
        .stride = {rows * heads * width, width, heads * width, 1},
    };
}

/* Slices of v that begin one column late; the last one wraps. */
static void shift_columns(float *rows, int64_t count, int64_t width)
{
    for (int64_t r = 0; r < count; r++) {
        float *row = rows + r * width, first = row[0];
        memmove(row, row + 1, (size_t)(width - 1) * sizeof(*row));
        row[width - 1] = first;
    }
}

void mutant_project_inputs(struct mutant_job *job)
{
    const struct attn_problem *p = job->p;
    struct attn_tensor *view = job->operands.view;
    const uint32_t x_k = mutant_has(job, ATTN_X_K) ? ATTN_X_K : ATTN_X_Q;
    const uint32_t x_v = mutant_has(job, ATTN_X_V) ? ATTN_X_V : x_k;
    project(job, ATTN_X_Q, ATTN_W_Q, ATTN_B_Q, job->heads_q);
    project(job, x_k, ATTN_W_K, ATTN_B_K, job->heads_k);
    project(job, x_v, ATTN_W_V, ATTN_B_V, job->heads_v);
    if (bug(head_slice))
        shift_columns(job->heads_v, p->b * p->sk, p->hkv * p->dv);
    view[ATTN_Q] = heads_view(job->heads_q, p, p->hq, p->sq, p->dq);
    view[ATTN_K] = heads_view(job->heads_k, p, p->hkv, p->sk, p->dk);
    view[ATTN_V] = heads_view(job->heads_v, p, p->hkv, p->sk, p->dv);
    view[ATTN_OUT] = heads_view(job->heads, p, p->hq, p->sq, p->dv);
}

static float residual(const struct mutant_job *job, int64_t b, int64_t i, int64_t c)
{
    const int64_t *stride = job->operands.view[ATTN_X_Q].stride;
    return mutant_get(job, ATTN_X_Q, b * stride[0] + i * stride[1] + c * stride[2]);
}

/* Column c of the concatenated heads. */
static float head_column(const struct mutant_job *job, int64_t b, int64_t i, int64_t c)
{
    const struct attn_problem *p = job->p;
    int64_t h = c / p->dv;
    if (bug(heads_reversed))
        h = p->hq - 1 - h;
    const struct attn_tensor *mask = &job->operands.view[ATTN_HEAD_MASK];
    const bool pruned = mask->dtype && !((const unsigned char *)mask->data)[h * mask->stride[0]];
    float value = job->heads[((b * p->sq + i) * p->hq + h) * p->dv + c % p->dv];
    if (pruned && !bug(pruned_head_contributes))
        value = 0;
    if ((p->flags & ATTN_FLAG_RESIDUAL) && bug(residual_before_wo))
        value += residual(job, b, i, c);
    return value;
}

static float output(const struct mutant_job *job, int64_t b, int64_t i, int64_t o)
{
    const struct attn_problem *p = job->p;
    const struct attn_tensor *w = &job->operands.view[ATTN_W_O];
    if (!w->dtype)
        return head_column(job, b, i, o);
    float sum = 0;
    for (int64_t c = 0; c < p->hq * p->dv; c++)
        sum += head_column(job, b, i, c) *
               mutant_get(job, ATTN_W_O, o * w->stride[0] + c * w->stride[1]);
    if (mutant_has(job, ATTN_B_O) && !bug(projection_bias))
        sum += mutant_get(job, ATTN_B_O, o * job->operands.view[ATTN_B_O].stride[0]);
    return sum;
}

void mutant_project_output(struct mutant_job *job, const struct attn_tensor *out)
{
    const struct attn_problem *p = job->p;
    job->operands.view[ATTN_OUT] = *out;
    for (int64_t b = 0; b < p->b; b++)
        for (int64_t i = 0; i < p->sq; i++)
            for (int64_t o = 0; o < out->shape[2]; o++) {
                float y = output(job, b, i, o);
                if ((p->flags & ATTN_FLAG_RESIDUAL) && !bug(residual_before_wo))
                    y += (bug(residual_twice) ? 2 : 1) * residual(job, b, i, o);
                mutant_put(job, ATTN_OUT,
                           b * out->stride[0] + i * out->stride[1] + o * out->stride[2], y);
            }
}
