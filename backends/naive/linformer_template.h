/* SPDX-License-Identifier: Apache-2.0 */
/* linformer_template.h - attention over projected keys and values: both are projected once for each
 * key head, then three passes per row. Include it after attention_template.h. */

struct NAME(linformer) {
    REAL *keys, *values; /* [r,Dk], [r,Dv]: E k and F v of one key head */
    REAL *weights;       /* [Sk] a row of E or F */
    REAL *row;           /* [max(Dk,Dv)] a row of k or v */
    REAL *q;             /* [Dq] */
    REAL *s;             /* [r] */
    REAL *out;           /* [Dv] */
};

static size_t lay_out_linformer(const struct attn_problem *p, char *base,
                                struct NAME(linformer) * w)
{
    const int64_t widest = p->dk > p->dv ? p->dk : p->dv;
    size_t used = 0;
    w->keys = take(base, &used, p->landmarks, p->dk, sizeof(REAL));
    w->values = take(base, &used, p->landmarks, p->dv, sizeof(REAL));
    w->weights = take(base, &used, p->sk, 1, sizeof(REAL));
    w->row = take(base, &used, widest, 1, sizeof(REAL));
    w->q = take(base, &used, p->dq, 1, sizeof(REAL));
    w->s = take(base, &used, p->landmarks, 1, sizeof(REAL));
    w->out = take(base, &used, p->dv, 1, sizeof(REAL));
    return used;
}

/* to = matrix times the first `length` rows of one key head */
static void project_head(const struct NAME(linformer) * w, const struct attn_tensor *matrix,
                         const struct attn_tensor *from, int64_t b, int64_t g, int64_t length,
                         REAL *to)
{
    const int64_t width = from->shape[3];
    for (int64_t l = 0; l < matrix->shape[1]; l++) {
        const int64_t at = g * matrix->stride[0] + l * matrix->stride[1];
        const REAL *weights = row(matrix, at, matrix->stride[2], length, w->weights);
        memset(to + l * width, 0, (size_t)width * sizeof(REAL));
        for (int64_t j = 0; j < length; j++)
            add_scaled(to + l * width, weights[j], head_row(from, b, g, j, width, w->row), width);
    }
}

static void attend_projected(const struct attn_problem *p, const struct attn_operands *o, int64_t b,
                             int64_t h, int64_t i, const struct NAME(linformer) * w)
{
    const struct attn_tensor *out = &o->out, *lse = &o->lse;
    const REAL *q = head_row(&o->q, b, h, i, p->dq, w->q);
    for (int64_t l = 0; l < p->landmarks; l++)
        w->s[l] = (REAL)p->scale * dot(q, w->keys + l * p->dk, p->dk);
    const REAL row_lse = softmax(w->s, p->landmarks, &o->sink, h);
    memset(w->out, 0, (size_t)p->dv * sizeof(REAL));
    for (int64_t l = 0; l < p->landmarks; l++)
        add_scaled(w->out, w->s[l], w->values + l * p->dv, p->dv);
    store(out, attn_row_start(out, b, h, i), out->stride[3], p->dv, w->out);
    if (lse->dtype)
        store(lse, attn_row_start(lse, b, h, i), 1, 1, &row_lse);
}

static void run_linformer(const struct attn_problem *p, const struct attn_operands *o,
                          const struct NAME(linformer) * w)
{
    const int64_t shared = p->hq / p->hkv;
    for (int64_t head = 0; head < p->b * p->hq; head++) {
        const int64_t b = head / p->hq, h = head % p->hq;
        const int64_t length = attn_keys_seen(p, &o->len, b, 0).end;
        if (h % shared == 0) {
            project_head(w, &o->proj_e, &o->k, b, h / shared, length, w->keys);
            project_head(w, &o->proj_f, &o->v, b, h / shared, length, w->values);
        }
        for (int64_t i = 0; i < p->sq; i++)
            attend_projected(p, o, b, h, i, w);
    }
}
