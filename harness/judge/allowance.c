/* SPDX-License-Identifier: Apache-2.0 */
/* allowance.c - the error bound from norms alone. The letters are those of reference/BOUND.md. */
#include "judge/allowance.h"

#include <math.h>
#include <stdlib.h>

#include "reference/dtype.h"
#include "reference/operands.h"
#include "reference/weight.h"

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

/* Keys and values of one pair of operands; what another pair has made of the maxima stays. */
static void measure_heads(struct attn_allowance *a, const struct attn_tensor *k,
                          const struct attn_tensor *v)
{
    const struct attn_problem *p = a->problem;
    const double factor = p->flags & ATTN_FLAG_DROPOUT ? 1 / (1 - p->dropout_p) : 1;
    for (int64_t b = 0; k && v && b < p->b; b++)
        for (int64_t g = 0; g < p->hkv; g++) {
            double longest = 0, largest = 0;
            for (int64_t j = 0; j < p->sk; j++) {
                longest = fmax(longest, length(k, (int64_t[ATTN_MAX_RANK]){b, g, j}, p->dk));
                norm(v, (int64_t[ATTN_MAX_RANK]){b, g, j}, p->dv, &largest);
            }
            a->keys[b * p->hkv + g] = fmax(a->keys[b * p->hkv + g], longest);
            a->values[b * p->hkv + g] = fmax(a->values[b * p->hkv + g], factor * largest);
        }
}

static void measure_scores(struct attn_allowance *a)
{
    struct ref_operands operands;
    ref_operands_init(&operands, a->problem);
    for (int64_t h = 0; a->score->measure && h < a->problem->hq; h++)
        a->score->measure(&operands, h, a->scores + REF_SCORE_PARTS * h);
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
    *a = (struct attn_allowance){
        .problem = p, .score = ref_score_find(p->score), .constant = constant};
    struct ref_request all = {.fill = kind};
    ref_request_all(p, &all);
    ref_arithmetic_init(&a->arithmetic, p, numerics, kind, ref_chains(p, &all));
    a->keys = calloc((size_t)(p->b * p->hkv), sizeof *a->keys);
    a->values = calloc((size_t)(p->b * p->hkv), sizeof *a->values);
    a->scores = calloc((size_t)p->hq, REF_SCORE_PARTS * sizeof *a->scores);
    if (!a->keys || !a->values || !a->scores) {
        attn_allowance_free(a);
        return -1;
    }
    measure_heads(a, find(a, ATTN_K), find(a, ATTN_V));
    measure_heads(a, find(a, ATTN_K_GLOBAL), find(a, ATTN_V_GLOBAL));
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

/* Adds scale, softcap and bias. */
static struct ref_score_norm full_score(const struct attn_allowance *a, int64_t b, int64_t h,
                                        int64_t i)
{
    const struct attn_problem *p = a->problem;
    const struct ref_arithmetic *x = &a->arithmetic;
    const struct attn_tensor *alibi = find(a, ATTN_ALIBI);
    const struct attn_tensor *q_global = find(a, ATTN_Q_GLOBAL);
    const int64_t at[ATTN_MAX_RANK] = {b, h, i};
    const double q =
        fmax(length(find(a, ATTN_Q), at, p->dq), q_global ? length(q_global, at, p->dq) : 0);
    const double scale = fabs(p->scale), four = ref_growth(x, 4);
    const double added = (find(a, ATTN_BIAS) ? 1 : 0) + (alibi ? 1 : 0);
    const double longest = a->keys[b * p->hkv + h / (p->hq / p->hkv)];
    struct ref_score_norm s = {0};
    a->score->norm(p, x, a->scores + REF_SCORE_PARTS * h, q, longest, &s);
    if (a->q_size)
        s.ds += ref_growth(x, 2) * a->q_size[(b * p->hq + h) * p->sq + i] * longest;
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
    if (x->score_stores > 1) {
        const double grown = expm1(x->score_stores * log1p(x->u_s));
        const double wide = p->flags & ATTN_FLAG_SOFTCAP ? fmax(1, p->softcap) : 1;
        s.ds += grown * (s.most + s.ds) + (1 + grown) * expm1(3 * log1p(x->u_s)) * bias +
                x->score_stores * (1 + grown) * fmax(wide, scale) * x->eta_s;
        return s;
    }
    s.ds += x->u_s * (s.most + s.ds) + x->eta_s;
    return s;
}

/* What a sink's logit loses where it follows scores that ALiBi by key moves. */
static double sink_offset(const struct attn_allowance *a, double most)
{
    const struct ref_arithmetic *x = &a->arithmetic;
    return x->alibi_by_key ? (x->three + ref_growth(x, 4)) * most : 0;
}

/* W: no p is off by more than a factor exp(W), either way. *most: the largest |score| of the row,
 * the sink's included. *rise: how far a computed maximum may be above the true one. */
static double exponent_error(const struct attn_allowance *a, int64_t b, int64_t h, int64_t i,
                             double *most, double *rise)
{
    const struct ref_arithmetic *x = &a->arithmetic;
    const struct attn_tensor *sink = find(a, ATTN_SINK);
    const struct ref_score_norm s = full_score(a, b, h, i);
    const double logit = sink ? fabs(ref_load(sink, &h)) : 0,
                 ds = fmax(s.ds, x->three * logit + sink_offset(a, s.most));
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

/* The most that an error ds of a score makes of a weight: where f is steepest among scores of sizes
 * up to `most`. */
static double steepest(const struct attn_allowance *a, const struct ref_weight *weight, double most,
                       double ds)
{
    const double at[] = {-ds / 2, fmin(most, M_SQRT1_2) - ds / 2, most};
    double spread = 0;
    for (size_t n = 0; n < sizeof at / sizeof *at; n++)
        spread = fmax(spread, weight->spread(&a->arithmetic, at[n], ds));
    return spread;
}

/* E of a row of out whose weights nothing divides; *size: the largest |out|. */
static double weighed_row(const struct attn_allowance *a, const struct ref_weight *weight,
                          int64_t b, int64_t h, int64_t i, double *size)
{
    const struct attn_problem *p = a->problem;
    const struct ref_arithmetic *x = &a->arithmetic;
    const struct ref_score_norm s = full_score(a, b, h, i);
    const double n = (double)p->sk, v = a->values[b * p->hkv + h / (p->hq / p->hkv)];
    const double most = weight->value(s.most), spread = steepest(a, weight, s.most, s.ds);
    const double wrong =
        spread + (x->e_f + weight->relative(x, s.most, s.ds)) * (most + spread) + x->a_f;
    const double stored = x->u_p > 0 ? fmax(x->u_p * (most + wrong), x->eta_p) : 0;
    const double sum = n * (most + wrong + stored);
    const struct ref_softmax row = {
        .n = p->sk, .dropout = p->flags & ATTN_FLAG_DROPOUT, .dropout_p = p->dropout_p};
    struct ref_row_bound bound = {0};
    ref_bound_roundings(x, &row, NULL, &bound);
    const double product = ref_growth_values(x, bound.product);
    const double kept = product + bound.dropout * (1 + product);
    const double lost = fmin(1, n * x->u_op * (1 + x->u_op)) * sum;
    const double more = row.dropout ? 1 / (1 - row.dropout_p) : 1;
    const double flushed = x->ftz ? 3 * n + n * v + sum : n;
    *size = v * sum;
    return v * n * (wrong + stored) + kept * v * sum + lost * (1 + kept) * v +
           2 * x->omega * (n * v + more * (sum + bound.chain)) +
           (1 + product) * x->partial_omega * more * flushed;
}

/* E of a row of at most that size, times its gate. */
static double gated(const struct attn_allowance *a, int64_t b, int64_t h, int64_t i, double size,
                    double e)
{
    const struct ref_arithmetic *x = &a->arithmetic;
    const struct attn_tensor *gate = find(a, ATTN_GATE);
    double most = 0;
    if (!gate)
        return e;
    norm(gate, (int64_t[ATTN_MAX_RANK]){b, h, i}, a->problem->dv, &most);
    return most * e + x->u_op * most * (size + e) + x->omega * (x->ftz ? 1 + most + size + e : 1);
}

void attn_allowance_row(const struct attn_allowance *a, int64_t b, int64_t h, int64_t i,
                        double *out, double *lse)
{
    const struct ref_weight *weight = ref_weight_of(a->problem);
    double size;
    if (weight) {
        const double e = weighed_row(a, weight, b, h, i, &size);
        *out = a->arithmetic.copies * gated(a, b, h, i, size, e);
        *lse = 0;
        return;
    }
    const struct attn_problem *p = a->problem;
    const struct ref_arithmetic *x = &a->arithmetic;
    double m, rise, w = exponent_error(a, b, h, i, &m, &rise);
    if (isinf(w)) { /* so much is declared that exp may be off by anything */
        *out = *lse = INFINITY;
        return;
    }
    const double v = a->values[b * p->hkv + h / (p->hq / p->hkv)], upper = exp(2 * w);
    const double n = (double)p->sk + 1, log_n = log(n); /* with the sink */
    const struct ref_softmax row = {.n = p->sk,
                                    .sink = true,
                                    .lse = m + log_n,
                                    .dropout = p->flags & ATTN_FLAG_DROPOUT,
                                    .dropout_p = p->dropout_p};
    struct ref_row_bound bound = {0};
    ref_bound_roundings(x, &row, NULL, &bound);
    const double underflow = 2 * x->omega * exp(w);
    const double stored = x->u_p > 0 ? x->u_p * upper + n * x->eta_p * exp(w) : 0;
    const double quotient = bound.quotient + underflow * bound.chain;
    const double product = ref_growth_values(x, bound.product);
    const double kept = product + bound.dropout * (1 + product);
    const double keys = row.dropout ? n / (1 - row.dropout_p) : n;
    const double partial =
        x->partial_omega * exp(w) * (1 + product) * (x->ftz ? 3 * keys + n * v : keys);
    const double e1 = a->constant ? 0 : 2 * v * expm1(w) * exp(w);
    double rounded = 2 * v * stored, sum = w + bound.summing;
    if (x->denominator != 1) {
        rounded = stored < 1 ? (rounded + stored * e1) / (1 - stored) : INFINITY;
        sum -= log1p(-fmin(stored, 1)) + log1p(-fmin(x->u_pv, 1));
    }
    const double e =
        e1 + rounded + kept * v * (upper + stored) + underflow * (n * v + bound.chain) + partial;
    *out = x->copies * gated(a, b, h, i, v, e + quotient * (v + e));
    const double log_l = log_n + x->tau + sum;
    /* By key, ALiBi moves all scores by no more than the largest of them. */
    const double offset = x->alibi_by_key ? (x->three + ref_growth(x, 4) + x->u_op) * m : 0;
    const double steps = sum + x->three * (m + rise + x->tau) + offset +
                         (ref_growth(x, 2) * (1 + x->e_log) + x->e_log) * log_l;
    *lse = x->copies * (steps + x->u_op * (m + log_n + steps));
}
