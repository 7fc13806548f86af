/* SPDX-License-Identifier: Apache-2.0 */
/* linear_decay_template.h - linear attention with decay as its recurrence: a state [Dk,Dv] for each
 * head, one step after the other. Include it after rows_template.h. */

struct NAME(decaying) {
    REAL *q, *k, *v, *g, *bonus, *out;
    REAL *state; /* [Dk,Dv] */
};

static size_t lay_out_decaying(const struct attn_problem *p, char *base, struct NAME(decaying) * w)
{
    REAL **const rows[] = {&w->q, &w->k, &w->g, &w->bonus};
    size_t used = 0;
    for (size_t n = 0; n < sizeof(rows) / sizeof(rows[0]); n++)
        *rows[n] = take(base, &used, p->dk, 1, sizeof(REAL));
    w->v = take(base, &used, p->dv, 1, sizeof(REAL));
    w->out = take(base, &used, p->dv, 1, sizeof(REAL));
    w->state = take(base, &used, p->dk, p->dv, sizeof(REAL));
    return used;
}

/* state <- diag(exp(g)) state */
static void fade(const struct attn_problem *p, const REAL *g, REAL *state)
{
    for (int64_t c = 0; c < p->dk; c++) {
        const REAL decay = EXP(g[c]);
        for (int64_t d = 0; d < p->dv; d++)
            state[c * p->dv + d] *= decay;
    }
}

/* out = scale q (state + diag(bonus) k v^T); no bonus: 1 */
static void read_state(const struct attn_problem *p, const struct NAME(decaying) * w, const REAL *q,
                       const REAL *k, const REAL *v, const REAL *bonus)
{
    REAL own = 0;
    for (int64_t c = 0; c < p->dk; c++)
        own += q[c] * k[c] * (bonus ? bonus[c] : 1);
    for (int64_t d = 0; d < p->dv; d++)
        w->out[d] = own * v[d];
    for (int64_t c = 0; c < p->dk; c++)
        add_scaled(w->out, q[c], w->state + c * p->dv, p->dv);
    for (int64_t d = 0; d < p->dv; d++)
        w->out[d] *= (REAL)p->scale;
}

static void run_steps(const struct attn_problem *p, const struct attn_operands *o, int64_t b,
                      int64_t h, const REAL *bonus, const struct NAME(decaying) * w)
{
    const struct attn_tensor *out = &o->out;
    for (int64_t t = 0; t < p->sq; t++) {
        const REAL *q = head_row(&o->q, b, h, t, p->dk, w->q);
        const REAL *k = head_row(&o->k, b, h, t, p->dk, w->k);
        const REAL *v = head_row(&o->v, b, h, t, p->dv, w->v);
        const REAL *g = head_row(&o->decay, b, h, t, p->dk, w->g);
        if (p->variant == ATTN_DECAY_INCLUSIVE)
            fade(p, g, w->state);
        read_state(p, w, q, k, v, bonus);
        if (p->variant == ATTN_DECAY_EXCLUSIVE)
            fade(p, g, w->state);
        for (int64_t c = 0; c < p->dk; c++)
            add_scaled(w->state + c * p->dv, k[c], v, p->dv);
        store(out, attn_row_start(out, b, h, t), out->stride[3], p->dv, w->out);
    }
}

static void run_decaying(const struct attn_problem *p, const struct attn_operands *o,
                         const struct NAME(decaying) * w)
{
    const struct attn_tensor *in = &o->state_in, *after = &o->state_out;
    for (int64_t head = 0; head < p->b * p->hq; head++) {
        const int64_t b = head / p->hq, h = head % p->hq;
        memset(w->state, 0, (size_t)(p->dk * p->dv) * sizeof(REAL));
        for (int64_t c = 0; in->dtype && c < p->dk; c++)
            load(w->state + c * p->dv, in, attn_row_start(in, b, h, c), in->stride[3], p->dv);
        if (o->bonus.dtype)
            load(w->bonus, &o->bonus, h * o->bonus.stride[0], o->bonus.stride[1], p->dk);
        run_steps(p, o, b, h, o->bonus.dtype ? w->bonus : NULL, w);
        for (int64_t c = 0; after->dtype && c < p->dk; c++)
            store(after, attn_row_start(after, b, h, c), after->stride[3], p->dv,
                  w->state + c * p->dv);
    }
}
