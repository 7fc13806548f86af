/* SPDX-License-Identifier: Apache-2.0 */
/* nystrom_template.h - attention through the means of segments, head by head. Include it after
 * attention_template.h. */

struct NAME(nystrom) {
    int64_t m;               /* segments */
    REAL *q, *k, *v;         /* [S,Dk], [S,Dk], [S,Dv] of one head */
    REAL *q_mean, *k_mean;   /* [m,Dk] */
    REAL *a, *z, *x, *y, *t; /* [m,m] */
    REAL *s;                 /* [S] weights of one row */
    REAL *gv, *zgv;          /* [m,Dv] */
    REAL *out;               /* [Dv] */
};

static size_t lay_out_nystrom(const struct attn_problem *p, char *base, struct NAME(nystrom) * w)
{
    const int64_t s = p->sq, m = p->landmarks < s ? p->landmarks : s;
    const struct {
        REAL **array;
        int64_t rows, columns;
    } arrays[] = {{&w->q, s, p->dk},      {&w->k, s, p->dk},      {&w->v, s, p->dv},
                  {&w->q_mean, m, p->dk}, {&w->k_mean, m, p->dk}, {&w->a, m, m},
                  {&w->z, m, m},          {&w->x, m, m},          {&w->y, m, m},
                  {&w->t, m, m},          {&w->s, s, 1},          {&w->gv, m, p->dv},
                  {&w->zgv, m, p->dv},    {&w->out, p->dv, 1}};
    size_t used = 0;
    w->m = m;
    for (size_t n = 0; n < sizeof(arrays) / sizeof(arrays[0]); n++)
        *arrays[n].array = take(base, &used, arrays[n].rows, arrays[n].columns, sizeof(REAL));
    return used;
}

static void load_head(const struct attn_tensor *from, int64_t b, int64_t h, REAL *to)
{
    for (int64_t i = 0; i < from->shape[2]; i++)
        load(to + i * from->shape[3], from, attn_row_start(from, b, h, i), from->stride[3],
             from->shape[3]);
}

/* Means of the rows of each segment. */
static void average(const REAL *x, int64_t steps, int64_t m, int64_t width, REAL *mean)
{
    for (int64_t l = 0; l < m; l++) {
        const int64_t begin = l * steps / m, end = (l + 1) * steps / m;
        memset(mean + l * width, 0, (size_t)width * sizeof(REAL));
        for (int64_t i = begin; i < end; i++)
            add_scaled(mean + l * width, 1, x + i * width, width);
        for (int64_t c = 0; c < width; c++)
            mean[l * width + c] /= (REAL)(end - begin);
    }
}

/* Weights of one row of queries over n keys. */
static void weigh_row(const struct attn_problem *p, const struct attn_operands *o, const REAL *q,
                      const REAL *keys, int64_t n, REAL *s)
{
    for (int64_t j = 0; j < n; j++)
        s[j] = (REAL)p->scale * dot(q, keys + j * p->dk, p->dk);
    softmax(s, n, &o->sink, 0);
}

/* The matrix A of a head, whose q and k are loaded. Returns its largest column sum. */
static REAL weigh_landmarks(const struct attn_problem *p, const struct attn_operands *o, int64_t b,
                            int64_t h, const struct NAME(nystrom) * w)
{
    const int64_t m = w->m;
    REAL most = 0;
    load_head(&o->q, b, h, w->q);
    load_head(&o->k, b, h, w->k);
    average(w->q, p->sq, m, p->dk, w->q_mean);
    average(w->k, p->sk, m, p->dk, w->k_mean);
    for (int64_t i = 0; i < m; i++)
        weigh_row(p, o, w->q_mean + i * p->dk, w->k_mean, m, w->a + i * m);
    for (int64_t j = 0; j < m; j++) {
        REAL sum = 0;
        for (int64_t i = 0; i < m; i++)
            sum += w->a[i * m + j];
        most = sum > most || isnan(sum) ? sum : most;
    }
    return most;
}

/* y = x z: [rows,inner] and [inner,width] */
static void multiply(const REAL *x, const REAL *z, int64_t rows, int64_t inner, int64_t width,
                     REAL *y)
{
    memset(y, 0, (size_t)(rows * width) * sizeof(REAL));
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < inner; j++)
            add_scaled(y + i * width, x[i * inner + j], z + j * width, width);
}

/* t = c I - x */
static void complement(REAL c, const REAL *x, int64_t m, REAL *t)
{
    for (int64_t n = 0; n < m * m; n++)
        t[n] = (n / m == n % m ? c : 0) - x[n];
}

/* z = about the inverse of a, beginning with a^T / norm */
static void invert(const struct attn_problem *p, REAL norm, const struct NAME(nystrom) * w)
{
    const int64_t m = w->m;
    for (int64_t n = 0; n < m * m; n++)
        w->z[n] = w->a[n % m * m + n / m] / norm;
    for (int64_t n = 0; n < p->iterations; n++) {
        multiply(w->a, w->z, m, m, m, w->x);
        complement(7, w->x, m, w->t);
        multiply(w->x, w->t, m, m, m, w->y);
        complement(15, w->y, m, w->t);
        multiply(w->x, w->t, m, m, m, w->y);
        complement(13, w->y, m, w->t);
        multiply(w->z, w->t, m, m, m, w->y);
        for (int64_t e = 0; e < m * m; e++)
            w->z[e] = w->y[e] / 4;
    }
}

/* One head, whose q, k and A are there. */
static void finish_head(const struct attn_problem *p, const struct attn_operands *o, int64_t b,
                        int64_t h, REAL norm, const struct NAME(nystrom) * w)
{
    const struct attn_tensor *out = &o->out;
    load_head(&o->v, b, h, w->v);
    invert(p, norm, w);
    for (int64_t l = 0; l < w->m; l++) {
        weigh_row(p, o, w->q_mean + l * p->dk, w->k, p->sk, w->s);
        multiply(w->s, w->v, 1, p->sk, p->dv, w->gv + l * p->dv);
    }
    multiply(w->z, w->gv, w->m, w->m, p->dv, w->zgv);
    for (int64_t i = 0; i < p->sq; i++) {
        weigh_row(p, o, w->q + i * p->dk, w->k_mean, w->m, w->s);
        multiply(w->s, w->zgv, 1, w->m, p->dv, w->out);
        store(out, attn_row_start(out, b, h, i), out->stride[3], p->dv, w->out);
    }
}

static void run_nystrom(const struct attn_problem *p, const struct attn_operands *o,
                        const struct NAME(nystrom) * w)
{
    const int64_t heads = p->b * p->hq;
    REAL most = 0;
    for (int64_t n = 0; p->variant == ATTN_NYSTROM_BATCH && n < heads; n++) {
        const REAL norm = weigh_landmarks(p, o, n / p->hq, n % p->hq, w);
        most = norm > most || isnan(norm) ? norm : most;
    }
    for (int64_t n = 0; n < heads; n++) {
        const REAL norm = weigh_landmarks(p, o, n / p->hq, n % p->hq, w);
        finish_head(p, o, n / p->hq, n % p->hq, p->variant == ATTN_NYSTROM_BATCH ? most : norm, w);
    }
}
