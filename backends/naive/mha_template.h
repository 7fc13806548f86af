/* SPDX-License-Identifier: Apache-2.0 */
/* mha_template.h - multi-head attention around `attend`, the workspace, and the entry points.
 *
 * Include it after attention_template.h. Projections, heads and their concatenation stay REAL, one
 * batch at a time. Nothing is rounded to the operands' type before out. */

/* y[s,o] = x[s,:] . w[o,:] + bias[o], y dense. */
static void project(const struct NAME(buffers) * buffers, const struct attn_tensor *x, int64_t b,
                    const struct attn_tensor *w, const struct attn_tensor *bias, REAL *y)
{
    int64_t rows = x->shape[1], inner = x->shape[2], width = w->shape[0];
    for (int64_t o = 0; o < width; o++) {
        const REAL *w_row = row(w, o * w->stride[0], w->stride[1], inner, buffers->w);
        REAL added = entry(bias, o, 0);
        for (int64_t s = 0; s < rows; s++) {
            int64_t at = b * x->stride[0] + s * x->stride[1];
            y[s * width + o] =
                dot(row(x, at, x->stride[2], inner, buffers->x), w_row, inner) + added;
        }
    }
}

/* A dense [S, H*D] buffer seen as [B,H,S,D]: every batch uses the same memory. */
static struct attn_tensor heads_view(REAL *data, int64_t heads, int64_t width)
{
    return (struct attn_tensor){
        .data = data, .dtype = REAL_DTYPE, .rank = 4, .stride = {0, width, heads * width, 1}};
}

/* Pruned heads become zero, whatever they hold. Their lse and weights stay. */
static void prune(const struct attn_problem *p, const struct attn_tensor *mask, REAL *heads)
{
    for (int64_t h = 0; h < p->hq; h++)
        if (!((const uint8_t *)mask->data)[h * mask->stride[0]])
            for (int64_t i = 0; i < p->sq; i++)
                memset(heads + (i * p->hq + h) * p->dv, 0, (size_t)p->dv * sizeof(REAL));
}

static void finish_batch(const struct attn_problem *p, const struct attn_operands *o,
                         const struct NAME(buffers) * buffers, int64_t b)
{
    const struct attn_tensor *out = &o->out, *x = &o->x_q;
    int64_t width = out->shape[2];
    REAL *y = buffers->heads;
    if (o->w_o.dtype) {
        struct attn_tensor heads = {.data = buffers->heads,
                                    .dtype = REAL_DTYPE,
                                    .rank = 3,
                                    .shape = {1, p->sq, p->hq * p->dv},
                                    .stride = {0, p->hq * p->dv, 1}};
        y = buffers->y;
        project(buffers, &heads, 0, &o->w_o, &o->b_o, y);
    }
    for (int64_t i = 0; i < p->sq; i++) {
        if (p->flags & ATTN_FLAG_RESIDUAL) {
            int64_t at = b * x->stride[0] + i * x->stride[1];
            add_scaled(y + i * width, 1, row(x, at, x->stride[2], width, buffers->x), width);
        }
        store(out, b * out->stride[0] + i * out->stride[1], out->stride[2], width, y + i * width);
    }
}

static void run_mha(const struct attn_problem *p, const struct attn_operands *o,
                    const struct NAME(buffers) * buffers)
{
    struct attn_operands inner = *o;
    inner.q = heads_view(buffers->heads_q, p->hq, p->dq);
    inner.k = heads_view(buffers->heads_k, p->hkv, p->dk);
    inner.v = heads_view(buffers->heads_v, p->hkv, p->dv);
    inner.out = heads_view(buffers->heads, p->hq, p->dv);
    struct NAME(context) context = {p, &inner, buffers, &inner.q, &inner.k, &inner.v};
    for (int64_t b = 0; b < p->b; b++) {
        project(buffers, &o->x_q, b, &o->w_q, &o->b_q, buffers->heads_q);
        project(buffers, &o->x_k, b, &o->w_k, &o->b_k, buffers->heads_k);
        project(buffers, &o->x_v, b, &o->w_v, &o->b_v, buffers->heads_v);
        for (int64_t h = 0; h < p->hq; h++)
            attend(&context, b, h);
        if (o->head_mask.dtype)
            prune(p, &o->head_mask, buffers->heads);
        finish_batch(p, o, buffers, b);
    }
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t model_width(const struct attn_problem *p, uint32_t role)
{
    const struct attn_tensor *tensor = attn_tensor_find(p, role);
    return tensor ? tensor->shape[tensor->rank - 1] : 0;
}

/* The only list of the workspace: where each part lies from `base` on, and how many bytes in all.
 */
static size_t lay_out(const struct attn_problem *p, char *base, struct NAME(buffers) * buffers)
{
    size_t used = 0, real = sizeof(REAL);
    int64_t sk_dh = p->score == ATTN_SCORE_ADDITIVE ? p->dh : 0;
    buffers->s = take(base, &used, p->sk, 1, real);
    buffers->key = take(base, &used, p->sk, 1, sizeof(int64_t));
    buffers->q = take(base, &used, p->dq, 1, real);
    buffers->turned = take(base, &used, larger(p->dk, p->dh), 1, real);
    buffers->k = take(base, &used, larger(p->dq, p->dk), 1, real);
    buffers->v = take(base, &used, p->dv, 1, real);
    buffers->sum = take(base, &used, p->dv, 1, real);
    buffers->bias = take(base, &used, attn_tensor_find(p, ATTN_BIAS) ? p->sk : 0, 1, real);
    buffers->dense = take(base, &used, attn_tensor_find(p, ATTN_WEIGHTS) ? p->sk : 0, 1, real);
    buffers->hidden = take(base, &used, p->sk, sk_dh, real);
    buffers->combine = take(base, &used, sk_dh, 1, real);
    if (p->op != ATTN_OP_MHA)
        return used;
    int64_t width = larger(model_width(p, ATTN_X_Q),
                           larger(model_width(p, ATTN_X_K), model_width(p, ATTN_X_V)));
    int64_t eo = attn_tensor_find(p, ATTN_W_O) ? model_width(p, ATTN_OUT) : 0;
    buffers->heads_q = take(base, &used, p->sq, p->hq * p->dq, real);
    buffers->heads_k = take(base, &used, p->sk, p->hkv * p->dk, real);
    buffers->heads_v = take(base, &used, p->sk, p->hkv * p->dv, real);
    buffers->heads = take(base, &used, p->sq, p->hq * p->dv, real);
    buffers->y = take(base, &used, p->sq, eo, real);
    buffers->x = take(base, &used, width, 1, real);
    buffers->w = take(base, &used, larger(width, p->hq * p->dv), 1, real);
    return used;
}
