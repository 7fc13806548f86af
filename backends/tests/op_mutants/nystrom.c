/* SPDX-License-Identifier: Apache-2.0 */
/* nystrom.c - attention through the means of segments, head by head. */
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "op_mutant.h"

/* One head: working memory and what it is made of. */
struct head {
    const struct attn_problem *p;
    const struct attn_operands *o;
    int64_t b, h, m;
    float *q, *k, *v;         /* [S,Dk], [S,Dk], [S,Dv] */
    float *q_mean, *k_mean;   /* [m,Dk] */
    float *a, *z, *x, *y, *t; /* [m,m] */
    float *s;                 /* [S] */
    float *gv, *zgv;          /* [m,Dv] */
};

static void load(const struct head *x, const struct attn_tensor *from, float *to)
{
    const int64_t width = from->shape[3];
    for (int64_t n = 0; n < x->p->sq * width; n++)
        to[n] = op_mutant_get(from, attn_row_start(from, x->b, x->h, n / width) +
                                        n % width * from->stride[3]);
}

static void average(const struct head *x, const float *rows, float *mean)
{
    const int64_t s = x->p->sq, width = x->p->dk;
    for (int64_t l = 0; l < x->m; l++) {
        const int64_t late = bug(nys_shifted);
        const int64_t begin = l * s / x->m + late, full = (l + 1) * s / x->m + late;
        const int64_t end = bug(nys_first_token)                      ? begin + 1
                            : bug(nys_last_token) && full > begin + 1 ? full - 1
                                                                      : full;
        const float count = (float)(end - begin + bug(nys_divisor));
        for (int64_t c = 0; c < width; c++) {
            float sum = 0;
            for (int64_t i = begin; i < end; i++)
                sum += rows[i % s * width + c];
            mean[l * width + c] = sum / count;
        }
    }
}

static void soften(float *s, int64_t n, int64_t step)
{
    float most = -INFINITY, sum = 0;
    for (int64_t j = 0; j < n; j++)
        most = s[j * step] > most || isnan(s[j * step]) ? s[j * step] : most;
    for (int64_t j = 0; j < n; j++)
        sum += s[j * step] = expf(s[j * step] - most);
    for (int64_t j = 0; j < n; j++)
        s[j * step] /= sum;
}

static void score(const struct head *x, const float *q, const float *keys, int64_t n, float *s)
{
    const float scale = (float)(bug(nys_scale_once) ? sqrt(x->p->scale) : x->p->scale);
    for (int64_t j = 0; j < n; j++) {
        float sum = 0;
        for (int64_t c = 0; c < x->p->dk; c++)
            sum += q[c] * keys[j * x->p->dk + c];
        s[j] = scale * sum;
    }
}

/* A of the head; returns its largest column sum. */
static float landmarks(const struct head *x)
{
    const int64_t m = x->m;
    float most = 0;
    load(x, &x->o->q, x->q);
    load(x, &x->o->k, x->k);
    average(x, x->q, x->q_mean);
    average(x, x->k, x->k_mean);
    for (int64_t i = 0; i < m; i++)
        score(x, x->q_mean + i * x->p->dk, x->k_mean, m, x->a + i * m);
    for (int64_t i = 0; i < m; i++)
        soften(bug(nys_axis) ? x->a + i : x->a + i * m, m, bug(nys_axis) ? m : 1);
    for (int64_t j = 0; j < m; j++) {
        float sum = 0;
        for (int64_t i = 0; i < m; i++)
            sum += bug(nys_start_rows) ? x->a[j * m + i] : x->a[i * m + j];
        most = sum > most || isnan(sum) ? sum : most;
    }
    return most;
}

static void multiply(const float *a, const float *b, int64_t rows, int64_t inner, int64_t width,
                     float *y)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t c = 0; c < width; c++) {
            float sum = 0;
            for (int64_t j = 0; j < inner; j++)
                sum += a[i * inner + j] * b[j * width + c];
            y[i * width + c] = sum;
        }
}

static void complement(float c, const float *x, int64_t m, float *t)
{
    for (int64_t n = 0; n < m * m; n++)
        t[n] = (n / m == n % m ? c : 0) - x[n];
}

static void invert(const struct head *x, float norm)
{
    const int64_t m = x->m;
    const int64_t steps = x->p->iterations + bug(nys_one_more) - bug(nys_one_less);
    const float second = bug(nys_constants) ? 13 : 15, third = bug(nys_constants) ? 15 : 13;
    for (int64_t n = 0; n < m * m; n++)
        x->z[n] = x->a[bug(nys_start_straight) ? n : n % m * m + n / m] / norm;
    for (int64_t n = 0; n < steps; n++) {
        multiply(x->a, x->z, m, m, m, x->x);
        complement(7, x->x, m, x->t);
        multiply(x->x, x->t, m, m, m, x->y);
        complement(second, x->y, m, x->t);
        multiply(x->x, x->t, m, m, m, x->y);
        complement(third, x->y, m, x->t);
        multiply(x->z, x->t, m, m, m, x->y);
        for (int64_t e = 0; e < m * m; e++)
            x->z[e] = bug(nys_inverse_bf16) ? op_mutant_bf16(x->y[e] / 4) : x->y[e] / 4;
    }
    if (bug(nys_no_inverse))
        memcpy(x->z, x->a, (size_t)(m * m) * sizeof(float));
}

static void put(const struct head *x, int64_t i, const float *w, int64_t n, const float *values)
{
    const struct attn_tensor *out = &x->o->out;
    for (int64_t d = 0; d < x->p->dv; d++) {
        float sum = 0;
        for (int64_t j = 0; j < n; j++)
            sum += w[j] * values[j * x->p->dv + d];
        op_mutant_put(out, attn_row_start(out, x->b, x->h, i) + d * out->stride[3], sum);
    }
}

/* The head whose A is there. */
static void compute(const struct head *x, float norm)
{
    const int64_t s = x->p->sq, m = x->m, dk = x->p->dk, dv = x->p->dv;
    load(x, &x->o->v, x->v);
    invert(x, norm);
    for (int64_t l = 0; l < m; l++) {
        score(x, x->q_mean + l * dk, x->k, s, x->s);
        soften(x->s, s, 1);
        multiply(x->s, x->v, 1, s, dv, x->gv + l * dv);
    }
    multiply(x->z, x->gv, m, m, dv, x->zgv);
    for (int64_t i = 0; i < s; i++) {
        const int64_t n = bug(nys_exact) ? s : m;
        score(x, x->q + i * dk, bug(nys_exact) ? x->k : x->k_mean, n, x->s);
        soften(x->s, n, 1);
        put(x, i, x->s, n, bug(nys_exact) ? x->v : x->zgv);
    }
}

static int64_t segments(const struct attn_problem *p)
{
    return p->landmarks < p->sq ? p->landmarks : p->sq;
}

static int64_t floats(const struct attn_problem *p)
{
    const int64_t m = segments(p);
    return p->sq * (2 * p->dk + p->dv + 1) + 2 * m * (p->dk + p->dv) + 5 * m * m;
}

static void run(const struct attn_problem *p, const struct attn_operands *o, float *memory)
{
    const int64_t m = segments(p), heads = p->b * p->hq;
    const bool all =
        (p->variant == ATTN_NYSTROM_BATCH || bug(nys_start_batch)) && !bug(nys_start_head);
    struct head x = {.p = p, .o = o, .m = m, .q = memory};
    float most = 0;
    x.k = x.q + p->sq * p->dk;
    x.v = x.k + p->sq * p->dk;
    x.s = x.v + p->sq * p->dv;
    x.q_mean = x.s + p->sq;
    x.k_mean = x.q_mean + m * p->dk;
    x.gv = x.k_mean + m * p->dk;
    x.zgv = x.gv + m * p->dv;
    x.a = x.zgv + m * p->dv;
    x.z = x.a + m * m;
    x.x = x.z + m * m;
    x.y = x.x + m * m;
    x.t = x.y + m * m;
    for (int64_t n = 0; all && n < heads; n++) {
        x.b = n / p->hq;
        x.h = n % p->hq;
        most = fmaxf(most, landmarks(&x));
    }
    for (int64_t n = 0; n < heads; n++) {
        x.b = n / p->hq;
        x.h = n % p->hq;
        const float norm = landmarks(&x);
        compute(&x, all ? most : norm);
    }
}

const struct op_mutant op_mutant_nystrom = {.op = ATTN_OP_NYSTROM, .floats = floats, .run = run};
