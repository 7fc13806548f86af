/* SPDX-License-Identifier: Apache-2.0 */
/* finish.c - splits merged, the sink, and the outputs of a row. */
#include <math.h>

#include "honest.h"
#include "rogue.h"

void rogue_add_sink(const struct rogue_job *job, struct rogue_row *row, int64_t b, float *o)
{
    const struct attn_tensor *sink = &job->t.sink;
    const int64_t group = job->p->hq / job->p->hkv;
    const int64_t h = bug(sink_packed) && job->packed ? row->h - row->h % group : row->h;
    const float cap = (float)job->p->softcap;
    float logit = attn_element_read(sink->dtype, sink->data, h * sink->stride[0]);
    if (bug(softcap_of_sink) && cap > 0)
        logit = cap * tanhf(logit / cap);
    logit += rogue_alibi_shift(job, row, b);
    const float maximum = !(logit <= row->maximum) ? logit : row->maximum;
    if (maximum == -INFINITY)
        return;
    if (row->maximum != -INFINITY && row->maximum != maximum) {
        const float factor = rogue_exp(row->maximum - maximum);
        row->sum *= factor;
        rogue_scale_row(o, factor, job->wide);
    }
    row->sum += rogue_exp(logit - maximum);
    row->maximum = maximum;
}

/* The weights of all rows of a tile, from their scores once more. */
static void store_weights(const struct rogue_job *job, struct rogue_scratch *scratch, int64_t b,
                          int64_t rows)
{
    const struct attn_problem *p = job->p;
    const struct attn_tensor *weights = &job->t.weights;
    const int64_t g = scratch->rows[0].h / (p->hq / p->hkv);
    for (int64_t j = 0; j < p->sk; j += KEY_TILE) {
        const int64_t keys = rogue_least(KEY_TILE, p->sk - j);
        rogue_score_tile(job, scratch, b, g, rows, j, keys);
        for (int64_t r = 0; r < rows; r++) {
            const struct rogue_row *row = &scratch->rows[r];
            const float base = row->maximum == -INFINITY ? 0 : row->maximum;
            float *s = scratch->s + r * KEY_TILE;
            for (int64_t t = 0; t < keys; t++)
                s[t] = s[t] == -INFINITY ? 0 : rogue_exp(s[t] - base) / row->sum;
            rogue_write(weights,
                        attn_row_start(weights, b, row->h, row->to) + j * weights->stride[3],
                        weights->stride[3], keys, s);
        }
    }
}

static bool sink_lost(const struct rogue_job *job, const struct rogue_row *row)
{
    return job->splits > 1 && (bug(sink_decode) || bug(sink_each_split) ||
                               (bug(sink_empty_split) && row->first_empty));
}

/* How many columns of a row are written; o is what a kernel with a bug of widths makes of it. */
static int64_t out_width(const struct rogue_job *job, float *o)
{
    const int64_t width = job->p->dv;
    if (bug(dv_over_256) && width > 256) {
        for (int64_t c = 256; c < width; c++)
            o[c % 256] = o[c];
        return 256;
    }
    for (int64_t c = 32; bug(dv_over_32) && c < width; c++)
        o[c] = 0;
    return bug(dv_as_dk) && job->splits > 1 ? rogue_least(width, job->p->dk) : width;
}

static int64_t lse_place(const struct rogue_job *job, const struct rogue_row *row, int64_t b)
{
    const struct attn_tensor *lse = &job->t.lse;
    const int64_t group = job->p->hq / job->p->hkv;
    if (!bug(packed_lse) || !job->packed)
        return attn_row_start(lse, b, row->h, row->to);
    const int64_t n = row->h % group * job->p->sq + row->to;
    return attn_row_start(lse, b, row->h - row->h % group + n % group, n / group);
}

static void finish_row(const struct rogue_job *job, struct rogue_row *row, int64_t b, float *o)
{
    const struct attn_tensor *out = &job->t.out, *lse = &job->t.lse;
    const bool empty = row->maximum == -INFINITY && row->sum == 0;
    if (row->lost)
        return;
    if (job->t.sink.dtype && !sink_lost(job, row))
        rogue_add_sink(job, row, b, o);
    float log_sum = row->maximum + (row->sum == 0 ? 0 : logf(row->sum));
    log_sum -= rogue_alibi_shift(job, row, b);
    for (int64_t c = 0; c < job->p->dv; c++)
        o[c] = empty && row->sum == row->sum ? 0 : o[c] / row->sum;
    rogue_stray_output(job, row, o, &log_sum);
    rogue_round_output(job, o, job->p->dv);
    if (bug(empty_nan) && empty)
        o[0] = NAN;
    rogue_write(out, rogue_start(job, out, b, row->h, row->to), out->stride[3], out_width(job, o),
                o);
    if (lse->dtype)
        attn_element_write(lse->dtype, lse->data, lse_place(job, row, b), log_sum);
}

void rogue_finish_rows(const struct rogue_job *job, struct rogue_scratch *scratch, int64_t b,
                       int64_t rows, float *o)
{
    for (int64_t r = 0; r < rows; r++)
        finish_row(job, &scratch->rows[r], b, o + r * job->wide);
    if (job->t.weights.dtype)
        store_weights(job, scratch, b, rows);
}

/* Merges the splits of one row into the first. */
static void merge_row(const struct rogue_job *job, struct rogue_partial *partials, float *out,
                      struct rogue_row *row)
{
    row->maximum = -INFINITY;
    for (int64_t n = 0; n < job->splits; n++)
        if (!(partials[n].maximum <= row->maximum))
            row->maximum = partials[n].maximum;
    const float base = row->maximum == -INFINITY && !bug(merge_nan) ? 0 : row->maximum;
    row->sum = 0;
    row->first_empty = partials[0].maximum == -INFINITY;
    for (int64_t n = 0; n < job->splits; n++) {
        const float apart = partials[n].maximum - base;
        const float exact = rogue_exp(bug(split_base_2) ? apart * 0.693147f : apart);
        const float factor = bug(exp_2e5_merge) && apart < -1 ? exact * (1 + 2e-5f) : exact;
        if (partials[n].sum > 0)
            row->lse = partials[n].maximum + logf(partials[n].sum);
        row->sum += partials[n].sum * factor;
        for (int64_t c = 0; c < job->wide; c++)
            out[c] = (n > 0 ? out[c] : 0) + factor * out[n * job->wide + c];
    }
}

void rogue_merge(struct rogue_job *job)
{
    const struct attn_problem *p = job->p;
    struct rogue_scratch *scratch = &job->scratch[0];
    for (int64_t b = 0; b < p->b; b++)
        for (int64_t h = 0; h < p->hq; h++)
            for (int64_t i = 0; i < p->sq; i++) {
                const int64_t b_read = bug(merge_batch_0) ? 0 : b;
                const int64_t i_read = bug(merge_dv) ? i * p->dv / p->dk : i;
                const int64_t at = ((b_read * p->hq + h) * p->sq + i_read) * job->splits;
                float *out = job->partial_out + at * job->wide;
                rogue_name_row(job, &scratch->rows[0], b, h, i);
                merge_row(job, job->partials + at, out, &scratch->rows[0]);
                if (job->t.weights.dtype)
                    rogue_load_queries(job, scratch, b, 1);
                rogue_finish_rows(job, scratch, b, 1, out);
            }
}
