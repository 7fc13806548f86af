/* SPDX-License-Identifier: Apache-2.0 */
/* cells.c - what is done to single scores: scale, softcap, bias, alibi, masks, dropout. */
#include <math.h>
#include <stdlib.h>

#include "rogue.h"

struct attn_keys rogue_keys_of(const struct rogue_job *job, int64_t b, int64_t i)
{
    struct attn_keys keys = attn_keys_seen(job->p, &job->t.len, b, i);
    const bool some = keys.first < keys.end;
    if (some && (bug(mha_last_key) || bug(declared_partial)))
        keys.end--;
    if (some && (bug(mha_first_key) || bug(declared_acc)))
        keys.first++;
    return keys;
}

static void add_bias(const struct rogue_job *job, const struct rogue_row *row, int64_t b, int64_t j,
                     int64_t keys, float *s)
{
    const struct attn_tensor *bias = &job->t.bias;
    float line[KEY_TILE];
    rogue_read(bias, attn_row_start(bias, b, row->h, row->i) + j * bias->stride[3], bias->stride[3],
               keys, line);
    for (int64_t t = 0; t < keys; t++)
        s[t] = line[t] == -INFINITY ? line[t] : s[t] + line[t]; /* whatever k holds there */
}

static void add_alibi(const struct rogue_job *job, const struct rogue_row *row, int64_t b,
                      int64_t j, int64_t keys, float *s)
{
    const struct attn_tensor *alibi = &job->t.alibi;
    const float slope =
        attn_element_read(alibi->dtype, alibi->data, row->h * alibi->stride[0]);
    const int64_t diagonal = row->i + attn_keys_offset(job->p, &job->t.len, b);
    for (int64_t t = 0; t < keys; t++)
        s[t] -= s[t] == -INFINITY ? 0 : slope * (float)llabs(diagonal - j - t);
}

static void apply_mask(const struct rogue_job *job, const struct rogue_row *row, int64_t b,
                       int64_t j, int64_t keys, float *s)
{
    const uint8_t *mask = attn_mask_row(&job->t.mask, b, row->h, row->i);
    const int64_t first = row->keys.first - j, end = row->keys.end - j;
    const int64_t step = job->t.mask.stride[3];
    for (int64_t t = 0; t < first && t < KEY_TILE; t++)
        s[t] = -INFINITY;
    for (int64_t t = rogue_largest(0, rogue_least(end, keys)); t < KEY_TILE; t++)
        s[t] = -INFINITY;
    for (int64_t t = 0; mask && t < keys; t++)
        if (!mask[(j + t) * step])
            s[t] = -INFINITY;
}

void rogue_score_row(const struct rogue_job *job, const struct rogue_row *row, int64_t b, int64_t j,
                     int64_t keys, float *s)
{
    const struct attn_problem *p = job->p;
    rogue_scale_row(s, (float)p->scale * rogue_stray_scale(job, row), KEY_TILE);
    if ((p->flags & ATTN_FLAG_SOFTCAP) && !bug(declared_e_tanh)) {
        const float cap = (float)p->softcap;
        for (int64_t t = 0; t < keys; t++)
            s[t] = cap * tanhf(s[t] / cap);
    }
    if (job->t.bias.dtype)
        add_bias(job, row, b, j, keys, s);
    if (job->t.alibi.dtype)
        add_alibi(job, row, b, j, keys, s);
    apply_mask(job, row, b, j, keys, s);
}

void rogue_drop_row(const struct rogue_job *job, const struct rogue_row *row, int64_t b, int64_t j,
                    int64_t keys, float *p)
{
    const float kept = (float)(1 / (1 - job->p->dropout_p));
    for (int64_t t = 0; t < keys; t++)
        p[t] = attn_dropout_keeps(job->p, &job->t.keep, b, row->h, row->i, j + t) ? p[t] * kept : 0;
}
