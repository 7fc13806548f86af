/* SPDX-License-Identifier: Apache-2.0 */
/* backward_template.h - gradients of attention, unfused: five GEMMs for a block of queries of one
 * head, and between them the steps on its scores.
 *
 * Include it after mha_template.h. P = exp(S - LSE) and dS = P (dP - delta) are whole matrices of a
 * block. dK and dV of a key head are added up over the blocks of all of its query heads. */

static REAL dot_entries(const struct attn_tensor *x, int64_t x_at, const struct attn_tensor *y,
                        int64_t y_at, int64_t n)
{
    const int64_t x_step = x->stride[3], y_step = y->stride[3];
    REAL sum = 0;
    for (int64_t d = 0; d < n; d++)
        sum += load_entry(x, x_at + d * x_step) * load_entry(y, y_at + d * y_step);
    return sum;
}

/* dO . out of a row. */
static REAL delta_of(const struct NAME(context) * c, const struct NAME(row) * row)
{
    const struct attn_operands *o = c->operands;
    return dot_entries(&o->dout, row_start(&o->dout, row), &o->out, row_start(&o->out, row),
                       c->setup->problem->dv);
}

/* Logits of a row from its scaled products, -infinity where a key takes no part; and what a softcap
 * multiplies dS by. */
static void finish_logits(const struct NAME(context) * c, const struct NAME(row) * row,
                          REAL *restrict slope)
{
    struct attn_problem rest = *c->setup->problem;
    const REAL cap = (REAL)rest.softcap;
    if (rest.flags & ATTN_FLAG_SOFTCAP)
        for (int64_t j = 0; j < row->n; j++) {
            const REAL t = TANH(row->s[j] / cap);
            slope[j] = 1 - t * t;
            row->s[j] = cap * t;
        }
    rest.flags &= ~(uint64_t)ATTN_FLAG_SOFTCAP;
    finish_scores(&rest, c->operands, row);
}

/* Factors of dropout of a row, 0 where it drops. */
static void draw_kept(const struct NAME(context) * c, const struct NAME(row) * row, REAL *kept)
{
    const struct attn_problem *p = c->setup->problem;
    const REAL factor = 1 / (REAL)(1 - p->dropout_p);
    for (int64_t j = 0; j < row->n; j++)
        kept[j] = attn_dropout_keeps(p, &c->operands->keep, row->b, row->h, row->i, row->first + j)
                      ? factor
                      : 0;
}

/* Turns logits into weights and dP into dS. Both are 0 where a key takes no part, whatever dP is
 * there. Weights beyond exp(FAR), of an LSE that is far off, are left to libm. */
static void weigh_back(REAL *restrict s, REAL *restrict ds, int64_t n, REAL lse, REAL delta,
                       int far)
{
    for (int64_t j = 0; j < n; j++) {
        const int none = s[j] == -INFINITY;
        const REAL x = s[j] - lse, weight = far ? LIBM_EXP(x) : EXP(x);
        s[j] = none ? 0 : weight;
        ds[j] = none ? 0 : weight * (ds[j] - delta);
    }
}

/* Adds dS of a row to the gradients of what is added to its scores. */
static void add_to_terms(const struct NAME(context) * c, const struct NAME(row) * row,
                         const REAL *ds)
{
    const struct attn_tensor *bias = &c->operands->grad_bias, *alibi = &c->operands->grad_alibi;
    if (bias->dtype) {
        const int64_t at[] = {row->b, row->h, row->i, row->first};
        const int64_t step = bias->shape[3] > 1 ? bias->stride[3] : 0;
        REAL *to = bias->data;
        for (int a = 0; a < 4; a++)
            to += bias->shape[a] > 1 ? at[a] * bias->stride[a] : 0;
        for (int64_t j = 0; j < row->n; j++)
            to[j * step] += ds[j];
    }
    if (alibi->dtype) {
        const int64_t diagonal =
            row->i + attn_keys_offset(c->setup->problem, &c->operands->len, row->b) - row->first;
        REAL sum = 0;
        for (int64_t j = 0; j < row->n; j++)
            sum += ds[j] * (REAL)(diagonal < j ? j - diagonal : diagonal - j);
        ((REAL *)alibi->data)[row->h * alibi->stride[0]] -= sum;
    }
}

/* Turns the products S and dP of a row into the factors of dV, dQ and dK: P with dropout, and dS
 * before the softcap. */
static void descend_row(const struct NAME(context) * c, const struct NAME(row) * row,
                        REAL *restrict ds)
{
    const struct attn_operands *o = c->operands;
    const struct attn_tensor *sink = &o->sink, *dsink = &o->grad_sink;
    const int dropout = (c->setup->problem->flags & ATTN_FLAG_DROPOUT) != 0;
    const REAL *kept = c->buffers->kept, *slope = c->buffers->slope;
    int broken;
    finish_logits(c, row, c->buffers->slope);
    const REAL max = row_max(row->s, row->n, &broken);
    if (max == -INFINITY && !broken) { /* no key takes part */
        memset(row->s, 0, (size_t)row->n * sizeof(REAL));
        memset(ds, 0, (size_t)row->n * sizeof(REAL));
        return;
    }
    const REAL lse = broken ? NAN : load_entry(&o->lse, row_start(&o->lse, row));
    const REAL delta = delta_of(c, row);
    if (dropout)
        draw_kept(c, row, c->buffers->kept);
    for (int64_t j = 0; dropout && j < row->n; j++)
        ds[j] = kept[j] != 0 ? ds[j] * kept[j] : 0;
    weigh_back(row->s, ds, row->n, lse, delta, max - lse > FAR);
    add_to_terms(c, row, ds);
    if (dsink->dtype)
        ((REAL *)dsink->data)[row->h * dsink->stride[0]] -=
            LIBM_EXP(load_entry(sink, row->h * sink->stride[0]) - lse) * delta;
    for (int64_t j = 0; dropout && j < row->n; j++)
        row->s[j] *= kept[j];
    for (int64_t j = 0; (c->setup->problem->flags & ATTN_FLAG_SOFTCAP) && j < row->n; j++)
        ds[j] = ds[j] != 0 ? ds[j] * slope[j] : 0; /* where no key takes part slope may be NaN */
}

/* One cell once more, by itself: its weight in *weight and dZ in *dz. Returns whether its key takes
 * part. */
static int careful_cell(const struct NAME(context) * c, int64_t b, int64_t h, int64_t i, int64_t j,
                        REAL *weight, REAL *dz)
{
    const struct attn_problem *p = c->setup->problem;
    const struct attn_operands *o = c->operands;
    const int64_t g = h / (p->hq / p->hkv);
    REAL kept = 1, slope = 1;
    struct NAME(row) row = {.b = b, .h = h, .i = i, .first = j, .n = 1, .s = weight};
    *weight = (REAL)p->scale * dot_entries(&o->q, row_start(&o->q, &row), &o->k,
                                           attn_row_start(&o->k, b, g, j), p->dk);
    finish_logits(c, &row, &slope);
    if (*weight == -INFINITY)
        return 0;
    if (p->flags & ATTN_FLAG_DROPOUT)
        draw_kept(c, &row, &kept);
    *dz = kept != 0 ? kept * dot_entries(&o->dout, row_start(&o->dout, &row), &o->v,
                                         attn_row_start(&o->v, b, g, j), p->dv)
                    : 0;
    weigh_back(weight, dz, 1, load_entry(&o->lse, row_start(&o->lse, &row)), delta_of(c, &row), 1);
    *weight *= kept;
    *dz *= slope;
    return 1;
}

/* to += factor * row (b,h,i) of x. */
static void add_entries(REAL *to, REAL factor, const struct attn_tensor *x, int64_t b, int64_t h,
                        int64_t i, int64_t n)
{
    const int64_t at = attn_row_start(x, b, h, i);
    for (int64_t d = 0; d < n; d++)
        to[d] += factor * load_entry(x, at + d * x->stride[3]);
}

/* dQ of a row once more, cell by cell, because GEMM gave NaN: see careful_values. */
static void careful_query(const struct NAME(context) * c, int64_t b, int64_t h, int64_t i, REAL *dq)
{
    const struct attn_problem *p = c->setup->problem;
    REAL weight, dz;
    memset(dq, 0, (size_t)p->dq * sizeof(*dq));
    for (int64_t j = 0; j < p->sk; j++)
        if (careful_cell(c, b, h, i, j, &weight, &dz))
            add_entries(dq, dz, &c->operands->k, b, h / (p->hq / p->hkv), j, p->dq);
}

/* The same for dK and dV of a key. */
static void careful_key(const struct NAME(context) * c, int64_t b, int64_t g, int64_t j, REAL *dk,
                        REAL *dv)
{
    const struct attn_problem *p = c->setup->problem;
    const int64_t heads = p->hq / p->hkv;
    REAL weight, dz;
    memset(dk, 0, (size_t)p->dk * sizeof(*dk));
    memset(dv, 0, (size_t)p->dv * sizeof(*dv));
    for (int64_t h = g * heads; h < (g + 1) * heads; h++)
        for (int64_t i = 0; i < p->sq; i++) {
            if (!careful_cell(c, b, h, i, j, &weight, &dz))
                continue;
            add_entries(dk, dz, &c->operands->q, b, h, i, p->dk);
            add_entries(dv, weight, &c->operands->dout, b, h, i, p->dv);
        }
}

/* If the gradient is asked for. */
static void store_row(const struct attn_tensor *to, int64_t b, int64_t h, int64_t i, int64_t n,
                      const REAL *row, REAL factor)
{
    const int64_t at = attn_row_start(to, b, h, i);
    for (int64_t d = 0; to->dtype && d < n; d++)
        ((REAL *)to->data)[at + d * to->stride[3]] = factor * row[d];
}

/* dP = dO V^T; then dQ = dZ K, dK += dZ^T Q and dV += P^T dO, those that are asked for. */
static void multiply_block(const struct NAME(context) * c, const struct NAME(block) * block)
{
    const struct attn_problem *p = c->setup->problem;
    const struct attn_operands *o = c->operands;
    const struct NAME(buffers) *w = c->buffers;
    const int64_t rows = block->rows, n = block->n, first = block->first;
    struct NAME(matrix) q = slice(&o->q, block->b, block->h, block->i, 2, rows, p->dq),
                        k = slice(&o->k, block->b, block->g, first, 2, p->sk, p->dk),
                        v = slice(&o->v, block->b, block->g, first, 2, p->sk, p->dv),
                        dout = slice(&o->dout, block->b, block->h, block->i, 2, rows, p->dv),
                        weights = {w->s, {0, (int)n}}, dz = {w->ds, {0, (int)n}};
    multiply(dout, v, rows, n, p->dv, 1, 0, (struct NAME(result)){w->ds, {0, (int)n}});
    for (int64_t r = 0; r < rows; r++) {
        struct NAME(row) row = block_row(c, block, r);
        descend_row(c, &row, w->ds + r * n);
    }
    if (o->grad_q.dtype)
        multiply(dz, flip(k), rows, p->dq, n, 1, 0, (struct NAME(result)){w->dq, {0, (int)p->dq}});
    if (o->grad_k.dtype)
        multiply(flip(dz), flip(q), n, p->dk, rows, 1, 1,
                 (struct NAME(result)){w->dk + first * p->dk, {0, (int)p->dk}});
    if (o->grad_v.dtype)
        multiply(flip(weights), flip(dout), n, p->dv, rows, 1, 1,
                 (struct NAME(result)){w->dv + first * p->dv, {0, (int)p->dv}});
}

static void descend_block(const struct NAME(context) * c, struct NAME(block) * block)
{
    const struct attn_problem *p = c->setup->problem;
    limit_keys(c, block);
    if (block->n > 0) {
        scores(c, block, 0, block->rows);
        multiply_block(c, block);
    } else {
        memset(c->buffers->dq, 0, (size_t)(block->rows * p->dq) * sizeof(REAL));
    }
    for (int64_t r = 0; c->operands->grad_q.dtype && r < block->rows; r++) {
        REAL *dq = c->buffers->dq + r * p->dq;
        if (any_nan(dq, p->dq))
            careful_query(c, block->b, block->h, block->i + r, dq);
        store_row(&c->operands->grad_q, block->b, block->h, block->i + r, p->dq, dq,
                  (REAL)p->scale);
    }
}

/* The query heads of one key head. */
static void descend_group(const struct NAME(context) * c, int64_t b, int64_t g)
{
    const struct attn_problem *p = c->setup->problem;
    const struct NAME(buffers) *w = c->buffers;
    const int64_t heads = p->hq / p->hkv;
    memset(w->dk, 0, (size_t)(p->sk * p->dk) * sizeof(REAL));
    memset(w->dv, 0, (size_t)(p->sk * p->dv) * sizeof(REAL));
    for (int64_t h = g * heads; h < (g + 1) * heads; h++)
        for (int64_t i = 0; i < p->sq; i += c->setup->rows) {
            const int64_t left = p->sq - i;
            struct NAME(block) block = {.b = b, .g = g, .h = h, .i = i};
            block.rows = left < c->setup->rows ? left : c->setup->rows;
            descend_block(c, &block);
        }
    for (int64_t j = 0; j < p->sk; j++) {
        REAL *dk = w->dk + j * p->dk, *dv = w->dv + j * p->dv;
        if (any_nan(dk, p->dk) || any_nan(dv, p->dv))
            careful_key(c, b, g, j, dk, dv);
        store_row(&c->operands->grad_k, b, g, j, p->dk, dk, (REAL)p->scale);
        store_row(&c->operands->grad_v, b, g, j, p->dv, dv, 1);
    }
}

/* Sets each element of a gradient that is added up in place to 0. */
static void clear(const struct attn_tensor *x)
{
    int64_t n[4] = {1, 1, 1, 1}, step[4] = {0};
    for (uint32_t a = 0; a < x->rank; a++) {
        n[a] = x->shape[a];
        step[a] = x->stride[a];
    }
    for (int64_t i = 0; x->dtype && i < n[0]; i++)
        for (int64_t j = 0; j < n[1]; j++)
            for (int64_t k = 0; k < n[2]; k++)
                for (int64_t l = 0; l < n[3]; l++)
                    ((REAL *)x->data)[i * step[0] + j * step[1] + k * step[2] + l * step[3]] = 0;
}

static void run_backward(struct NAME(context) * c)
{
    const struct attn_problem *p = c->setup->problem;
    clear(&c->operands->grad_bias);
    clear(&c->operands->grad_sink);
    clear(&c->operands->grad_alibi);
    for (int64_t b = 0; b < p->b; b++) {
        prepare_scores(c, b);
        for (int64_t g = 0; g < p->hkv; g++)
            descend_group(c, b, g);
    }
}
