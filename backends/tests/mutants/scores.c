/* SPDX-License-Identifier: Apache-2.0 */
/* scores.c - a tile of keys and values, and its scores against a tile of queries. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "mutant.h"

#define LN2 0.69314718f

static int64_t key_head(const struct mutant_job *job, int64_t h)
{
    if (bug(last_head) && h == job->p->hq - 1 && h > 0)
        h--;
    return bug(gqa_tiled) ? h % job->p->hkv : h / (job->p->hq / job->p->hkv);
}

/* Row `i` of an operand; columns up to a whole vector are 0. */
static void load_row(const struct mutant_job *job, uint32_t role, int64_t b, int64_t h, int64_t i,
                     int64_t n, float *to)
{
    const int64_t whole = (n + LANES - 1) / LANES * LANES;
    for (int64_t c = 0; c < whole; c++)
        to[c] = c < n || (bug(lanes_overrun) && role != ATTN_V)
                    ? mutant_get(job, role, mutant_at(job, role, b, h, i, c))
                    : 0;
}

static float dot(const float *x, const float *y, int64_t n)
{
    const int64_t whole = n / LANES * LANES;
    float sum = 0;
    if (bug(lanes_overrun))
        n = (n + LANES - 1) / LANES * LANES;
    for (int64_t c = 0; c < (bug(lanes_dropped) ? whole : n); c++)
        sum += x[c] * y[c];
    return sum;
}

/* Element of a score parameter with indices h, r, c (or h, r). */
static float parameter(const struct mutant_job *job, uint32_t role, int64_t h, int64_t r, int64_t c)
{
    const struct attn_tensor *view = &job->operands.view[role];
    return mutant_get(job, role,
                      h * view->stride[0] + r * view->stride[1] +
                          (view->rank == 3 ? c * view->stride[2] : 0));
}

static int64_t hidden(const struct mutant_job *job)
{
    return bug(additive_width) ? job->p->dk : job->p->dh;
}

/* to = W row, W_q for queries and W_k for keys. */
static void hide(const struct mutant_job *job, bool query, int64_t h, const float *row, float *to)
{
    const int64_t n = query ? job->p->dq : job->p->dk;
    const uint32_t role = query != bug(additive_swapped) ? ATTN_SCORE_WQ : ATTN_SCORE_WK;
    for (int64_t d = 0; d < hidden(job); d++) {
        to[d] = 0;
        for (int64_t c = 0; c < n; c++)
            to[d] += parameter(job, role, h, d, c) * row[c];
    }
}

/* to = M^T q */
static void turn(const struct mutant_job *job, int64_t h, const float *q, float *to)
{
    for (int64_t c = 0; c < job->p->dk; c++) {
        to[c] = 0;
        for (int64_t r = 0; r < job->p->dq; r++)
            to[c] += q[r] * (bug(bilinear_transposed) ? parameter(job, ATTN_SCORE_M, h, c, r)
                                                      : parameter(job, ATTN_SCORE_M, h, r, c));
    }
}

void mutant_load_queries(const struct mutant_job *job, struct mutant_scratch *scratch, int64_t b,
                         int64_t h, int64_t i, int64_t rows)
{
    const struct attn_problem *p = job->p;
    for (int64_t r = 0; r < rows; r++) {
        float *q = scratch->q + r * job->width;
        int64_t from = i + r;
        if (bug(query_tail_shifted) && rows < QUERY_TILE && from > 0)
            from--;
        load_row(job, ATTN_Q, b, h, from, p->dq, scratch->row);
        if (p->score == ATTN_SCORE_ADDITIVE)
            hide(job, true, h, scratch->row, q);
        else if (p->score == ATTN_SCORE_BILINEAR)
            turn(job, h, scratch->row, q);
        else
            memcpy(q, scratch->row, (size_t)job->width * sizeof(*q));
        for (int64_t c = 0; bug(q_prescaled_low) && c < p->dq; c++)
            q[c] = mutant_round(ATTN_BF16, q[c] * (float)p->scale);
    }
}

/* Keys and values of a tile. A tail is filled with zeros. */
static void load_keys(const struct mutant_job *job, struct mutant_scratch *scratch, int64_t b,
                      int64_t h, int64_t j, int64_t keys)
{
    const struct attn_problem *p = job->p;
    const int64_t g = key_head(job, h);
    if (bug(last_batch) && b == p->b - 1 && b > 0)
        b--;
    for (int64_t t = 0; t < KEY_TILE; t++) {
        float *k = scratch->k + t * job->width, *v = scratch->v + t * job->width;
        if (t >= keys) {
            if (bug(tail_stale))
                continue;
            memset(k, 0, (size_t)job->width * sizeof(*k));
            memset(v, 0, (size_t)job->width * sizeof(*v));
            continue;
        }
        int64_t from = j + t, batch = b;
        if (bug(neighbour_batch) && mutant_has(job, ATTN_LEN) && b + 1 < p->b &&
            from == ((const int32_t *)job->operands.view[ATTN_LEN].data)[b]) {
            from = 0;
            batch = b + 1;
        }
        load_row(job, ATTN_K, batch, g, from, p->dk, k);
        if (p->score == ATTN_SCORE_ADDITIVE) {
            memcpy(scratch->row, k, (size_t)job->width * sizeof(*k));
            hide(job, false, h, scratch->row, k);
        }
        if (bug(value_of_neighbour) && t / 2 == 1 && (t ^ 1) < keys)
            from ^= 1;
        load_row(job, ATTN_V, batch, g, from, p->dv, v);
    }
}

static float scale_of(const struct mutant_job *job)
{
    const struct attn_problem *p = job->p;
    const float scale = (float)p->scale;
    const int64_t padded = (p->dk + LANES - 1) / LANES * LANES;
    if (bug(scale_missing) || bug(q_prescaled_low))
        return 1;
    if (bug(scale_twice))
        return scale * scale;
    if (bug(scale_inverse_d))
        return 1.0f / (float)p->dk;
    if (bug(scale_from_dv))
        return 1.0f / sqrtf((float)p->dv);
    if (bug(scale_padded_d))
        return 1.0f / sqrtf((float)padded);
    if (bug(scale_2_percent))
        return scale * 1.02f;
    if (bug(scale_sign))
        return fabsf(scale);
    if (bug(scale_given_ignored))
        return 1.0f / sqrtf((float)p->dk);
    return scale;
}

static float raw_score(const struct mutant_job *job, int64_t h, const float *q, const float *k)
{
    const struct attn_problem *p = job->p;
    float sum = 0;
    switch (p->score) {
    case ATTN_SCORE_ADDITIVE:
        for (int64_t d = 0; d < hidden(job); d++) {
            const float x = q[d] + k[d];
            sum += parameter(job, ATTN_SCORE_WV, h, d, 0) *
                   (bug(additive_without_tanh) ? x : tanhf(x));
        }
        return sum;
    case ATTN_SCORE_GAUSSIAN:
        for (int64_t c = 0; c < p->dk; c++)
            sum += bug(gaussian_key_norm) ? q[c] * q[c] - 2 * q[c] * k[c]
                                          : (q[c] - k[c]) * (q[c] - k[c]);
        return -0.5f * sum;
    default:
        return dot(q, k, p->dk);
    }
}

static float capped(const struct mutant_job *job, float raw)
{
    const float scale = scale_of(job), cap = (float)job->p->softcap;
    if (!(job->p->flags & ATTN_FLAG_SOFTCAP))
        return scale * raw;
    if (bug(softcap_before_scale))
        return scale * cap * tanhf(raw / cap);
    if (bug(softcap_without_division))
        return cap * tanhf(scale * raw);
    return cap * tanhf(scale * raw / cap);
}

static float slope_of(const struct mutant_job *job, int64_t h)
{
    if (bug(alibi_slopes))
        return exp2f(-8.0f * (float)(h + 1) / (float)job->p->hq);
    return mutant_get(job, ATTN_ALIBI, h * job->operands.view[ATTN_ALIBI].stride[0]);
}

static float biased(const struct mutant_job *job, int64_t b, int64_t h, int64_t i, int64_t j,
                    float s)
{
    if (mutant_has(job, ATTN_BIAS)) {
        const float bias = mutant_get(job, ATTN_BIAS, mutant_at(job, ATTN_BIAS, b, h, i, j));
        if (bias == -INFINITY) /* forbidden, even where q.k is NaN */
            return -INFINITY;
        s += bug(bias_without_log2e) ? bias * LN2 : bias;
    }
    if (mutant_has(job, ATTN_ALIBI)) {
        const int64_t diagonal = bug(alibi_offset) ? i : i + mutant_offset(job, b);
        const float distance = (float)(diagonal < j ? j - diagonal : diagonal - j);
        s -= (bug(alibi_sign) ? -1.0f : 1.0f) * slope_of(job, h) * distance;
    }
    return s;
}

/* What a forbidden cell gets: -inf, and so nothing. */
static float masked(const struct mutant_job *job, float s)
{
    if (bug(mask_adds_1e4))
        return s - 1e4f;
    if (bug(mask_adds_1e9))
        return s - 1e9f;
    if (bug(mask_is_3e4))
        return -3e4f;
    if (bug(softcap_after_mask))
        return -(float)job->p->softcap;
    return -INFINITY;
}

/* What stands behind the last key of a tail: -inf. */
static float padding(const struct mutant_job *job, int64_t b, float s)
{
    if (bug(tail_zero_counted) || (bug(pad_later_batches) && b > 0))
        return 0;
    if (bug(tail_stale))
        return s;
    if (bug(softcap_tail))
        return -(float)job->p->softcap;
    return -INFINITY;
}

static float finished(float s)
{
    if (bug(infinite_score_clamped))
        s = fminf(s, FLT_MAX);
    if (bug(nan_swallowed) && isnan(s))
        return -INFINITY;
    if (bug(scores_low))
        return mutant_round(ATTN_BF16, s);
    return s;
}

/* Has the key been lost. */
static bool lost(const struct mutant_job *job, int64_t j)
{
    return (bug(seventeenth_key) && job->p->sk % 16 == 1 && j == job->p->sk - 1) ||
           (bug(one_key_of_many) && job->p->sk >= 8192 && j == 4097);
}

void mutant_score_tile(const struct mutant_job *job, struct mutant_scratch *scratch, int64_t b,
                       int64_t h, int64_t i, int64_t rows, int64_t j, int64_t keys)
{
    load_keys(job, scratch, b, h, j, keys);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t t = 0; t < KEY_TILE; t++) {
            float *s = &scratch->s[r * KEY_TILE + t];
            const float *k = scratch->k + t * job->width;
            *s = capped(job, raw_score(job, h, scratch->q + r * job->width, k));
            if (t >= keys) {
                *s = padding(job, b, *s);
                continue;
            }
            const bool allowed = mutant_allowed(job, b, h, i + r, j + t) && !lost(job, j + t);
            if (bug(mask_by_product) && mutant_has(job, ATTN_MASK))
                *s += (allowed ? 0.0f : 1.0f) * -INFINITY;
            else if (!allowed && !bug(mask_after_softmax))
                *s = masked(job, *s);
            if (allowed || bug(mask_after_softmax))
                *s = finished(biased(job, b, h, i + r, j + t, *s));
        }
}
