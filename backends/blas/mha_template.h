/* SPDX-License-Identifier: Apache-2.0 */
/* mha_template.h - multi-head attention around `attend`.
 *
 * Include it after attention_template.h. A projection is one GEMM per batch. With an output
 * projection, the heads are concatenated in a buffer. Without one, they are written to out. */

void NAME(attn_blas_project)(const struct attn_tensor *x, int64_t b, const struct attn_tensor *w,
                             const struct attn_tensor *bias, REAL *y)
{
    int64_t width = w->shape[0];
    project(x, b, w, bias, (struct NAME(result)){y, {0, (int)width}});
}

/* A dense [S, H*D] buffer seen as [B,H,S,D]: every batch uses the same memory. */
static struct attn_tensor heads_view(REAL *data, int64_t heads, int64_t width)
{
    return (struct attn_tensor){
        .data = data, .dtype = REAL_DTYPE, .rank = 4, .stride = {0, width, heads * width, 1}};
}

/* out [B,Sq,Hq*Dv] seen as [B,Hq,Sq,Dv]. */
static struct attn_tensor split_view(const struct attn_tensor *out, int64_t width)
{
    struct attn_tensor view = *out;
    view.rank = 4;
    view.stride[1] = width * out->stride[2];
    view.stride[2] = out->stride[1];
    view.stride[3] = out->stride[2];
    return view;
}

/* Pruned heads become zero, whatever they hold. Their lse and weights stay. */
static void prune(const struct attn_problem *p, const struct attn_tensor *mask,
                  const struct attn_tensor *heads, int64_t b)
{
    for (int64_t h = 0; h < p->hq; h++) {
        if (((const uint8_t *)mask->data)[h * mask->stride[0]])
            continue;
        for (int64_t i = 0; i < p->sq; i++) {
            int64_t at = b * heads->stride[0] + h * heads->stride[1] + i * heads->stride[2];
            for (int64_t d = 0; d < p->dv; d++)
                ((REAL *)heads->data)[at + d * heads->stride[3]] = 0;
        }
    }
}

static void add_residual(const struct attn_problem *p, const struct attn_tensor *x,
                         const struct attn_tensor *out, int64_t b)
{
    for (int64_t i = 0; i < p->sq; i++) {
        REAL *y = (REAL *)out->data + b * out->stride[0] + i * out->stride[1];
        const REAL *add = (const REAL *)x->data + b * x->stride[0] + i * x->stride[1];
        for (int64_t o = 0; o < out->shape[2]; o++)
            y[o * out->stride[2]] += add[o * x->stride[2]];
    }
}

/* The concatenated heads times w_o, to out. In place if out is a BLAS matrix. */
static void project_out(const struct attn_blas_setup *setup, const struct attn_operands *operands,
                        const struct NAME(buffers) * buffers, int64_t b)
{
    const struct attn_problem *p = setup->problem;
    const struct attn_tensor *out = &operands->out;
    struct attn_tensor joined = heads_view(buffers->heads, p->hq, p->dv);
    int64_t width = out->shape[2];
    struct NAME(result) y = {(REAL *)out->data + b * out->stride[0], {0, 0}};
    joined.shape[1] = p->sq;
    joined.shape[2] = p->hq * p->dv;
    joined.stride[1] = p->hq * p->dv;
    joined.stride[2] = 1;
    /* Not stride[1]: with a single row it may be smaller than BLAS accepts. */
    if (!setup->copies_out)
        attn_blas_matrix(p->sq, width, out->stride[1], out->stride[2], &y.form);
    else
        y = (struct NAME(result)){buffers->y, {0, (int)width}};
    project(&joined, 0, &operands->w_o, &operands->b_o, y);
    for (int64_t i = 0; setup->copies_out && i < p->sq; i++) {
        REAL *to = (REAL *)out->data + b * out->stride[0] + i * out->stride[1];
        for (int64_t o = 0; o < width; o++)
            to[o * out->stride[2]] = buffers->y[i * width + o];
    }
}

static void run_mha(const struct attn_blas_setup *setup, const struct attn_operands *o,
                    const struct NAME(buffers) * buffers)
{
    const struct attn_problem *p = setup->problem;
    struct attn_operands inner = *o;
    inner.q = heads_view(buffers->heads_q, p->hq, p->dq);
    inner.k = heads_view(buffers->heads_k, p->hkv, p->dk);
    inner.v = heads_view(buffers->heads_v, p->hkv, p->dv);
    inner.out =
        o->w_o.dtype ? heads_view(buffers->heads, p->hq, p->dv) : split_view(&o->out, p->dv);
    struct NAME(context) context = {.setup = setup, .operands = &inner, .buffers = buffers};
    for (int64_t b = 0; b < p->b; b++) {
        NAME(attn_blas_project)(&o->x_q, b, &o->w_q, &o->b_q, buffers->heads_q);
        NAME(attn_blas_project)(&o->x_k, b, &o->w_k, &o->b_k, buffers->heads_k);
        NAME(attn_blas_project)(&o->x_v, b, &o->w_v, &o->b_v, buffers->heads_v);
        attend(&context, b);
        if (o->head_mask.dtype)
            prune(p, &o->head_mask, &inner.out, b);
        if (o->w_o.dtype)
            project_out(setup, o, buffers, b);
        if (p->flags & ATTN_FLAG_RESIDUAL)
            add_residual(p, &o->x_q, &o->out, b);
    }
}
