/* SPDX-License-Identifier: Apache-2.0 */
/* allowance.c - the error bound from norms alone. The letters are those of reference/BOUND.md. */
#include "judge/allowance.h"

#include <math.h>
#include <stdlib.h>

#include "reference/dtype.h"
#include "reference/operands.h"

/* What is kept of the score parameters of a head. */
enum { PARTS = 3 };

static const struct attn_tensor *find(const struct attn_allowance *a, uint32_t role)
{
    return attn_tensor_find(a->problem, role);
}

/* Euclidean norm, and largest magnitude, along the last axis of `width` elements. */
static double norm(const struct attn_tensor *tensor, const int64_t *at, int64_t width,
                   double *largest)
{
    const int64_t step = tensor->stride[tensor->rank - 1];
    int64_t index = 0;
    double sum = 0;
    for (uint32_t axis = 0; axis + 1 < tensor->rank; axis++)
        index += at[axis] * tensor->stride[axis];
    for (int64_t c = 0; c < width; c++) {
        const double value = attn_dtype_load(tensor->dtype, tensor->data, index + c * step);
        sum += value * value;
        *largest = fmax(*largest, fabs(value));
    }
    return sqrt(sum);
}

static double length(const struct attn_tensor *tensor, const int64_t *at, int64_t width)
{
    double largest = 0;
    return norm(tensor, at, width, &largest);
}

static void measure_heads(struct attn_allowance *a)
{
    const struct attn_problem *p = a->problem;
    const struct attn_tensor *k = find(a, ATTN_K), *v = find(a, ATTN_V);
    const double factor = p->flags & ATTN_FLAG_DROPOUT ? 1 / (1 - p->dropout_p) : 1;
    for (int64_t b = 0; b < p->b; b++)
        for (int64_t g = 0; g < p->hkv; g++) {
            double longest = 0, largest = 0;
            for (int64_t j = 0; j < p->sk; j++) {
                longest = fmax(longest, length(k, (int64_t[ATTN_MAX_RANK]){b, g, j}, p->dk));
                norm(v, (int64_t[ATTN_MAX_RANK]){b, g, j}, p->dv, &largest);
            }
            a->keys[b * p->hkv + g] = longest;
            a->values[b * p->hkv + g] = factor * largest;
        }
}

/* bilinear: |M| (Frobenius). additive: sums over hidden units of |w|, |w||W_q|, |w||W_k|. */
static void measure_scores(struct attn_allowance *a)
{
    const struct attn_problem *p = a->problem;
    const struct attn_tensor *m = find(a, ATTN_SCORE_M), *w_v = find(a, ATTN_SCORE_WV);
    const struct attn_tensor *w_q = find(a, ATTN_SCORE_WQ), *w_k = find(a, ATTN_SCORE_WK);
    for (int64_t h = 0; h < p->hq; h++) {
        double *part = a->scores + PARTS * h;
        for (int64_t c = 0; m && c < p->dq; c++)
            part[0] = hypot(part[0], length(m, (int64_t[ATTN_MAX_RANK]){h, c}, p->dk));
        for (int64_t unit = 0; w_v && unit < p->dh; unit++) {
            const double w = fabs(ref_load(w_v, (int64_t[]){h, unit}));
            part[0] += w;
            part[1] += w * length(w_q, (int64_t[ATTN_MAX_RANK]){h, unit}, p->dq);
            part[2] += w * length(w_k, (int64_t[ATTN_MAX_RANK]){h, unit}, p->dk);
        }
    }
}

static void measure_bias(struct attn_allowance *a)
{
    const struct attn_tensor *bias = find(a, ATTN_BIAS);
    int64_t shape[4];
    for (int axis = 0; bias && axis < 4; axis++)
        shape[axis] = bias->stride[axis] ? bias->shape[axis] : 1;
    for (int64_t b = 0; bias && b < shape[0]; b++)
        for (int64_t h = 0; h < shape[1]; h++)
            for (int64_t i = 0; i < shape[2]; i++)
                for (int64_t j = 0; j < shape[3]; j++)
                    a->bias = fmax(a->bias, fabs(ref_load(bias, (int64_t[]){b, h, i, j})));
}

int attn_allowance_create(const struct attn_instance *instance,
                          const struct attn_numerics *numerics, enum ref_fill_kind kind,
                          bool constant, struct attn_allowance *a)
{
    const struct attn_problem *p = &instance->problem;
    *a = (struct attn_allowance){.problem = p, .constant = constant};
    ref_arithmetic_init(&a->arithmetic, p, numerics, kind);
    a->keys = calloc((size_t)(p->b * p->hkv), sizeof *a->keys);
    a->values = calloc((size_t)(p->b * p->hkv), sizeof *a->values);
    a->scores = calloc((size_t)p->hq, PARTS * sizeof *a->scores);
    if (!a->keys || !a->values || !a->scores) {
        attn_allowance_free(a);
        return -1;
    }
    measure_heads(a);
    measure_scores(a);
    measure_bias(a);
    return 0;
}

void attn_allowance_free(struct attn_allowance *a)
{
    free(a->keys);
    free(a->values);
    free(a->scores);
    *a = (struct attn_allowance){0};
}

/* The largest |raw score| of a row, and ds of it, before the scale. */
static double raw_score(const struct attn_allowance *a, int64_t h, double q, double k, double *ds)
{
    const struct attn_problem *p = a->problem;
    const struct ref_arithmetic *x = &a->arithmetic;
    const double *part = a->scores + PARTS * h;
    const double dq = (double)p->dq, dk = (double)p->dk, dh = (double)p->dh;
    const double q1 = sqrt(dq) * q, k1 = sqrt(dk) * k; /* sums of magnitudes */
    switch (p->score) {
    case ATTN_SCORE_BILINEAR: {
        const double most = q * part[0] * k;
        *ds =
            (ref_growth(x, dq + dk + 3) + 2 * x->u_in) * most +
            x->omega * (dk + sqrt(dk) * q * part[0] + (1 + dq + q1) * k1 + sqrt(dq) * part[0] * k);
        return most;
    }
    case ATTN_SCORE_GAUSSIAN: {
        const double most = 0.5 * (q + k) * (q + k);
        *ds = (ref_growth(x, dk + 5) + 2 * x->u_in) * most + x->omega * (3 * dk + 2 * (q1 + k1));
        return most;
    }
    case ATTN_SCORE_ADDITIVE: {
        const double g = ref_growth(x, dh + 3) + 2 * x->u_in;
        const double inner = ref_growth(x, dq + dk + 1) + 2 * x->u_in;
        const double lost = x->omega * (dq + dk + q1 + k1);
        const double e = inner * (part[1] * q + part[2] * k) + (lost + x->e_tanh) * part[0] +
                         x->omega * (sqrt(dq) * part[1] + sqrt(dk) * part[2]);
        *ds = e + g * (part[0] + e) + x->omega * (2 * dh + part[0]);
        return part[0];
    }
    default:
        *ds = (ref_growth(x, dk + 3) + 2 * x->u_in) * q * k + x->omega * (dk + q1 + k1);
        return q * k;
    }
}

/* W, and the largest |score| of the row, sink included. */
static double exponent_error(const struct attn_allowance *a, int64_t b, int64_t h, int64_t i,
                             double *most)
{
    const struct attn_problem *p = a->problem;
    const struct ref_arithmetic *x = &a->arithmetic;
    const struct attn_tensor *alibi = find(a, ATTN_ALIBI), *sink = find(a, ATTN_SINK);
    const double q = length(find(a, ATTN_Q), (int64_t[ATTN_MAX_RANK]){b, h, i}, p->dq);
    double ds,
        s = fabs(p->scale) * raw_score(a, h, q, a->keys[b * p->hkv + h / (p->hq / p->hkv)], &ds);
    ds *= fabs(p->scale);
    const double raw = s;
    if (p->flags & ATTN_FLAG_SOFTCAP) {
        s = fmin(s, p->softcap);
        ds = fmin(ds, 2 * p->softcap) + (3 * x->u + x->e_tanh) * s + x->omega;
    }
    double bias = a->bias;
    if (alibi) {
        struct ref_operands operands;
        ref_operands_init(&operands, p);
        const double diagonal = (double)(i + ref_offset(&operands, b));
        bias +=
            fabs(ref_load(alibi, &h)) * fmax(fabs(diagonal), fabs(diagonal - (double)(p->sk - 1)));
    }
    ds += x->u_s * fmax(raw, s + bias) + 3 * x->u * bias;
    const double logit = sink ? fabs(ref_load(sink, &h)) : 0;
    ds = fmax(ds, 3 * x->u * logit);
    const double apart = fmax(2 * (s + bias), s + bias + logit);
    double w = ds + (1 + x->tiles) * x->e_exp + (3 * x->u + x->e_arg) * fmax(apart, x->tau);
    *most = fmax(s + bias, logit);
    if (x->splits > 0)
        w += 4 * x->u * (*most + log((double)p->sk + 1));
    return w;
}

void attn_allowance_row(const struct attn_allowance *a, int64_t b, int64_t h, int64_t i,
                        double *out, double *lse)
{
    const struct attn_problem *p = a->problem;
    const struct ref_arithmetic *x = &a->arithmetic;
    const double n = (double)p->sk + 1; /* the sink among them */
    double m, w = exponent_error(a, b, h, i, &m);
    const double v = a->values[b * p->hkv + h / (p->hq / p->hkv)];
    double chain = x->chain > 0 ? x->chain : n + x->tiles + x->splits;
    if (x->copies > 1)
        chain = fmax(chain, n + 1);
    const double upper = exp(2 * w), stored = x->u_p > 0 ? x->u_p * upper + n * x->eta_p : 0;
    const double e1 = a->constant ? 0 : 2 * v * expm1(w) * exp(w);
    double e = e1 + ref_growth(x, chain + 1) * v * upper +
               (ref_growth(x, chain) + 3 * x->u) * (v + e1) + 2 * v * stored * (1 + x->u_p) +
               2 * x->omega * (n * v + chain);
    if (p->flags & ATTN_FLAG_DROPOUT)
        e += 2 * x->u * v * upper;
    *out = x->copies * e;
    const double l = log(n);
    *lse = x->copies *
           (w + ref_growth(x, chain) + x->u * (3 * (m + x->tau) + 2 * (l + x->tau) + m + l) +
            x->e_log * (l + x->tau) + stored);
}
