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

/* A score as norms bound it: |s|, ds, the sum of absolute terms, and underflows in units of omega.
 */
struct score_norm {
    double most, ds, size, lost;
};

/* Partial sums on top of both: see flush_partial of reference/score_error.c. */
static void add_partial(const struct ref_arithmetic *x, double growth, double products,
                        struct score_norm *s)
{
    const double g = ref_growth_partial(x, growth);
    s->ds = g * s->most;
    if (x->partial > 0)
        s->lost += (1 + g) * (x->partial_omega / x->omega) * (x->ftz ? s->lost : products);
}

/* Of the raw score of any key of a row whose query has the length q; no key is longer than k. */
static struct score_norm raw_score(const struct attn_allowance *a, int64_t h, double q, double k)
{
    const struct attn_problem *p = a->problem;
    const struct ref_arithmetic *x = &a->arithmetic;
    const double *part = a->scores + PARTS * h;
    const double dq = (double)p->dq, dk = (double)p->dk, dh = (double)p->dh;
    const double q1 = sqrt(dq) * q, k1 = sqrt(dk) * k; /* sums of magnitudes */
    struct score_norm s = {.most = q * k};
    switch (p->score) {
    case ATTN_SCORE_BILINEAR:
        s.most = q * part[0] * k;
        s.lost = 2 * dk + sqrt(dk) * q * part[0] + (1 + 2 * dq + q1) * k1 + sqrt(dq) * part[0] * k;
        add_partial(x, ref_growth_rounded(x, dq + dk + 3), fmax(dq, dk), &s);
        break;
    case ATTN_SCORE_GAUSSIAN:
        s.most = 0.5 * (q + k) * (q + k);
        s.lost = 4 * dk + 4 + 2 * (q1 + k1);
        add_partial(x, ref_growth_rounded(x, dk + 5), 2 * dk, &s);
        break;
    case ATTN_SCORE_ADDITIVE: {
        const double inner = ref_growth_rounded(x, dq + dk + 1);
        const double lost =
            (2 * (dq + dk) + q1 + k1) * part[0] + sqrt(dq) * part[1] + sqrt(dk) * part[2];
        double e = inner * (part[1] * q + part[2] * k) + x->omega * lost;
        s.most = part[0];
        e += x->e_tanh * (s.most + e);
        s.ds = e + ref_growth_rounded(x, dh + 3) * (s.most + e);
        s.size = e;
        s.lost = 3 * dh + s.most;
        break;
    }
    default:
        s.lost = 2 * dk + q1 + k1;
        add_partial(x, ref_growth_rounded(x, dk + 3), dk, &s);
    }
    s.size += 2 * s.most;
    return s;
}

/* Scale, softcap and bias on top. */
static struct score_norm full_score(const struct attn_allowance *a, int64_t b, int64_t h, int64_t i)
{
    const struct attn_problem *p = a->problem;
    const struct ref_arithmetic *x = &a->arithmetic;
    const struct attn_tensor *alibi = find(a, ATTN_ALIBI);
    const double q = length(find(a, ATTN_Q), (int64_t[ATTN_MAX_RANK]){b, h, i}, p->dq);
    const double scale = fabs(p->scale), four = ref_growth(x, 4);
    const double added = (find(a, ATTN_BIAS) ? 1 : 0) + (alibi ? 1 : 0);
    struct score_norm s = raw_score(a, h, q, a->keys[b * p->hkv + h / (p->hq / p->hkv)]);
    double bias = a->bias, after = added;
    s.ds = scale * s.ds + x->omega * (fmax(1, scale) * s.lost + s.size + 4);
    s.most *= scale;
    if (p->flags & ATTN_FLAG_SOFTCAP) {
        s.most = fmin(s.most, p->softcap);
        s.ds = fmin(s.ds, 2 * p->softcap);
        s.ds += (four + x->e_tanh * (1 + four)) * (s.most + s.ds) + x->omega * (2 + 2 * p->softcap);
        after++;
    }
    s.ds += ref_growth(x, after) * (s.most + s.ds) + ref_growth(x, added + 2) * bias;
    if (alibi) {
        struct ref_operands operands;
        ref_operands_init(&operands, p);
        const double diagonal = (double)(i + ref_offset(&operands, b));
        const double far = fmax(fabs(diagonal), fabs(diagonal - (double)(p->sk - 1)));
        s.ds += ref_growth(x, added + 4) * fabs(ref_load(alibi, &h)) * far;
        bias += fabs(ref_load(alibi, &h)) * far;
    }
    s.most += bias;
    s.ds += x->u_s * (s.most + s.ds) + x->eta_s;
    return s;
}

/* W: no p is off by more than a factor exp(W), either way. *most: the largest |score| of the row,
 * the sink's included. *rise: how far a computed maximum may be above the true one. */
static double exponent_error(const struct attn_allowance *a, int64_t b, int64_t h, int64_t i,
                             double *most, double *rise)
{
    const struct ref_arithmetic *x = &a->arithmetic;
    const struct attn_tensor *sink = find(a, ATTN_SINK);
    const struct score_norm s = full_score(a, b, h, i);
    const double logit = sink ? fabs(ref_load(sink, &h)) : 0, ds = fmax(s.ds, x->three * logit);
    const double apart = fmax(2 * s.most, s.most + logit) + 2 * (ds + x->tau);
    double shift = ds + x->three * apart, relative = (1 + x->tiles) * x->e_exp + x->e_arg * apart;
    *most = fmax(s.most, logit);
    *rise = ds;
    if (x->splits > 0) {
        const double log_n = log((double)a->problem->sk + 1), far = apart + log_n;
        shift += 4 * x->u_op * (*most + log_n + 2 * ds) +
                 (2 * x->u_op + x->e_log) * (log_n + x->tau) + x->three * far;
        relative += x->e_exp + x->e_arg * far;
    }
    return relative < 1 ? shift - log1p(-relative) : INFINITY;
}

void attn_allowance_row(const struct attn_allowance *a, int64_t b, int64_t h, int64_t i,
                        double *out, double *lse)
{
    const struct attn_problem *p = a->problem;
    const struct ref_arithmetic *x = &a->arithmetic;
    double m, rise, w = exponent_error(a, b, h, i, &m, &rise);
    const double v = a->values[b * p->hkv + h / (p->hq / p->hkv)], upper = exp(2 * w);
    const double n = (double)p->sk + 1, log_n = log(n); /* the sink among them */
    const struct ref_softmax row = {.n = p->sk,
                                    .sink = true,
                                    .lse = m + log_n,
                                    .dropout = p->flags & ATTN_FLAG_DROPOUT,
                                    .dropout_p = p->dropout_p};
    struct ref_row_bound bound = {0};
    ref_bound_roundings(x, &row, &bound);
    const double underflow = 2 * x->omega * exp(w);
    const double stored = x->u_p > 0 ? x->u_p * upper + n * x->eta_p * exp(w) : 0;
    const double quotient = bound.quotient + underflow * bound.chain;
    const double product = ref_growth_partial(x, bound.product);
    const double kept = product + bound.dropout * (1 + product);
    const double keys = row.dropout ? n / (1 - row.dropout_p) : n;
    const double partial =
        x->partial_omega * exp(w) * (1 + product) * (x->ftz ? 3 * keys + n * v : keys);
    const double e1 = a->constant ? 0 : 2 * v * expm1(w) * exp(w);
    double rounded = 2 * v * stored, sum = w + ref_growth(x, bound.chain);
    if (x->denominator != 1) {
        rounded = stored < 1 ? (rounded + stored * e1) / (1 - stored) : INFINITY;
        sum -= log1p(-fmin(stored, 1));
    }
    const double e =
        e1 + rounded + kept * v * (upper + stored) + underflow * (n * v + bound.chain) + partial;
    *out = x->copies * (e + quotient * (v + e));
    const double log_l = log_n + x->tau + sum;
    const double steps = sum + x->three * (m + rise + x->tau) +
                         (ref_growth(x, 2) * (1 + x->e_log) + x->e_log) * log_l;
    *lse = x->copies * (steps + x->u_op * (m + log_n + steps));
}
