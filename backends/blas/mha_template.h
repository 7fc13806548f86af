/* SPDX-License-Identifier: Apache-2.0 */
/* mha_template.h - multi-head attention around `attend`, the workspace, and the entry points.
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

/* The next piece of the workspace: rows * columns elements from *used on, on its own cache line.
 * With base NULL it only counts. *used becomes SIZE_MAX on overflow. */
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

/* Elements of a copy, see copy_operand; -1 on overflow, which makes every product with a size
 * overflow too. */
static int64_t copy_rows(const struct attn_problem *p, const struct attn_blas_factor *factor)
{
    const struct attn_tensor *tensor = attn_tensor_find(p, factor->role);
    int64_t rows = attn_blas_copied(p, factor) ? tensor->shape[factor->row] : 0;
    for (uint32_t a = 0; a < factor->row && rows > 0; a++)
        if (tensor->stride[a] && __builtin_mul_overflow(rows, tensor->shape[a], &rows))
            return -1;
    return rows;
}

/* The only list of the workspace: where each part lies from `base` on, and how many bytes in all.
 */
static size_t lay_out(const struct attn_blas_setup *setup, char *base,
                      struct NAME(buffers) * buffers)
{
    const struct attn_problem *p = setup->problem;
    const struct attn_tensor *w_k = attn_tensor_find(p, ATTN_SCORE_WK);
    int bilinear = p->score == ATTN_SCORE_BILINEAR, additive = p->score == ATTN_SCORE_ADDITIVE;
    int gaussian = p->score == ATTN_SCORE_GAUSSIAN, has_w_o = attn_tensor_find(p, ATTN_W_O) != NULL;
    int64_t hidden_heads = !additive ? 0 : w_k->stride[0] ? p->hq : p->hkv;
    size_t used = 0, real = sizeof(REAL);
    buffers->s = take(base, &used, setup->rows, p->sk, real);
    buffers->o = take(base, &used, setup->rows, p->dv, real);
    buffers->sum = take(base, &used, setup->rows, 1, real);
    buffers->turned_q =
        take(base, &used, bilinear || additive ? p->hq * p->sq : 0, bilinear ? p->dk : p->dh, real);
    buffers->turned_k = take(base, &used, hidden_heads * p->sk, p->dh, real);
    buffers->norms = take(base, &used, gaussian && setup->by_norms ? p->hkv : 0, p->sk, real);
    buffers->query = take(base, &used, gaussian, p->dq, real);
    for (size_t f = 0; f < ATTN_BLAS_FACTORS; f++) {
        const struct attn_tensor *tensor = attn_tensor_find(p, attn_blas_factors[f].role);
        int64_t rows = copy_rows(p, &attn_blas_factors[f]);
        buffers->copies[f] =
            take(base, &used, rows, rows ? tensor->shape[tensor->rank - 1] : 0, real);
    }
    buffers->y = take(base, &used, setup->copies_out ? p->sq : 0,
                      attn_tensor_find(p, ATTN_OUT)->shape[2], real);
    if (p->op != ATTN_OP_MHA)
        return used;
    buffers->heads_q = take(base, &used, p->sq, p->hq * p->dq, real);
    buffers->heads_k = take(base, &used, p->sk, p->hkv * p->dk, real);
    buffers->heads_v = take(base, &used, p->sk, p->hkv * p->dv, real);
    buffers->heads = take(base, &used, has_w_o ? p->sq : 0, p->hq * p->dv, real);
    return used;
}

size_t NAME(attn_blas_bytes)(const struct attn_blas_setup *setup)
{
    struct NAME(buffers) unused;
    return lay_out(setup, NULL, &unused);
}

void NAME(attn_blas_run)(const struct attn_blas_setup *setup, const struct attn_operands *operands,
                         void *workspace)
{
    const struct attn_problem *p = setup->problem;
    struct attn_operands taken = *operands;
    struct NAME(buffers) buffers;
    lay_out(setup, workspace, &buffers);
    for (size_t f = 0; f < ATTN_BLAS_FACTORS; f++)
        if (attn_blas_copied(p, &attn_blas_factors[f]))
            copy_operand(attn_operands_at(&taken, attn_blas_factors[f].role),
                         attn_blas_factors[f].row, buffers.copies[f]);
    attn_operands_default(&taken);
    if (p->op == ATTN_OP_MHA) {
        run_mha(setup, &taken, &buffers);
        return;
    }
    struct NAME(context) context = {.setup = setup, .operands = &taken, .buffers = &buffers};
    for (int64_t b = 0; b < p->b; b++)
        attend(&context, b);
}
