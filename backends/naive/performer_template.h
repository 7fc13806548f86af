/* SPDX-License-Identifier: Apache-2.0 */
/* performer_template.h - attention by random features: the features of all keys of a head, a state
 * [m,Dv] that is their sum with the values, and each query read from it. Include it after
 * rows_template.h. */

struct NAME(performer) {
    REAL *w;         /* [m,Dk] of one head */
    REAL *phi;       /* [Sk,m] w k', later features */
    REAL *half;      /* [Sk] |k'|^2 / 2 */
    REAL *phi_q;     /* [m] */
    REAL *x, *v;     /* [Dk] a scaled key or query; [Dv] */
    REAL *state;     /* [m,Dv] */
    REAL *sum, *out; /* [m] of features; [Dv] */
};

static size_t lay_out_performer(const struct attn_problem *p, char *base,
                                struct NAME(performer) * w)
{
    const int64_t m = attn_problem_extent(p, 'm');
    size_t used = 0;
    w->w = take(base, &used, m, p->dk, sizeof(REAL));
    w->phi = take(base, &used, p->sk, m, sizeof(REAL));
    w->half = take(base, &used, p->sk, 1, sizeof(REAL));
    w->phi_q = take(base, &used, m, 1, sizeof(REAL));
    w->x = take(base, &used, p->dk, 1, sizeof(REAL));
    w->v = take(base, &used, p->dv, 1, sizeof(REAL));
    w->state = take(base, &used, m, p->dv, sizeof(REAL));
    w->sum = take(base, &used, m, 1, sizeof(REAL));
    w->out = take(base, &used, p->dv, 1, sizeof(REAL));
    return used;
}

/* Writes w x' to `product`. Returns |x'|^2 / 2. */
static REAL random_products(const struct attn_problem *p, const struct NAME(performer) * w,
                            const struct attn_tensor *view, int64_t at, REAL *product)
{
    const int64_t m = attn_problem_extent(p, 'm');
    const REAL root = (REAL)sqrt(p->scale);
    load(w->x, view, at, view->stride[3], p->dk);
    for (int64_t c = 0; c < p->dk; c++)
        w->x[c] *= root;
    for (int64_t r = 0; r < m; r++)
        product[r] = dot(w->w + r * p->dk, w->x, p->dk);
    return dot(w->x, w->x, p->dk) / 2;
}

/* The largest of `most` and of what is taken out of a vector's features: with eps w x', without eps
 * the whole exponent. NaN is left to the sums. */
static REAL largest_exponent(const struct attn_problem *p, REAL most, const REAL *product,
                             REAL half)
{
    const int64_t m = attn_problem_extent(p, 'm');
    for (int64_t r = 0; r < m; r++) {
        const REAL candidate = p->eps > 0 ? product[r] : product[r] - half;
        most = candidate > most ? candidate : most;
    }
    return most;
}

/* From w x' to features. */
static void take_exponentials(const struct attn_problem *p, REAL *product, REAL half, REAL most)
{
    const int64_t m = attn_problem_extent(p, 'm');
    most = most > -INFINITY && most < INFINITY ? most : 0;
    for (int64_t r = 0; r < m; r++)
        product[r] = EXP(product[r] - half - most) + (REAL)p->eps;
}

static void load_features(const struct attn_problem *p, const struct attn_tensor *features,
                          int64_t h, const struct NAME(performer) * w)
{
    const int64_t m = attn_problem_extent(p, 'm');
    for (int64_t r = 0; r < m; r++)
        load(w->w + r * p->dk, features, h * features->stride[0] + r * features->stride[1],
             features->stride[2], p->dk);
}

/* Features of the first n keys of a head. */
static void make_keys(const struct attn_problem *p, const struct attn_operands *o, int64_t b,
                      int64_t g, int64_t n, const struct NAME(performer) * w)
{
    const int64_t m = attn_problem_extent(p, 'm');
    REAL most = -INFINITY;
    for (int64_t j = 0; j < n; j++) {
        w->half[j] = random_products(p, w, &o->k, attn_row_start(&o->k, b, g, j), w->phi + j * m);
        most = largest_exponent(p, most, w->phi + j * m, w->half[j]);
    }
    for (int64_t j = 0; j < n; j++)
        take_exponentials(p, w->phi + j * m, w->half[j], most);
}

static void add_key(const struct attn_problem *p, const struct attn_operands *o, int64_t b,
                    int64_t g, int64_t j, const struct NAME(performer) * w)
{
    const int64_t m = attn_problem_extent(p, 'm');
    const REAL *v = head_row(&o->v, b, g, j, p->dv, w->v), *phi = w->phi + j * m;
    for (int64_t r = 0; r < m; r++) {
        w->sum[r] += phi[r];
        add_scaled(w->state + r * p->dv, phi[r], v, p->dv);
    }
}

static void read_query(const struct attn_problem *p, const struct attn_operands *o, int64_t b,
                       int64_t h, int64_t i, const struct NAME(performer) * w)
{
    const int64_t m = attn_problem_extent(p, 'm');
    const REAL half = random_products(p, w, &o->q, attn_row_start(&o->q, b, h, i), w->phi_q);
    take_exponentials(p, w->phi_q, half, largest_exponent(p, -INFINITY, w->phi_q, half));
    const REAL whole = dot(w->phi_q, w->sum, m);
    memset(w->out, 0, (size_t)p->dv * sizeof(REAL));
    for (int64_t r = 0; r < m; r++)
        add_scaled(w->out, w->phi_q[r], w->state + r * p->dv, p->dv);
    for (int64_t d = 0; d < p->dv; d++)
        w->out[d] /= whole;
}

static void run_performer(const struct attn_problem *p, const struct attn_operands *o,
                          const struct NAME(performer) * w)
{
    const struct attn_tensor *out = &o->out;
    const int64_t m = attn_problem_extent(p, 'm');
    for (int64_t head = 0; head < p->b * p->hq; head++) {
        const int64_t b = head / p->hq, h = head % p->hq, g = h / (p->hq / p->hkv);
        const int64_t n = attn_keys_seen(p, &o->len, b, p->sq - 1).end;
        int64_t taken = 0;
        load_features(p, &o->features, h, w);
        make_keys(p, o, b, g, n, w);
        memset(w->state, 0, (size_t)(m * p->dv) * sizeof(REAL));
        memset(w->sum, 0, (size_t)m * sizeof(REAL));
        for (int64_t i = 0; i < p->sq; i++) {
            const int64_t end = attn_keys_seen(p, &o->len, b, i).end;
            for (; taken < end; taken++)
                add_key(p, o, b, g, taken, w);
            read_query(p, o, b, h, i, w);
            if (end == 0)
                memset(w->out, 0, (size_t)p->dv * sizeof(REAL));
            store(out, attn_row_start(out, b, h, i), out->stride[3], p->dv, w->out);
        }
    }
}
