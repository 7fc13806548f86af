/* SPDX-License-Identifier: Apache-2.0 */
/* backward_template.h - gradients of attention from their definition: for each row its weights from
 * the LSE that is given, dP, delta as the sum of p dP, dS, and what these add to dQ, dK and dV.
 * Include it after mha_template.h. */

struct NAME(backward) {
    struct NAME(buffers) buffers; /* s and key: the row's logits and their keys */
    REAL *dp, *kept;              /* [Sk] */
    REAL *dout, *dq;              /* [Dv] [Dq] */
    REAL *dk, *dv;                /* [Sk,Dk] [Sk,Dv] of one batch and key head */
    REAL *dbias;                  /* as the output, dense */
    REAL *dsink, *dalibi;         /* [Hq] */
};

static int64_t bias_cells(const struct attn_problem *p)
{
    int64_t cells = 1;
    if (!attn_tensor_find(p, ATTN_GRAD_BIAS))
        return 0;
    for (uint32_t a = 0; a < 4; a++)
        cells *= attn_problem_bias_extent(p, a);
    return cells;
}

static size_t lay_out_backward(const struct attn_problem *p, char *base, struct NAME(backward) * w)
{
    size_t used = lay_out(p, base, &w->buffers);
    w->dp = take(base, &used, p->sk, 1, sizeof(REAL));
    w->kept = take(base, &used, p->sk, 1, sizeof(REAL));
    w->dout = take(base, &used, p->dv, 1, sizeof(REAL));
    w->dq = take(base, &used, p->dq, 1, sizeof(REAL));
    w->dk = take(base, &used, p->sk, p->dk, sizeof(REAL));
    w->dv = take(base, &used, p->sk, p->dv, sizeof(REAL));
    w->dbias = take(base, &used, bias_cells(p), 1, sizeof(REAL));
    w->dsink = take(base, &used, p->hq, 1, sizeof(REAL));
    w->dalibi = take(base, &used, p->hq, 1, sizeof(REAL));
    return used;
}

/* One row: where it is, its query, and its sums. */
struct NAME(descent) {
    const struct NAME(context) * c;
    const struct NAME(backward) * w;
    const REAL *q;
    int64_t b, h, g, i, n;
    REAL lse, delta;
};

/* Weights, dP of each key, and delta. v of a dropped key takes no part. */
static void weigh_back(struct NAME(descent) * x)
{
    const struct attn_problem *p = x->c->problem;
    const struct attn_operands *o = x->c->operands;
    const struct NAME(backward) *w = x->w;
    const int dropout = (p->flags & ATTN_FLAG_DROPOUT) != 0;
    const REAL factor = 1 / (REAL)(1 - p->dropout_p);
    x->delta = 0;
    for (int64_t t = 0; t < x->n; t++) {
        const int64_t j = w->buffers.key[t];
        const int kept = !dropout || attn_dropout_keeps(p, &o->keep, x->b, x->h, x->i, j);
        REAL *weight = &w->buffers.s[t];
        *weight = EXP(*weight - x->lse);
        w->kept[t] = *weight * (!kept ? 0 : dropout ? factor : 1);
        w->dp[t] = 0;
        if (kept)
            w->dp[t] = dot(w->dout, head_row(&o->v, x->b, x->g, j, p->dv, w->buffers.v), p->dv);
        if (kept && dropout)
            w->dp[t] *= factor;
        x->delta += *weight * w->dp[t];
    }
}

/* 1 - tanh^2 of a softcap; else 1. */
static REAL slope_of_cap(const struct NAME(descent) * x, int64_t j)
{
    const struct attn_problem *p = x->c->problem;
    if (!(p->flags & ATTN_FLAG_SOFTCAP))
        return 1;
    const REAL *k = head_row(&x->c->operands->k, x->b, x->g, j, p->dk, x->w->buffers.k);
    const REAL t = TANH((REAL)p->scale * dot(x->q, k, p->dk) / (REAL)p->softcap);
    return 1 - t * t;
}

/* Where a cell is in dBias: axes that are broadcast count as one. */
static int64_t place_of_bias(const struct NAME(descent) * x, int64_t j)
{
    const int64_t at[] = {x->b, x->h, x->i, j};
    int64_t place = 0;
    for (uint32_t a = 0; a < 4; a++) {
        const int64_t extent = attn_problem_bias_extent(x->c->problem, a);
        place = place * extent + (extent > 1 ? at[a] : 0);
    }
    return place;
}

/* What the row adds to each gradient. */
static void add_row(const struct NAME(descent) * x)
{
    const struct attn_problem *p = x->c->problem;
    const struct attn_operands *o = x->c->operands;
    const struct NAME(backward) *w = x->w;
    const int64_t diagonal = x->i + attn_keys_offset(p, &o->len, x->b);
    for (int64_t t = 0; t < x->n; t++) {
        const int64_t j = w->buffers.key[t];
        const REAL ds = w->buffers.s[t] * (w->dp[t] - x->delta), dz = ds * slope_of_cap(x, j);
        add_scaled(w->dq, dz, head_row(&o->k, x->b, x->g, j, p->dk, w->buffers.k), p->dk);
        add_scaled(w->dk + j * p->dk, dz, x->q, p->dk);
        add_scaled(w->dv + j * p->dv, w->kept[t], w->dout, p->dv);
        if (o->grad_bias.dtype)
            w->dbias[place_of_bias(x, j)] += ds;
        w->dalibi[x->h] -= ds * (REAL)(diagonal < j ? j - diagonal : diagonal - j);
    }
}

/* What it adds to that of its sink; a row without keys has a gradient of its lse at most. */
static void add_to_sink(const struct NAME(descent) * x)
{
    const struct attn_operands *o = x->c->operands;
    if (o->sink.dtype && (x->n > 0 || o->dlse.dtype))
        x->w->dsink[x->h] -= EXP(entry(&o->sink, x->h, 0) - x->lse) * x->delta;
}

/* Row i of an operand [B,Hq,Sq]; 0: it is not given. */
static REAL of_row(const struct NAME(descent) * x, const struct attn_tensor *t)
{
    REAL value = 0;
    if (t->dtype)
        load(&value, t, attn_row_start(t, x->b, x->h, x->i), 1, 1);
    return value;
}

static void scale_row(REAL *row, REAL scale, int64_t n)
{
    for (int64_t c = 0; c < n; c++)
        row[c] *= scale;
}

/* A row of a gradient, if that is asked for. */
static void store_row(const struct attn_tensor *t, int64_t b, int64_t h, int64_t i, int64_t n,
                      const REAL *row)
{
    if (t->dtype)
        store(t, attn_row_start(t, b, h, i), t->stride[3], n, row);
}

static void descend(const struct NAME(context) * c, const struct NAME(backward) * w, int64_t b,
                    int64_t h, int64_t i)
{
    const struct attn_problem *p = c->problem;
    const struct attn_operands *o = c->operands;
    struct NAME(descent) x = {.c = c, .w = w, .b = b, .h = h, .i = i};
    x.g = h / (p->hq / p->hkv);
    memset(w->dq, 0, (size_t)p->dq * sizeof(REAL));
    x.n = logits(c, b, h, i);
    x.lse = of_row(&x, &o->lse);
    x.delta = -of_row(&x, &o->dlse);
    if (x.n > 0) {
        x.q = head_row(&o->q, b, h, i, p->dq, w->buffers.q);
        load(w->dout, &o->dout, attn_row_start(&o->dout, b, h, i), o->dout.stride[3], p->dv);
        weigh_back(&x);
        x.delta -= of_row(&x, &o->dlse);
        add_row(&x);
        scale_row(w->dq, (REAL)p->scale, p->dq);
    }
    add_to_sink(&x);
    store_row(&o->grad_q, b, h, i, p->dq, w->dq);
}

/* The query heads of one key head, one after the other. */
static void run_group(const struct NAME(context) * c, const struct NAME(backward) * w, int64_t b,
                      int64_t g)
{
    const struct attn_problem *p = c->problem;
    const struct attn_tensor *dk = &c->operands->grad_k, *dv = &c->operands->grad_v;
    const int64_t heads = p->hq / p->hkv;
    memset(w->dk, 0, (size_t)(p->sk * p->dk) * sizeof(REAL));
    memset(w->dv, 0, (size_t)(p->sk * p->dv) * sizeof(REAL));
    for (int64_t h = g * heads; h < (g + 1) * heads; h++)
        for (int64_t i = 0; i < p->sq; i++)
            descend(c, w, b, h, i);
    for (int64_t j = 0; j < p->sk; j++) {
        scale_row(w->dk + j * p->dk, (REAL)p->scale, p->dk);
        store_row(dk, b, g, j, p->dk, w->dk + j * p->dk);
        store_row(dv, b, g, j, p->dv, w->dv + j * p->dv);
    }
}

/* The gradients of bias, sink and slopes, after all rows. */
static void store_sums(const struct attn_operands *o, const struct NAME(backward) * w,
                       const struct attn_problem *p)
{
    const struct attn_tensor *bias = &o->grad_bias;
    if (bias->dtype)
        for (int64_t n = 0; n < bias_cells(p); n++) {
            int64_t rest = n, place = 0;
            for (int a = 3; a >= 0; rest /= bias->shape[a--])
                place += rest % bias->shape[a] * bias->stride[a];
            store(bias, place, 1, 1, w->dbias + n);
        }
    if (o->grad_sink.dtype)
        store(&o->grad_sink, 0, o->grad_sink.stride[0], p->hq, w->dsink);
    if (o->grad_alibi.dtype)
        store(&o->grad_alibi, 0, o->grad_alibi.stride[0], p->hq, w->dalibi);
}

static void run_backward(const struct attn_problem *p, const struct attn_operands *o,
                         const struct NAME(backward) * w)
{
    const struct NAME(context) c = {p, o, &w->buffers, &o->q, &o->k, &o->v};
    memset(w->dsink, 0, (size_t)p->hq * sizeof(REAL));
    memset(w->dalibi, 0, (size_t)p->hq * sizeof(REAL));
    memset(w->dbias, 0, (size_t)bias_cells(p) * sizeof(REAL));
    for (int64_t b = 0; b < p->b; b++)
        for (int64_t g = 0; g < p->hkv; g++)
            run_group(&c, w, b, g);
    store_sums(o, w, p);
}
