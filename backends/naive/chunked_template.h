/* SPDX-License-Identifier: Apache-2.0 */
/* chunked_template.h - mixed chunk attention: a state [Dl,Dv] of lin_k v for the linear part, then
 * the keys of the chunk, one row after the other. Include it after attention_template.h. */

struct NAME(chunked) {
    REAL *q, *k, *lin_q, *lin_k, *v, *gate, *out;
    REAL *bias;  /* [min(chunk,S)] */
    REAL *state; /* [Dl,Dv] */
};

static size_t lay_out_chunked(const struct attn_problem *p, char *base, struct NAME(chunked) * w)
{
    const int64_t dl = attn_problem_extent(p, 'l');
    size_t used = 0;
    w->q = take(base, &used, p->dk, 1, sizeof(REAL));
    w->k = take(base, &used, p->dk, 1, sizeof(REAL));
    w->lin_q = take(base, &used, dl, 1, sizeof(REAL));
    w->lin_k = take(base, &used, dl, 1, sizeof(REAL));
    w->v = take(base, &used, p->dv, 1, sizeof(REAL));
    w->gate = take(base, &used, p->dv, 1, sizeof(REAL));
    w->out = take(base, &used, p->dv, 1, sizeof(REAL));
    w->bias = take(base, &used, attn_clamp(p->chunk, 1, p->sk), 1, sizeof(REAL));
    w->state = take(base, &used, dl, p->dv, sizeof(REAL));
    return used;
}

/* One head of one batch entry. */
struct NAME(chunked_head) {
    const struct attn_problem *p;
    const struct attn_operands *o;
    const struct NAME(chunked) * w;
    int64_t b, h, dl;
};

/* Keys [first, end) enter the state. */
static void collect(const struct NAME(chunked_head) * x, int64_t first, int64_t end)
{
    const struct NAME(chunked) *w = x->w;
    const int64_t dv = x->p->dv;
    for (int64_t j = first; j < end; j++) {
        const REAL *k = head_row(&x->o->lin_k, x->b, x->h, j, x->dl, w->lin_k);
        const REAL *v = head_row(&x->o->v, x->b, x->h, j, dv, w->v);
        for (int64_t c = 0; c < x->dl; c++)
            add_scaled(w->state + c * dv, k[c], v, dv);
    }
}

/* out += relu(scale q.k + bias)^2 v over keys [first, end) of the row's chunk. */
static void add_chunk(const struct NAME(chunked_head) * x, int64_t i, int64_t first, int64_t end)
{
    const struct attn_problem *p = x->p;
    const struct NAME(chunked) *w = x->w;
    const struct attn_tensor *bias = &x->o->bias;
    const REAL *q = head_row(&x->o->q, x->b, x->h, i, p->dk, w->q);
    if (bias->dtype)
        load(w->bias, bias, attn_row_start(bias, x->b, x->h, i % p->chunk), bias->stride[3],
             attn_clamp(end - first, 0, p->chunk));
    for (int64_t j = first; j < end; j++) {
        const REAL *k = head_row(&x->o->k, x->b, x->h, j, p->dk, w->k);
        REAL s = (REAL)p->scale * dot(q, k, p->dk);
        if (bias->dtype)
            s += w->bias[j - first];
        s = s <= 0 ? 0 : s; /* NaN stays */
        add_scaled(w->out, s * s, head_row(&x->o->v, x->b, x->h, j, p->dv, w->v), p->dv);
    }
}

/* Row i: the chunk's keys are [first, end), and `seen` keys are in the state. */
static void chunked_row(const struct NAME(chunked_head) * x, int64_t i, int64_t first, int64_t end,
                        int64_t seen)
{
    const struct attn_problem *p = x->p;
    const struct NAME(chunked) *w = x->w;
    const struct attn_tensor *out = &x->o->out;
    const REAL *lin_q = head_row(&x->o->lin_q, x->b, x->h, i, x->dl, w->lin_q);
    const REAL by = (REAL)attn_chunked_lin_scale(p);
    memset(w->out, 0, (size_t)p->dv * sizeof(REAL));
    for (int64_t c = 0; seen > 0 && c < x->dl; c++)
        add_scaled(w->out, by * lin_q[c], w->state + c * p->dv, p->dv);
    add_chunk(x, i, first, end);
    if (x->o->gate.dtype) {
        const REAL *gate = head_row(&x->o->gate, x->b, x->h, i, p->dv, w->gate);
        for (int64_t d = 0; d < p->dv; d++)
            w->out[d] *= gate[d];
    }
    store(out, attn_row_start(out, x->b, x->h, i), out->stride[3], p->dv, w->out);
}

static void chunked_rows(const struct NAME(chunked_head) * x)
{
    const struct attn_problem *p = x->p;
    const int causal = (p->flags & ATTN_FLAG_CAUSAL) != 0;
    const int64_t valid = attn_keys_valid(p, &x->o->len, x->b, 0);
    memset(x->w->state, 0, (size_t)(x->dl * p->dv) * sizeof(REAL));
    if (!causal)
        collect(x, 0, valid);
    for (int64_t first = 0; first < p->sq; first += p->chunk) {
        const int64_t end = attn_clamp(first + p->chunk, 0, p->sq);
        for (int64_t i = first; i < end; i++)
            chunked_row(x, i, first, attn_clamp(causal ? i + 1 : end, 0, valid),
                        attn_clamp(causal ? first : valid, 0, valid));
        if (causal)
            collect(x, first, attn_clamp(end, 0, valid));
    }
}

static void run_chunked(const struct attn_problem *p, const struct attn_operands *o,
                        const struct NAME(chunked) * w)
{
    struct NAME(chunked_head) x = {.p = p, .o = o, .w = w, .dl = attn_problem_extent(p, 'l')};
    for (x.b = 0; x.b < p->b; x.b++)
        for (x.h = 0; x.h < p->hq; x.h++)
            chunked_rows(&x);
}
