/* SPDX-License-Identifier: Apache-2.0 */
/* mha_template.h - multi-head attention around `attend`, the workspace, and the entry points.
 *
 * After attention_template.h. Projections are one GEMM a batch; with an output projection the heads
 * are concatenated in a buffer, without one they are written to out. */

/* y = x w^T + what y holds, y dense with leading dimension ld. */
static void project(const struct attn_blas_view *x, int64_t b, const struct attn_blas_view *w,
                    REAL *y, int64_t ld)
{
    int64_t rows = x->shape[1], inner = x->shape[2], width = w->shape[0];
    struct attn_blas_matrix x_matrix, w_matrix;
    if (rows == 0)
        return;
    attn_blas_matrix(rows, inner, x->stride[1], x->stride[2], &x_matrix);
    attn_blas_matrix(width, inner, w->stride[0], w->stride[1], &w_matrix);
    GEMM(CblasRowMajor, x_matrix.transposed ? CblasTrans : CblasNoTrans,
         w_matrix.transposed ? CblasNoTrans : CblasTrans, (int)rows, (int)width, (int)inner, 1,
         (const REAL *)x->data + b * x->stride[0], x_matrix.ld, (const REAL *)w->data, w_matrix.ld,
         1, y, (int)ld);
}

/* Every row becomes the bias, or zero: what a GEMM with beta 1 then adds to. */
static void start_rows(const struct attn_blas_view *bias, int64_t rows, int64_t width, REAL *y,
                       int64_t ld)
{
    for (int64_t s = 0; s < rows; s++)
        for (int64_t o = 0; o < width; o++)
            y[s * ld + o] = bias->dtype ? load_entry(bias, o * bias->stride[0]) : 0;
}

static void project_heads(const struct attn_blas_operands *o, const struct attn_blas_view *x,
                          int64_t b, uint32_t w_role, uint32_t b_role, REAL *y)
{
    int64_t width = o->view[w_role].shape[0];
    start_rows(&o->view[b_role], x->shape[1], width, y, width);
    project(x, b, &o->view[w_role], y, width);
}

/* A dense [S, H*D] buffer seen as [B,H,S,D]: every batch uses the same memory. */
static struct attn_blas_view heads_view(REAL *data, int64_t heads, int64_t width)
{
    return (struct attn_blas_view){.data = (char *)data,
                                   .dtype = REAL_DTYPE,
                                   .rank = 4,
                                   .stride = {0, width, heads * width, 1}};
}

/* out [B,Sq,Hq*Dv] seen as [B,Hq,Sq,Dv]. */
static struct attn_blas_view split_view(const struct attn_blas_view *out, int64_t width)
{
    struct attn_blas_view view = *out;
    view.rank = 4;
    view.stride[1] = width * out->stride[2];
    view.stride[2] = out->stride[1];
    view.stride[3] = out->stride[2];
    return view;
}

/* Pruned heads become zero, whatever they hold; their lse and weights stay. */
static void prune(const struct attn_problem *p, const struct attn_blas_view *mask,
                  const struct attn_blas_view *heads, int64_t b)
{
    for (int64_t h = 0; h < p->hq; h++) {
        if (mask->data[h * mask->stride[0]])
            continue;
        for (int64_t i = 0; i < p->sq; i++) {
            int64_t at = b * heads->stride[0] + h * heads->stride[1] + i * heads->stride[2];
            for (int64_t d = 0; d < p->dv; d++)
                ((REAL *)heads->data)[at + d * heads->stride[3]] = 0;
        }
    }
}

static void add_residual(const struct attn_problem *p, const struct attn_blas_view *x,
                         const struct attn_blas_view *out, int64_t b)
{
    for (int64_t i = 0; i < p->sq; i++) {
        REAL *y = (REAL *)out->data + b * out->stride[0] + i * out->stride[1];
        const REAL *add = (const REAL *)x->data + b * x->stride[0] + i * x->stride[1];
        for (int64_t o = 0; o < out->shape[2]; o++)
            y[o * out->stride[2]] += add[o * x->stride[2]];
    }
}

static void run_mha(const struct attn_blas_setup *setup, const struct attn_blas_operands *operands,
                    const struct NAME(buffers) * buffers)
{
    const struct attn_problem *p = setup->problem;
    const struct attn_blas_view *view = operands->view, *out = &view[ATTN_OUT];
    const struct attn_blas_view *x_k = view[ATTN_X_K].dtype ? &view[ATTN_X_K] : &view[ATTN_X_Q];
    const struct attn_blas_view *x_v = view[ATTN_X_V].dtype ? &view[ATTN_X_V] : x_k;
    int has_w_o = view[ATTN_W_O].dtype != 0;
    struct attn_blas_operands inner = *operands;
    inner.view[ATTN_Q] = heads_view(buffers->heads_q, p->hq, p->dq);
    inner.view[ATTN_K] = heads_view(buffers->heads_k, p->hkv, p->dk);
    inner.view[ATTN_V] = heads_view(buffers->heads_v, p->hkv, p->dv);
    inner.view[ATTN_OUT] =
        has_w_o ? heads_view(buffers->heads, p->hq, p->dv) : split_view(out, p->dv);
    struct attn_blas_view joined = heads_view(buffers->heads, p->hq, p->dv);
    joined.shape[1] = p->sq;
    joined.shape[2] = p->hq * p->dv;
    joined.stride[1] = p->hq * p->dv;
    joined.stride[2] = 1;
    /* Not stride[1]: of a single row that may be less than BLAS takes. */
    struct attn_blas_matrix y_matrix;
    attn_blas_matrix(p->sq, out->shape[2], out->stride[1], out->stride[2], &y_matrix);
    struct NAME(context) context = {setup, &inner, buffers};
    for (int64_t b = 0; b < p->b; b++) {
        project_heads(operands, &view[ATTN_X_Q], b, ATTN_W_Q, ATTN_B_Q, buffers->heads_q);
        project_heads(operands, x_k, b, ATTN_W_K, ATTN_B_K, buffers->heads_k);
        project_heads(operands, x_v, b, ATTN_W_V, ATTN_B_V, buffers->heads_v);
        attend(&context, b);
        if (view[ATTN_HEAD_MASK].dtype)
            prune(p, &view[ATTN_HEAD_MASK], &inner.view[ATTN_OUT], b);
        if (has_w_o) {
            REAL *y = (REAL *)out->data + b * out->stride[0];
            start_rows(&view[ATTN_B_O], p->sq, out->shape[2], y, y_matrix.ld);
            project(&joined, 0, &view[ATTN_W_O], y, y_matrix.ld);
        }
        if (p->flags & ATTN_FLAG_RESIDUAL)
            add_residual(p, &view[ATTN_X_Q], out, b);
    }
}

/* The next piece of the workspace: rows * columns elements from *used on, on a cache line of its
 * own. With base NULL it only counts; *used becomes SIZE_MAX on overflow. */
static void *take(char *base, size_t *used, int64_t rows, int64_t columns, size_t element)
{
    size_t bytes, at = *used;
    if (at == SIZE_MAX || __builtin_mul_overflow((uint64_t)rows, (uint64_t)columns, &bytes) ||
        __builtin_mul_overflow(bytes, element, &bytes) ||
        __builtin_add_overflow(bytes, (size_t)63, &bytes) ||
        __builtin_add_overflow(at, bytes & ~(size_t)63, used)) {
        *used = SIZE_MAX;
        return NULL;
    }
    return base ? base + at : NULL;
}

/* Where everything lies from `base` on, and how many bytes that is: the only list of it. */
static size_t lay_out(const struct attn_blas_setup *setup, char *base,
                      struct NAME(buffers) * buffers)
{
    const struct attn_problem *p = setup->problem;
    size_t used = 0, real = sizeof(REAL);
    buffers->s = take(base, &used, setup->rows, p->sk, real);
    buffers->o = take(base, &used, setup->rows, p->dv, real);
    buffers->sum = take(base, &used, setup->rows, 1, real);
    if (p->op != ATTN_OP_MHA)
        return used;
    buffers->heads_q = take(base, &used, p->sq, p->hq * p->dq, real);
    buffers->heads_k = take(base, &used, p->sk, p->hkv * p->dk, real);
    buffers->heads_v = take(base, &used, p->sk, p->hkv * p->dv, real);
    buffers->heads =
        take(base, &used, attn_tensor_find(p, ATTN_W_O) ? p->sq : 0, p->hq * p->dv, real);
    return used;
}

size_t NAME(attn_blas_bytes)(const struct attn_blas_setup *setup)
{
    struct NAME(buffers) unused;
    return lay_out(setup, NULL, &unused);
}

void NAME(attn_blas_run)(const struct attn_blas_setup *setup,
                         const struct attn_blas_operands *operands, void *workspace)
{
    struct NAME(buffers) buffers;
    lay_out(setup, workspace, &buffers);
    if (setup->problem->op == ATTN_OP_MHA) {
        run_mha(setup, operands, &buffers);
        return;
    }
    struct NAME(context) context = {setup, operands, &buffers};
    for (int64_t b = 0; b < setup->problem->b; b++)
        attend(&context, b);
}
