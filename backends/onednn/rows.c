/* SPDX-License-Identifier: Apache-2.0 */
/* rows.c - rows of scores in plain C: what the library's softmax has no words for, and rows that
 * it spoils because a key that takes no part holds NaN or an infinity. */
#include <math.h>
#include <stdbool.h>

#include "onednn.h"

/* What a row's scores come to. */
struct summary {
    float max;  /* of scores and sink; -infinity where there are none */
    float sum;  /* of exp(s - max), the sink's included */
    int broken; /* a score is NaN or +infinity */
};

/* In place of the score of a cell that takes no part, once scores have become weights. */
#define NO_PART (-1.0f)

/* Softcap and addend; a cell that takes no part is left at -infinity. */
static void finish_scores(const struct attn_onednn_row *row)
{
    const struct attn_problem *p = row->problem;
    float *s = row->scores, cap = (float)p->softcap;
    if (p->flags & ATTN_FLAG_SOFTCAP)
        for (int64_t j = 0; j < p->sk; j++)
            s[j] = cap * tanhf(s[j] / cap);
    for (int64_t j = 0; j < p->sk; j++)
        s[j] = row->add[j] == -INFINITY ? -INFINITY : s[j] + row->add[j];
}

static float sink_logit(const struct attn_onednn_row *row)
{
    const struct attn_tensor *sink = &row->operands->sink;
    return sink->dtype ? attn_onednn_load(sink, row->h * sink->stride[0]) : -INFINITY;
}

/* Scores become weights that are not yet divided by their sum; those of a broken row NaN. */
static struct summary exponentiate(const struct attn_onednn_row *row)
{
    float sink = sink_logit(row), *s = row->scores;
    struct summary found = {.max = sink};
    for (int64_t j = 0; j < row->problem->sk; j++) {
        found.max = s[j] > found.max ? s[j] : found.max;
        found.broken |= !(s[j] < INFINITY);
    }
    if (found.max > -INFINITY)
        found.sum = expf(sink - found.max);
    for (int64_t j = 0; j < row->problem->sk; j++) {
        if (s[j] == -INFINITY) {
            s[j] = NO_PART;
            continue;
        }
        s[j] = found.broken ? NAN : expf(s[j] - found.max);
        found.sum += s[j];
    }
    return found;
}

static int64_t row_start(const struct attn_tensor *view, const struct attn_onednn_row *row)
{
    return attn_row_start(view, row->b, row->h, row->i);
}

static void store_lse(const struct attn_onednn_row *row, const struct summary *found)
{
    const struct attn_tensor *lse = &row->operands->lse;
    float value = found->broken             ? NAN
                  : found->max == -INFINITY ? -INFINITY
                                            : found->max + logf(found->sum);
    if (lse->dtype)
        attn_element_write(lse->dtype, lse->data, row_start(lse, row), value);
}

void attn_onednn_soften(const struct attn_onednn_row *row, void *weights)
{
    const struct attn_problem *p = row->problem;
    const struct attn_tensor *asked = &row->operands->weights;
    int64_t asked_at = row_start(asked, row);
    float kept_scale = (float)(1 / (1 - p->dropout_p));
    finish_scores(row);
    struct summary found = exponentiate(row);
    store_lse(row, &found);
    for (int64_t j = 0; j < p->sk; j++) {
        float w = row->scores[j] == NO_PART ? 0 : row->scores[j] / found.sum;
        if (asked->dtype)
            attn_element_write(asked->dtype, asked->data, asked_at + j * asked->stride[3], w);
        if (p->flags & ATTN_FLAG_DROPOUT) {
            bool kept = attn_dropout_keeps(p, &row->operands->keep, row->b, row->h, row->i, j);
            /* a NaN score makes its row NaN, even where all its keys are dropped */
            w = kept || isnan(w) ? w * kept_scale : 0;
        }
        attn_element_write(p->dtype, weights, j, w);
    }
}

/* W_q q, which all keys of a row meet. */
static void hide_query(const struct attn_onednn_row *row)
{
    const struct attn_problem *p = row->problem;
    const struct attn_tensor *q = &row->operands->q;
    const struct attn_tensor *w = &row->operands->score_w_q;
    for (int64_t x = 0; x < p->dh; x++) {
        int64_t q_at = row_start(q, row), w_at = row->h * w->stride[0] + x * w->stride[1];
        row->hidden[x] = 0;
        for (int64_t d = 0; d < p->dq; d++, q_at += q->stride[3], w_at += w->stride[2])
            row->hidden[x] += attn_onednn_load(q, q_at) * attn_onednn_load(w, w_at);
    }
}

static float additive(const struct attn_onednn_row *row, int64_t k_at)
{
    const struct attn_problem *p = row->problem;
    const struct attn_tensor *k = &row->operands->k;
    const struct attn_tensor *w = &row->operands->score_w_k;
    const struct attn_tensor *w_v = &row->operands->score_w_v;
    float sum = 0;
    for (int64_t x = 0; x < p->dh; x++) {
        float hidden = row->hidden[x];
        for (int64_t d = 0; d < p->dk; d++)
            hidden +=
                attn_onednn_load(k, k_at + d * k->stride[3]) *
                attn_onednn_load(w, row->h * w->stride[0] + x * w->stride[1] + d * w->stride[2]);
        sum += tanhf(hidden) * attn_onednn_load(w_v, row->h * w_v->stride[0] + x * w_v->stride[1]);
    }
    return sum;
}

/* Scaled score of one cell. */
static float score_cell(const struct attn_onednn_row *row, int64_t j)
{
    const struct attn_problem *p = row->problem;
    const struct attn_tensor *q = &row->operands->q;
    const struct attn_tensor *k = &row->operands->k;
    int64_t q_at = row_start(q, row);
    int64_t k_at =
        row->b * k->stride[0] + row->h / (p->hq / p->hkv) * k->stride[1] + j * k->stride[2];
    float sum = 0;
    if (p->score == ATTN_SCORE_ADDITIVE)
        return (float)p->scale * additive(row, k_at);
    for (int64_t d = 0; d < p->dk; d++, q_at += q->stride[3], k_at += k->stride[3]) {
        float x = attn_onednn_load(q, q_at), y = attn_onednn_load(k, k_at);
        sum += p->score == ATTN_SCORE_GAUSSIAN ? -0.5f * (x - y) * (x - y) : x * y;
    }
    return (float)p->scale * sum;
}

void attn_onednn_add_norms(const struct attn_onednn_row *row)
{
    const struct attn_problem *p = row->problem;
    int64_t g = row->b * p->hkv + row->h / (p->hq / p->hkv);
    const float *keys = row->norms + g * p->sk;
    float query = row->norms[p->b * p->hkv * p->sk + (row->b * p->hq + row->h) * p->sq + row->i];
    for (int64_t j = 0; j < p->sk; j++) {
        row->scores[j] += keys[j] + query;
        if (isnan(row->scores[j]) && row->add[j] != -INFINITY)
            row->scores[j] = score_cell(row, j);
    }
}

void attn_onednn_attend_row(const struct attn_onednn_row *row, float *sums)
{
    const struct attn_problem *p = row->problem;
    const struct attn_tensor *v = &row->operands->v;
    const struct attn_tensor *out = &row->operands->out;
    int64_t v_at = row->b * v->stride[0] + row->h / (p->hq / p->hkv) * v->stride[1];
    int64_t out_at = row_start(out, row);
    attn_onednn_addend(p, row->operands, row->b, row->h, row->i, row->add);
    if (p->score == ATTN_SCORE_ADDITIVE && p->sk > 0)
        hide_query(row);
    for (int64_t j = 0; j < p->sk; j++)
        row->scores[j] = row->add[j] == -INFINITY ? 0 : score_cell(row, j);
    finish_scores(row);
    struct summary found = exponentiate(row);
    float scale = p->flags & ATTN_FLAG_DROPOUT ? (float)(1 / (1 - p->dropout_p)) : 1;
    for (int64_t d = 0; d < p->dv; d++)
        sums[d] = found.broken ? NAN : 0;
    for (int64_t j = 0; j < p->sk && !found.broken; j++) {
        if (row->scores[j] == NO_PART)
            continue;
        if ((p->flags & ATTN_FLAG_DROPOUT) &&
            !attn_dropout_keeps(p, &row->operands->keep, row->b, row->h, row->i, j))
            continue;
        float w = scale * (row->scores[j] / found.sum);
        for (int64_t d = 0; d < p->dv; d++)
            sums[d] += w * attn_onednn_load(v, v_at + j * v->stride[2] + d * v->stride[3]);
    }
    for (int64_t d = 0; d < p->dv; d++)
        attn_element_write(out->dtype, out->data, out_at + d * out->stride[3], sums[d]);
}

/* The bits of elements that others see as floating-point numbers. */
typedef uint32_t __attribute__((may_alias)) bits32;
typedef uint16_t __attribute__((may_alias)) bits16;

/* NaN and infinities have an exponent field of ones: looked for in the bits, a loop over contiguous
 * elements becomes vector code. */
static int any_broken32(const bits32 *bits, int64_t n, int64_t step)
{
    const uint32_t ones = 0x7f800000u;
    uint32_t found = 0;
    if (step == 1)
        for (int64_t d = 0; d < n; d++)
            found |= (bits[d] & ones) == ones;
    else
        for (int64_t d = 0; d < n; d++)
            found |= (bits[d * step] & ones) == ones;
    return found != 0;
}

static int any_broken16(const bits16 *bits, int64_t n, int64_t step, uint16_t ones)
{
    uint16_t found = 0;
    if (step == 1)
        for (int64_t d = 0; d < n; d++)
            found |= (bits[d] & ones) == ones;
    else
        for (int64_t d = 0; d < n; d++)
            found |= (bits[d * step] & ones) == ones;
    return found != 0;
}

int attn_onednn_row_broken(const struct attn_onednn_row *row)
{
    const struct attn_tensor *out = &row->operands->out;
    int64_t at = row_start(out, row), step = out->stride[3], n = row->problem->dv;
    if (out->dtype == ATTN_F32)
        return any_broken32((const bits32 *)out->data + at, n, step);
    return any_broken16((const bits16 *)out->data + at, n, step,
                        out->dtype == ATTN_BF16 ? 0x7f80u : 0x7c00u);
}
