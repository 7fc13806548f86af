/* SPDX-License-Identifier: Apache-2.0 */
/* scores_template.h - scaled raw scores of a block of rows, by matrix products where possible.
 *
 * Include it after matrix_template.h. prepare_scores makes what a batch shares, once:
 *   bilinear   q M takes the place of q; the score is then a dot product
 *   gaussian   |k|^2 / 2 of every key; the score is -(|q|^2/2 - q.k + |k|^2/2)
 *   additive   W_q q takes the place of q, and W_k k that of k. For one hidden unit, neighbouring
 *              keys are next to each other, so that the loop over keys is vector code. An array of
 *              Sq x Sk x Dh is never in memory */

/* Workspace. Lengths are in elements. */
struct NAME(buffers) {
    REAL *s;        /* [rows,Sk] scores, then weights */
    REAL *o;        /* [rows,Dv] */
    REAL *sum;      /* [rows] */
    REAL *turned_q; /* [Hq,Sq,Dk or Dh] bilinear, additive */
    REAL *turned_k; /* [Hkv,Dh,Sk] additive; Hq, not Hkv, if each head has its own W_k */
    REAL *norms;    /* [Hkv,Sk] gaussian: |k|^2 / 2 */
    REAL *query;    /* [Dq] gaussian: one query */
    REAL *copies[ATTN_BLAS_FACTORS]; /* operands that BLAS cannot use */
    REAL *y;                         /* [Sq,Eo], if out is not a BLAS matrix */
    /* multi-head attention, one batch at a time: */
    REAL *heads_q; /* [Sq,Hq*Dq] */
    REAL *heads_k; /* [Sk,Hkv*Dk] */
    REAL *heads_v; /* [Sk,Hkv*Dv] */
    REAL *heads;   /* [Sq,Hq*Dv], with an output projection */
    /* the backward pass: */
    REAL *ds;      /* [rows,Sk] dP, then dS, then dZ; s has P */
    REAL *kept;    /* [Sk] factors of dropout of one row */
    REAL *slope;   /* [Sk] what the softcap multiplies dS of one row by */
    REAL *dq;      /* [rows,Dq] */
    REAL *dk, *dv; /* [Sk,Dk] [Sk,Dv] of one batch and key head */
};

struct NAME(block) {
    int64_t b, g;     /* batch, key/value head */
    int64_t h, i;     /* head and query of the first row */
    int64_t rows;     /* rows of the block */
    int by_head;      /* row r is head h + r; otherwise query i + r */
    int64_t first, n; /* keys that some row of the block may see */
};

struct NAME(context) {
    const struct attn_blas_setup *setup;
    const struct attn_operands *operands;
    const struct NAME(buffers) * buffers;
    struct attn_tensor q, k; /* the factors of the scores of this batch */
};

static struct NAME(row)
    block_row(const struct NAME(context) * c, const struct NAME(block) * block, int64_t r)
{
    return (struct NAME(row)){.b = block->b,
                              .h = block->h + (block->by_head ? r : 0),
                              .i = block->i + (block->by_head ? 0 : r),
                              .first = block->first,
                              .n = block->n,
                              .s = c->buffers->s + r * block->n};
}

/* to[j] = sum_c (q_c - k_jc)^2, in the order of memory of the keys. */
static void squared_distances(const REAL *restrict q, struct NAME(matrix) keys, int64_t n,
                              int64_t width, REAL *restrict to)
{
    const REAL *restrict k = keys.data;
    int64_t ld = keys.form.ld;
    if (keys.form.transposed) {
        memset(to, 0, (size_t)n * sizeof(*to));
        for (int64_t c = 0; c < width; c++)
            for (int64_t j = 0; j < n; j++)
                to[j] += (q[c] - k[c * ld + j]) * (q[c] - k[c * ld + j]);
        return;
    }
    for (int64_t j = 0; j < n; j++, k += ld) {
        REAL lane[LANES] = {0}, sum = 0;
        int64_t c = 0;
        for (; c + LANES <= width; c += LANES)
            for (int l = 0; l < LANES; l++)
                lane[l] += (q[c + l] - k[c + l]) * (q[c + l] - k[c + l]);
        for (int l = 0; l < LANES; l++)
            sum += lane[l];
        for (; c < width; c++)
            sum += (q[c] - k[c]) * (q[c] - k[c]);
        to[j] = sum;
    }
}

static void prepare_norms(const struct NAME(context) * c, int64_t b)
{
    const struct attn_problem *p = c->setup->problem;
    memset(c->buffers->query, 0, (size_t)p->dq * sizeof(REAL));
    for (int64_t g = 0; g < p->hkv; g++) {
        REAL *norms = c->buffers->norms + g * p->sk;
        squared_distances(c->buffers->query, slice(&c->k, b, g, 0, 2, p->sk, p->dk), p->sk, p->dk,
                          norms);
        for (int64_t j = 0; j < p->sk; j++)
            norms[j] *= (REAL)0.5;
    }
}

/* Prepares the scores of a batch. `operands` has q and k. */
static void prepare_scores(struct NAME(context) * c, int64_t b)
{
    const struct attn_problem *p = c->setup->problem;
    const struct attn_operands *o = c->operands;
    const struct attn_tensor *w_k = &o->score_w_k;
    struct NAME(turning)
        q = {.x = &o->q, .heads = p->hq, .group = 1, .rows = p->sq, .inner = p->dq},
        k = {.x = &o->k, .w = w_k, .rows = p->sk, .inner = p->dk, .width = p->dh};
    c->q = o->q;
    c->k = o->k;
    if (p->sk == 0)
        return;
    q.to = c->buffers->turned_q;
    if (p->score == ATTN_SCORE_GAUSSIAN && c->setup->by_norms)
        prepare_norms(c, b);
    if (p->score == ATTN_SCORE_BILINEAR) {
        q.w = &o->m;
        q.width = p->dk;
        q.w_axis = 2;
        c->q = turn(&q, b);
    }
    if (p->score == ATTN_SCORE_ADDITIVE) {
        q.w = &o->score_w_q;
        q.width = p->dh;
        q.w_axis = k.w_axis = 1;
        k.heads = w_k->stride[0] ? p->hq : p->hkv;
        k.group = w_k->stride[0] ? p->hq / p->hkv : 1;
        k.transposed = 1;
        k.to = c->buffers->turned_k;
        c->q = turn(&q, b);
        c->k = turn(&k, b);
    }
}

/* s = scale * w_v^T tanh(W_q q + W_k k) */
static void additive_row(const struct NAME(context) * c, const struct NAME(row) * row)
{
    const struct attn_problem *p = c->setup->problem;
    const struct attn_tensor *w = &c->operands->score_w_v;
    int64_t h = c->operands->score_w_k.stride[0] ? row->h : row->h / (p->hq / p->hkv);
    const REAL *q = (const REAL *)c->q.data + row->h * c->q.stride[1] + row->i * c->q.stride[2];
    const REAL *k = (const REAL *)c->k.data + h * c->k.stride[1] + row->first;
    REAL *restrict s = row->s;
    memset(s, 0, (size_t)row->n * sizeof(*s));
    for (int64_t d = 0; d < p->dh; d++) {
        const REAL *restrict hidden = k + d * c->k.stride[3];
        REAL weight = load_entry(w, row->h * w->stride[0] + d * w->stride[1]), shift = q[d];
        for (int64_t j = 0; j < row->n; j++)
            s[j] += weight * TANH(shift + hidden[j]);
    }
    for (int64_t j = 0; j < row->n; j++)
        s[j] *= (REAL)p->scale;
}

/* Turns s, which is q.k by_norms, into -0.5 scale |q - k|^2. If norms are infinite, the difference
 * itself is squared. */
static void gaussian_row(const struct NAME(context) * c, const struct NAME(row) * row, int64_t g)
{
    const struct attn_problem *p = c->setup->problem;
    const REAL scale = (REAL)p->scale, factor = (REAL)-0.5 * scale;
    const REAL *q = (const REAL *)c->q.data + row->b * c->q.stride[0] + row->h * c->q.stride[1] +
                    row->i * c->q.stride[2];
    REAL *query = c->buffers->query, norm = 0, *restrict s = row->s;
    struct NAME(matrix) keys = slice(&c->k, row->b, g, row->first, 2, p->sk, p->dk);
    int broken = 0;
    for (int64_t d = 0; d < p->dq; d++) {
        query[d] = q[d * c->q.stride[3]];
        norm += query[d] * query[d];
    }
    if (!c->setup->by_norms) {
        squared_distances(query, keys, row->n, p->dk, s);
        for (int64_t j = 0; j < row->n; j++)
            s[j] *= factor;
        return;
    }
    const REAL *restrict norms = c->buffers->norms + g * p->sk + row->first;
    norm *= (REAL)0.5;
    for (int64_t j = 0; j < row->n; j++) {
        s[j] = scale * (s[j] - (norm + norms[j]));
        broken |= !(s[j] - s[j] == 0);
    }
    for (int64_t j = 0; broken && j < row->n; j++) {
        struct NAME(matrix) key = keys;
        if (s[j] - s[j] == 0)
            continue;
        key.data += j * (keys.form.transposed ? 1 : keys.form.ld);
        squared_distances(query, key, 1, p->dk, &s[j]);
        s[j] *= factor;
    }
}

/* Row r of S = alpha Q K^T */
static void dot_row(const struct NAME(context) * c, const struct NAME(block) * block, int64_t r,
                    REAL alpha)
{
    const struct attn_problem *p = c->setup->problem;
    struct NAME(row) row = block_row(c, block, r);
    struct NAME(matrix) q = slice(&c->q, row.b, row.h, row.i, 2, 1, p->dk);
    struct NAME(matrix) k = slice(&c->k, row.b, block->g, row.first, 2, p->sk, p->dk);
    multiply_vector(k, row.n, p->dk, alpha, q.data, q.form.transposed ? q.form.ld : 1, row.s);
}

/* Rows r .. r + rows - 1 of the scores of a block. */
static void scores(const struct NAME(context) * c, const struct NAME(block) * block, int64_t r,
                   int64_t rows)
{
    const struct attn_problem *p = c->setup->problem;
    int gaussian = p->score == ATTN_SCORE_GAUSSIAN, additive = p->score == ATTN_SCORE_ADDITIVE;
    /* BLAS does not read its operands if alpha is 0, but 0 times NaN is NaN. */
    int zero = !gaussian && !additive && (REAL)p->scale == 0;
    REAL alpha = gaussian || zero ? 1 : (REAL)p->scale;
    struct NAME(row) row = block_row(c, block, r);
    if (!additive && (!gaussian || c->setup->by_norms)) {
        if (rows == 1)
            dot_row(c, block, r, alpha);
        else
            multiply(slice(&c->q, row.b, row.h, row.i, block->by_head ? 1 : 2, rows, p->dk),
                     slice(&c->k, row.b, block->g, row.first, 2, p->sk, p->dk), rows, row.n, p->dk,
                     alpha, 0, (struct NAME(result)){row.s, {0, (int)row.n}});
    }
    for (int64_t n = 0; n < rows && (gaussian || additive || zero); n++) {
        row = block_row(c, block, r + n);
        for (int64_t j = 0; zero && j < row.n; j++)
            row.s[j] *= 0;
        if (gaussian)
            gaussian_row(c, &row, block->g);
        else if (additive)
            additive_row(c, &row);
    }
}
