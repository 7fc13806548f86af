/* SPDX-License-Identifier: Apache-2.0 */
/* oracle.c - the operator, cell by cell in double, as the tests of backends expect it. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "problem.h"

static int64_t offset_of_batch(const struct attn_problem *p, int64_t b)
{
    const struct attn_tensor *len = attn_tensor_find(p, ATTN_LEN);
    if (!(p->flags & ATTN_FLAG_OFF_BR))
        return p->off;
    return (len ? (int64_t)test_at(len, &b) : p->sk) - p->sq;
}

int test_allowed(const struct attn_problem *p, int64_t b, int64_t h, int64_t i, int64_t j)
{
    const struct attn_tensor *len = attn_tensor_find(p, ATTN_LEN);
    const struct attn_tensor *mask = attn_tensor_find(p, ATTN_MASK);
    /* in double, which no offset overflows */
    double diagonal = (double)i + (double)offset_of_batch(p, b);
    double left = (double)p->window_left, right = (double)p->window_right;
    if (len && (double)j >= test_at(len, (int64_t[]){b, i}))
        return 0;
    if ((p->flags & ATTN_FLAG_CAUSAL) && (double)j > diagonal)
        return 0;
    if ((p->flags & ATTN_FLAG_WINDOW) && left >= 0 && (double)j < diagonal - left)
        return 0;
    if ((p->flags & ATTN_FLAG_WINDOW) && right >= 0 && (double)j > diagonal + right)
        return 0;
    return !mask || test_at(mask, (int64_t[]){b, h, i, j}) != 0;
}

/* x[b,s,:] . w[row,:] + bias[row] */
static double projected(const struct attn_problem *p, const struct attn_tensor *x, uint32_t w_role,
                        uint32_t b_role, int64_t b, int64_t s, int64_t row)
{
    const struct attn_tensor *w = attn_tensor_find(p, w_role);
    const struct attn_tensor *bias = attn_tensor_find(p, b_role);
    double sum = bias ? test_at(bias, &row) : 0;
    for (int64_t e = 0; e < x->shape[2]; e++)
        sum += test_at(x, (int64_t[]){b, s, e}) * test_at(w, (int64_t[]){row, e});
    return sum;
}

static void query_row(const struct attn_problem *p, int64_t b, int64_t h, int64_t i, double *q)
{
    for (int64_t c = 0; c < p->dq; c++)
        q[c] = p->op == ATTN_OP_MHA ? projected(p, attn_tensor_find(p, ATTN_X_Q), ATTN_W_Q,
                                                ATTN_B_Q, b, i, h * p->dq + c)
                                    : test_at(attn_tensor_find(p, ATTN_Q), (int64_t[]){b, h, i, c});
}

static void key_row(const struct attn_problem *p, int64_t b, int64_t g, int64_t j, double *k)
{
    const struct attn_tensor *x = attn_tensor_find(p, ATTN_X_K);
    for (int64_t c = 0; c < p->dk; c++)
        k[c] = p->op == ATTN_OP_MHA ? projected(p, x ? x : attn_tensor_find(p, ATTN_X_Q), ATTN_W_K,
                                                ATTN_B_K, b, j, g * p->dk + c)
                                    : test_at(attn_tensor_find(p, ATTN_K), (int64_t[]){b, g, j, c});
}

static double value(const struct attn_problem *p, int64_t b, int64_t g, int64_t j, int64_t c)
{
    if (p->op != ATTN_OP_MHA)
        return test_at(attn_tensor_find(p, ATTN_V), (int64_t[]){b, g, j, c});
    const struct attn_tensor *x = attn_tensor_find(p, ATTN_X_V);
    x = x ? x : attn_tensor_find(p, ATTN_X_Q);
    return projected(p, x, ATTN_W_V, ATTN_B_V, b, j, g * p->dv + c);
}

/* q_i.KR + k_j.QR, by the definition in backend.h. */
static double position_score(const struct attn_problem *p, int64_t b, int64_t h, int64_t i,
                             int64_t j, const double *q, const double *k)
{
    const struct attn_tensor *kr = attn_tensor_find(p, ATTN_SCORE_KR);
    const struct attn_tensor *qr = attn_tensor_find(p, ATTN_SCORE_QR);
    const struct attn_tensor *table = attn_tensor_find(p, ATTN_REL_POS);
    const double last = (double)kr->shape[1] - 1, span = (double)kr->shape[1] / 2;
    const double apart = (double)(i + offset_of_batch(p, b) - j);
    const int64_t entry = i - j + p->sk - 1;
    double d = fmin(fmax(apart + span, 0), last), e = fmin(fmax(span - apart, 0), last), sum = 0;
    if (table) {
        d = test_at(table, &entry);
        e = fmin(2 * span - d, last);
    }
    if (p->variant != ATTN_POSITIONS_PAPER)
        e = d;
    for (int64_t c = 0; c < p->dk; c++) {
        if (p->parts != ATTN_PARTS_P2C)
            sum += q[c] * test_at(kr, (int64_t[]){h, (int64_t)d, c});
        if (p->parts != ATTN_PARTS_C2P)
            sum += k[c] * test_at(qr, (int64_t[]){h, (int64_t)e, c});
    }
    return sum;
}

static double raw_score(const struct attn_problem *p, int64_t h, const double *q, const double *k)
{
    double sum = 0;
    switch (p->score) {
    case ATTN_SCORE_GAUSSIAN:
        for (int64_t c = 0; c < p->dk; c++)
            sum -= 0.5 * (q[c] - k[c]) * (q[c] - k[c]);
        return sum;
    case ATTN_SCORE_BILINEAR:
        for (int64_t r = 0; r < p->dq; r++)
            for (int64_t c = 0; c < p->dk; c++)
                sum +=
                    q[r] * test_at(attn_tensor_find(p, ATTN_SCORE_M), (int64_t[]){h, r, c}) * k[c];
        return sum;
    case ATTN_SCORE_ADDITIVE:
        for (int64_t d = 0; d < p->dh; d++) {
            double hidden = 0;
            for (int64_t c = 0; c < p->dq; c++)
                hidden += q[c] * test_at(attn_tensor_find(p, ATTN_SCORE_WQ), (int64_t[]){h, d, c});
            for (int64_t c = 0; c < p->dk; c++)
                hidden += k[c] * test_at(attn_tensor_find(p, ATTN_SCORE_WK), (int64_t[]){h, d, c});
            sum += tanh(hidden) * test_at(attn_tensor_find(p, ATTN_SCORE_WV), (int64_t[]){h, d});
        }
        return sum;
    default:
        for (int64_t c = 0; c < p->dk; c++)
            sum += q[c] * k[c];
        return sum;
    }
}

/* Score after bias; -infinity where the cell takes no part. */
static double cell(const struct attn_problem *p, int64_t b, int64_t h, int64_t i, int64_t j,
                   const double *q, double *k)
{
    const struct attn_tensor *bias = attn_tensor_find(p, ATTN_BIAS);
    const struct attn_tensor *alibi = attn_tensor_find(p, ATTN_ALIBI);
    double added = bias ? test_at(bias, (int64_t[]){b, h, i, j}) : 0;
    if (!test_allowed(p, b, h, i, j) || added == -INFINITY)
        return -INFINITY;
    key_row(p, b, h / (p->hq / p->hkv), j, k);
    double s = raw_score(p, h, q, k);
    if (p->score == ATTN_SCORE_DISENTANGLED)
        s += position_score(p, b, h, i, j, q, k);
    s *= p->scale;
    if (p->flags & ATTN_FLAG_SOFTCAP)
        s = p->softcap * tanh(s / p->softcap);
    s += added;
    if (alibi)
        s -= test_at(alibi, &h) * fabs((double)(i + offset_of_batch(p, b) - j));
    return s;
}

double test_oracle_row(const struct attn_problem *p, int64_t b, int64_t h, int64_t i, double *out,
                       double *weights)
{
    const struct attn_tensor *sink = attn_tensor_find(p, ATTN_SINK);
    const struct attn_tensor *keep = attn_tensor_find(p, ATTN_KEEP);
    double *q = calloc((size_t)(p->dq + p->dk), sizeof(*q));
    assert_non_null(q);
    double max = sink ? test_at(sink, &h) : -INFINITY, sum = 0, lse = max;
    int broken = 0, any = 0;
    query_row(p, b, h, i, q);
    for (int64_t j = 0; j < p->sk; j++) {
        weights[j] = cell(p, b, h, i, j, q, q + p->dq);
        broken |= !(weights[j] < INFINITY);
        any |= weights[j] != -INFINITY;
        max = fmax(max, weights[j]);
    }
    for (int64_t c = 0; c < p->dv; c++)
        out[c] = broken ? NAN : 0;
    sum = sink ? exp(test_at(sink, &h) - max) : 0;
    for (int64_t j = 0; j < p->sk; j++)
        sum += weights[j] == -INFINITY ? 0 : exp(weights[j] - max);
    if (any)
        lse = broken ? NAN : max + log(sum);
    for (int64_t j = 0; j < p->sk; j++) {
        if (weights[j] == -INFINITY) {
            weights[j] = 0;
            continue;
        }
        weights[j] = broken ? NAN : exp(weights[j] - max) / sum;
        if ((p->flags & ATTN_FLAG_DROPOUT) && test_at(keep, (int64_t[]){b, h, i, j}) == 0)
            continue;
        for (int64_t c = 0; c < p->dv; c++)
            out[c] += weights[j] / (1 - p->dropout_p) * value(p, b, h / (p->hq / p->hkv), j, c);
    }
    free(q);
    return lse;
}
