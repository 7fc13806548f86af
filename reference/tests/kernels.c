/* SPDX-License-Identifier: Apache-2.0 */
/* kernels.c - attention with every operation rounded to a declared type. */
#include "reference/tests/kernels.h"

#include <math.h>
#include <stdlib.h>

#include "reference/dtype.h"
#include "reference/philox.h"
#include "reference/reference.h"

static double to_type(uint32_t type, double x)
{
    double bits;

    attn_dtype_store(type, &bits, 0, x);
    return attn_dtype_load(type, &bits, 0);
}

/* One operation of the kernel: the exact result (a double is wide enough for one operation on
 * narrower numbers) rounded to the accumulation type. */
static double r(const struct kernel *k, double x)
{
    double y = to_type(k->acc, x);

    if (k->truncates && fabs(y) > fabs(x))
        y = (double)nextafterf((float)y, 0.0f);
    return y;
}

struct attn_numerics kernel_numerics(const struct kernel *k)
{
    /* exp, tanh and log below are a double's, rounded once. */
    double u = attn_dtype_roundoff(k->acc) * (k->truncates ? 2.0 : 1.0);

    return (struct attn_numerics){.struct_size = sizeof(struct attn_numerics),
                                  .acc_type = k->acc,
                                  .score_type = k->score_type,
                                  .p_type = k->p_type,
                                  .p_normalised = k->normalised,
                                  .denominator = k->sums_stored ? 2 : 1,
                                  .acc_toward_zero = k->truncates,
                                  .gaussian_by_norms = k->by_norms,
                                  .key_tile = k->tile,
                                  .splits = k->splits,
                                  .e_exp = 1.001 * u,
                                  .e_tanh = 1.001 * u,
                                  .e_log = 1.001 * u,
                                  .tau = k->tau,
                                  .partial_type = k->partial,
                                  .partial_terms = k->terms,
                                  .score_stores = k->stores && !k->silent ? 7 : 0,
                                  .alibi_by_key = k->by_key && !k->silent,
                                  .p_stochastic = k->stochastic && !k->silent,
                                  .u_pv = k->tf32_pv && !k->silent ? 0x1p-11 : 0.0};
}

/* A step of a score, as it is stored. */
static double stored_step(const struct kernel *k, double x)
{
    return k->stores ? to_type(k->score_type, x) : x;
}

/* Rounds to the 11 bits of tf32. */
static double tf32(const struct kernel *k, double x)
{
    int e;
    double m = frexp(x, &e);

    return k->tf32_pv ? ldexp(rint(ldexp(m, 11)), e - 11) : x;
}

static double stored_p(const struct kernel *k, double p)
{
    static uint64_t state = 1;
    double ulp = k->stochastic ? attn_dtype_ulp(k->p_type, p) : 0.0, down;

    if (!k->stochastic)
        return to_type(k->p_type ? k->p_type : k->acc, p);
    down = floor(p / ulp) * ulp;
    return made_uniform(&state) < (p - down) / ulp ? down + ulp : down;
}

/* Operands of one head, as doubles that the kernel's types can hold. */
struct head {
    const struct attn_problem *problem;
    int64_t h;
    double *q, *k, *v; /* [Sq,Dq] [Sk,Dk] [Sk,Dv] */
};

static double dot(const struct kernel *k, const double *a, const double *b, int64_t n)
{
    double s = 0.0;

    for (int64_t c = 0; c < n; c++)
        s = r(k, s + r(k, a[c] * b[c]));
    return s;
}

/* One step of a partial sum. */
static double fused(const struct kernel *k, double s, double a, double b)
{
    return to_type(k->partial, s + a * b);
}

/* A dot product that may go through partial sums. */
static double product(const struct kernel *k, const double *a, const double *b, int64_t n)
{
    double s = 0.0;

    if (!k->partial)
        return dot(k, a, b, n);
    for (int64_t from = 0; from < n; from += k->terms) {
        double part = 0.0;
        for (int64_t c = from; c < n && c < from + k->terms; c++)
            part = fused(k, part, a[c], b[c]);
        s = r(k, s + part);
    }
    return s;
}

static void load_row(const struct attn_problem *p, uint32_t role, int64_t row, int64_t n,
                     double *out)
{
    const struct attn_tensor *t = attn_tensor_find(p, role);

    for (int64_t c = 0; c < n; c++)
        out[c] = made_get(t, row * n + c);
}

static double additive(const struct kernel *k, const struct head *x, const double *q,
                       const double *key)
{
    const struct attn_problem *p = x->problem;
    double s = 0.0, w[64];

    for (int64_t unit = 0; unit < p->dh; unit++) {
        double z, t;
        load_row(p, ATTN_SCORE_WQ, x->h * p->dh + unit, p->dq, w);
        z = dot(k, w, q, p->dq);
        load_row(p, ATTN_SCORE_WK, x->h * p->dh + unit, p->dk, w);
        t = r(k, tanh(r(k, z + dot(k, w, key, p->dk))));
        load_row(p, ATTN_SCORE_WV, x->h, p->dh, w);
        s = r(k, s + r(k, w[unit] * t));
    }
    return s;
}

/* A part of a disentangled score: x with row `row` of a table of positions, stored by itself. */
static double positioned(const struct kernel *k, const struct head *x, uint32_t role, int64_t row,
                         const double *a)
{
    const struct attn_problem *p = x->problem;
    double w[64];

    load_row(p, role, x->h * attn_tensor_find(p, role)->shape[1] + row, p->dk, w);
    return to_type(k->score_type ? k->score_type : k->acc, product(k, a, w, p->dk));
}

/* Without a table of distances. */
static double disentangled(const struct kernel *k, const struct head *x, int64_t i, int64_t j)
{
    const struct attn_problem *p = x->problem;
    const int64_t rows = attn_tensor_find(p, ATTN_SCORE_KR)->shape[1], far = i + p->off - j;
    const int64_t d = (int64_t)fmin(fmax((double)(far + rows / 2), 0.0), (double)(rows - 1));
    const int64_t t = (int64_t)fmin(fmax((double)(rows / 2 - far), 0.0), (double)(rows - 1));
    const double *q = x->q + i * p->dq, *key = x->k + j * p->dk;
    double s = to_type(k->score_type ? k->score_type : k->acc, product(k, q, key, p->dk));

    if (p->parts != ATTN_PARTS_P2C)
        s = r(k, s + positioned(k, x, ATTN_SCORE_KR, d, q));
    if (p->parts != ATTN_PARTS_C2P)
        s = r(k,
              s + positioned(k, x, ATTN_SCORE_QR, p->variant == ATTN_POSITIONS_PAPER ? t : d, key));
    return s;
}

static double raw_score(const struct kernel *k, const struct head *x, const double *q,
                        const double *key)
{
    const struct attn_problem *p = x->problem;
    double w[64], t[64], s = 0.0;

    switch (p->score) {
    case ATTN_SCORE_ADDITIVE:
        return additive(k, x, q, key);
    case ATTN_SCORE_BILINEAR:
        for (int64_t c = 0; c < p->dq; c++) {
            load_row(p, ATTN_SCORE_M, x->h * p->dq + c, p->dk, w);
            t[c] = dot(k, w, key, p->dk);
        }
        return product(k, q, t, p->dq);
    case ATTN_SCORE_GAUSSIAN:
        if (k->by_norms)
            return r(k,
                     -0.5 * r(k, r(k, dot(k, q, q, p->dk) - r(k, 2.0 * product(k, q, key, p->dk))) +
                                     dot(k, key, key, p->dk)));
        for (int64_t c = 0; c < p->dk; c++) {
            double d = r(k, q[c] - key[c]);
            s = r(k, s + r(k, d * d));
        }
        return r(k, -0.5 * s);
    default:
        return product(k, q, key, p->dk);
    }
}

static double full_score(const struct kernel *k, const struct head *x, int64_t i, int64_t j)
{
    const struct attn_problem *p = x->problem;
    const struct attn_tensor *bias = attn_tensor_find(p, ATTN_BIAS);
    const struct attn_tensor *alibi = attn_tensor_find(p, ATTN_ALIBI);
    double scale = r(k, p->scale * (k->bug == BUG_SCALE ? 1.02 : 1.0));
    const bool placed = p->score == ATTN_SCORE_DISENTANGLED;
    double s =
        placed ? disentangled(k, x, i, j) : raw_score(k, x, x->q + i * p->dq, x->k + j * p->dk);

    s = stored_step(k, r(k, scale * stored_step(k, s)));
    if (p->flags & ATTN_FLAG_SOFTCAP) {
        s = stored_step(k, r(k, tanh(stored_step(k, r(k, s / p->softcap)))));
        s = stored_step(k, r(k, p->softcap * s));
    }
    if (bias)
        s = stored_step(k, r(k, s + made_get(bias, (x->h * p->sq + i) * p->sk + j)));
    if (alibi) {
        double far = k->by_key ? -(double)j : fabs((double)(i + p->off - j));
        double slope = stored_step(k, r(k, made_get(alibi, x->h)));
        s = r(k, s - stored_step(k, r(k, slope * stored_step(k, far))));
    }
    return to_type(k->score_type ? k->score_type : k->acc, s);
}

static double kept(const struct attn_problem *p, int64_t cell)
{
    const struct attn_tensor *keep = attn_tensor_find(p, ATTN_KEEP);

    if (!(p->flags & ATTN_FLAG_DROPOUT))
        return 1.0;
    return keep ? made_get(keep, cell)
                : attn_dropout_keep(p->dropout_seed, (uint64_t)cell, p->dropout_p);
}

/* A running softmax over some of the keys. */
struct running {
    double max, sum, out[64];
};

/* A partial sum of every column joins the sums, and begins anew. */
static void join(const struct kernel *k, int64_t width, double *part, struct running *run)
{
    for (int64_t c = 0; c < width; c++) {
        run->out[c] = r(k, run->out[c] + part[c]);
        part[c] = 0.0;
    }
}

/* One tile: the maximum moves (unless it lags by less than tau), old sums are rescaled, then the
 * keys of the tile are added. `total`: divide by this before p is stored; 0: do not. */
static void add_tile(const struct kernel *k, const struct head *x, int64_t i, int64_t begin,
                     int64_t end, const double *s, double total, struct running *run)
{
    const struct attn_problem *p = x->problem;
    double max = run->max, part[64] = {0};
    uint32_t held = 0; /* terms of part */

    for (int64_t j = begin; j < end; j++)
        max = fmax(max, s[j]);
    if (max > run->max + k->tau) {
        double factor = run->max == -INFINITY ? 0.0 : r(k, exp(r(k, run->max - max)));
        run->sum = r(k, run->sum * factor);
        for (int64_t c = 0; c < p->dv; c++)
            run->out[c] = r(k, run->out[c] * factor);
        run->max = max;
    }
    for (int64_t j = begin; j < end; j++) {
        double e, stored;
        if (s[j] == -INFINITY)
            continue;
        e = r(k, exp(r(k, s[j] - run->max)));
        stored = stored_p(k, total > 0.0 ? r(k, e / total) : e);
        run->sum = r(k, run->sum + (k->sums_stored ? stored : e));
        if (kept(p, (x->h * p->sq + i) * p->sk + j) == 0.0)
            continue;
        if (p->flags & ATTN_FLAG_DROPOUT)
            stored = r(k, stored * r(k, 1.0 / r(k, 1.0 - p->dropout_p)));
        for (int64_t c = 0; c < p->dv; c++)
            if (k->partial)
                part[c] = fused(k, part[c], stored, x->v[j * p->dv + c]);
            else
                run->out[c] =
                    r(k, run->out[c] + r(k, tf32(k, stored) * tf32(k, x->v[j * p->dv + c])));
        if (k->partial && ++held == k->terms) {
            join(k, p->dv, part, run);
            held = 0;
        }
    }
    if (held > 0)
        join(k, p->dv, part, run);
}

/* Keys [begin, end) in tiles, from a maximum that is known already, or -inf. */
static struct running run_range(const struct kernel *k, const struct head *x, int64_t i,
                                int64_t begin, int64_t end, const double *s, double max,
                                double total)
{
    struct running run = {.max = max};
    int64_t tile = k->tile ? k->tile : end - begin;

    for (int64_t from = begin; from < end; from += tile)
        add_tile(k, x, i, from, from + tile < end ? from + tile : end, s, total, &run);
    return run;
}

/* The sink joins the denominator at the end, moving the maximum if it is above. */
static void add_sink(const struct kernel *k, const struct head *x, struct running *run)
{
    const struct attn_tensor *sink = attn_tensor_find(x->problem, ATTN_SINK);
    double s, factor;

    if (!sink)
        return;
    s = r(k, made_get(sink, x->h));
    if (s > run->max) {
        factor = run->max == -INFINITY ? 0.0 : r(k, exp(r(k, run->max - s)));
        run->sum = r(k, run->sum * factor);
        for (int64_t c = 0; c < x->problem->dv; c++)
            run->out[c] = r(k, run->out[c] * factor);
        run->max = s;
    }
    run->sum = r(k, run->sum + r(k, exp(r(k, s - run->max))));
}

/* Splits, each divided by its own sum, weighted by exp(lse_split - lse). */
static void merge_splits(const struct kernel *k, const struct head *x, int64_t i, const double *s,
                         struct running *whole)
{
    const struct attn_problem *p = x->problem;
    int64_t size = (p->sk + k->splits - 1) / k->splits;
    double lse[16] = {0}, out[16][64] = {{0}}, top = -INFINITY, sum = 0.0;

    for (int64_t t = 0; t < k->splits; t++) {
        int64_t begin = t * size < p->sk ? t * size : p->sk;
        int64_t end = begin + size < p->sk ? begin + size : p->sk;
        struct running run = run_range(k, x, i, begin, end, s, -INFINITY, 0.0);
        lse[t] = run.sum > 0.0 ? r(k, run.max + r(k, log(run.sum))) : -INFINITY;
        for (int64_t c = 0; c < p->dv; c++)
            out[t][c] = run.sum > 0.0 ? r(k, run.out[c] / run.sum) : 0.0;
        top = fmax(top, lse[t]);
    }
    *whole = (struct running){.max = top};
    for (int64_t t = 0; t < k->splits; t++)
        if (lse[t] > -INFINITY) {
            double weight = r(k, exp(r(k, lse[t] - top)));
            sum = r(k, sum + weight);
            for (int64_t c = 0; c < p->dv; c++)
                whole->out[c] = r(k, whole->out[c] + r(k, weight * out[t][c]));
        }
    whole->sum = sum;
}

static void run_row(const struct kernel *k, const struct head *x, int64_t i, double *out,
                    double *lse, double *weights)
{
    const struct attn_problem *p = x->problem;
    double s[KERNEL_KEYS] = {0}, total = 0.0;
    struct running run;

    for (int64_t j = 0; j < p->sk; j++)
        s[j] = ref_allowed(p, 0, x->h, i, j) && !(k->bug == BUG_KEY && j == p->sk / 2)
                   ? full_score(k, x, i, j)
                   : -INFINITY;
    run = run_range(k, x, i, 0, p->sk, s, -INFINITY, 0.0);
    add_sink(k, x, &run);
    if (run.sum == 0.0) {
        for (int64_t c = 0; c < p->dv; c++)
            out[c] = 0.0;
        *lse = -INFINITY;
        return;
    }
    *lse = r(k, run.max + r(k, log(run.sum)));
    if (k->by_key)
        *lse = r(k, *lse - r(k, r(k, made_get(attn_tensor_find(p, ATTN_ALIBI), x->h)) *
                                    (double)(i + p->off)));
    for (int64_t j = 0; j < p->sk; j++)
        weights[j] = s[j] == -INFINITY ? 0.0 : r(k, r(k, exp(r(k, s[j] - run.max))) / run.sum);
    if (k->normalised) {
        total = run.sum;
        run = run_range(k, x, i, 0, p->sk, s, run.max, total);
    } else if (k->splits) {
        merge_splits(k, x, i, s, &run);
    }
    for (int64_t c = 0; c < p->dv; c++)
        out[c] = k->normalised ? run.out[c] : r(k, run.out[c] / run.sum);
}

static double *doubles(int64_t count)
{
    double *array = calloc((size_t)count + 1, sizeof(double));

    if (!array)
        abort();
    return array;
}

/* [rows, width] of x w^T + bias, rows `first` on of the weight, stored in the problem's type. */
static void project(const struct kernel *k, const struct attn_problem *p, const double *x,
                    int64_t rows, int64_t in, uint32_t weight, uint32_t bias_role, int64_t first,
                    int64_t width, double *y)
{
    const struct attn_tensor *bias = attn_tensor_find(p, bias_role);
    double *w = doubles(in);

    for (int64_t c = 0; c < width; c++) {
        load_row(p, weight, first + c, in, w);
        for (int64_t i = 0; i < rows; i++) {
            double s = dot(k, x + i * in, w, in);
            y[i * width + c] = to_type(p->dtype, bias ? r(k, s + made_get(bias, first + c)) : s);
        }
    }
    free(w);
}

static double *load_tensor(const struct attn_problem *p, uint32_t role, uint32_t fallback,
                           int64_t *width)
{
    const struct attn_tensor *t = attn_tensor_find(p, role);
    double *x;

    if (!t)
        t = attn_tensor_find(p, fallback);
    x = doubles(made_count(t));
    for (int64_t c = 0; c < made_count(t); c++)
        x[c] = made_get(t, c);
    *width = t->shape[t->rank - 1];
    return x;
}

static void load_head(const struct kernel *k, const struct attn_problem *p, struct head *x)
{
    int64_t g = x->h / (p->hq / p->hkv), in;
    static const uint32_t from[3][4] = {{ATTN_X_Q, ATTN_X_Q, ATTN_W_Q, ATTN_B_Q},
                                        {ATTN_X_K, ATTN_X_Q, ATTN_W_K, ATTN_B_K},
                                        {ATTN_X_V, ATTN_X_K, ATTN_W_V, ATTN_B_V}};
    double *to[] = {x->q, x->k, x->v};
    int64_t rows[] = {p->sq, p->sk, p->sk}, width[] = {p->dq, p->dk, p->dv};
    int64_t head[] = {x->h, g, g};

    for (int t = 0; t < 3; t++) {
        if (p->op == ATTN_OP_MHA) {
            uint32_t fallback = attn_tensor_find(p, from[t][1]) ? from[t][1] : ATTN_X_Q;
            double *values = load_tensor(p, from[t][0], fallback, &in);
            project(k, p, values, rows[t], in, from[t][2], from[t][3], head[t] * width[t], width[t],
                    to[t]);
            free(values);
            continue;
        }
        load_row(p, (uint32_t)(ATTN_Q + t), head[t], rows[t] * width[t], to[t]);
    }
}

static void finish_mha(const struct kernel *k, const struct attn_problem *p, double *heads,
                       double *out)
{
    const struct attn_tensor *x_q = attn_tensor_find(p, ATTN_X_Q);
    int64_t in = p->hq * p->dv, width = ref_output_width(p, 0);

    if (attn_tensor_find(p, ATTN_W_O)) {
        for (int64_t x = 0; x < p->sq * in; x++)
            heads[x] = to_type(p->dtype, heads[x]);
        project(k, p, heads, p->sq, in, ATTN_W_O, ATTN_B_O, 0, width, out);
    } else {
        for (int64_t x = 0; x < p->sq * in; x++)
            out[x] = to_type(p->dtype, heads[x]);
    }
    for (int64_t x = 0; p->flags & ATTN_FLAG_RESIDUAL && x < p->sq * width; x++)
        out[x] = r(k, out[x] + made_get(x_q, x));
}

void kernel_run(const struct kernel *k, struct made *m, double *out, double *lse, double *weights)
{
    const struct attn_problem *p = &m->problem;
    bool mha = p->op == ATTN_OP_MHA;
    struct head x = {p, 0, doubles(p->sq * p->dq), doubles(p->sk * p->dk), doubles(p->sk * p->dv)};
    double *heads = doubles(p->sq * p->hq * p->dv), *row = doubles(p->dv);

    for (x.h = 0; x.h < p->hq; x.h++) {
        load_head(k, p, &x);
        for (int64_t i = 0; i < p->sq; i++) {
            int64_t at = x.h * p->sq + i;
            double *to = mha ? heads + (i * p->hq + x.h) * p->dv : out + at * p->dv;
            run_row(k, &x, i, row, lse + at, weights + at * p->sk);
            for (int64_t c = 0; c < p->dv; c++)
                to[c] = row[c];
        }
    }
    if (mha)
        finish_mha(k, p, heads, out);
    for (int64_t c = 0; c < ref_output_units(p, 0) * ref_output_width(p, 0); c++)
        out[c] = to_type(p->dtype, out[c] * (k->bug == BUG_OUTPUT ? 1.05 : 1.0));
    free(x.q);
    free(x.k);
    free(x.v);
    free(heads);
    free(row);
}
