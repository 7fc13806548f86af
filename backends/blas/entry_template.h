/* SPDX-License-Identifier: Apache-2.0 */
/* entry_template.h - the workspace, and the entry points. Include it after backward_template.h. */

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

static size_t lay_out_backward(const struct attn_blas_setup *setup, char *base, size_t used,
                               struct NAME(buffers) * buffers)
{
    const struct attn_problem *p = setup->problem;
    const size_t real = sizeof(REAL);
    buffers->ds = take(base, &used, setup->rows, p->sk, real);
    buffers->kept = take(base, &used, p->flags & ATTN_FLAG_DROPOUT ? p->sk : 0, 1, real);
    buffers->slope = take(base, &used, p->flags & ATTN_FLAG_SOFTCAP ? p->sk : 0, 1, real);
    buffers->dq = take(base, &used, setup->rows, p->dq, real);
    buffers->dk = take(base, &used, p->sk, p->dk, real);
    buffers->dv = take(base, &used, p->sk, p->dv, real);
    return used;
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
    if (p->op == ATTN_OP_ATTENTION_BACKWARD)
        return lay_out_backward(setup, base, used, buffers);
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
    if (p->op == ATTN_OP_ATTENTION_BACKWARD) {
        run_backward(&context);
        return;
    }
    for (int64_t b = 0; b < p->b; b++)
        attend(&context, b);
}
