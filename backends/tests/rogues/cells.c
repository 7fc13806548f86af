/* SPDX-License-Identifier: Apache-2.0 */
/* cells.c - what is done to single scores: scale, softcap, bias, alibi, masks, dropout. */
#include <math.h>
#include <stdlib.h>

#include "honest.h"
#include "rogue.h"

/* Does this path forget a feature: bug `decode` where keys are split, `packed` with packed heads.
 */
static bool forgets(const struct rogue_job *job, bool decode, bool packed)
{
    return (decode && job->splits > 1) || (packed && job->packed);
}

static void add_bias(const struct rogue_job *job, const struct rogue_row *row, int64_t b, int64_t j,
                     int64_t keys, float *s)
{
    const struct attn_tensor *bias = &job->t.bias;
    const struct rogue_place at = rogue_place_of(job, row, ATTN_BIAS, b, j);
    int64_t start = rogue_start(job, bias, at.b, at.h, at.i);
    float line[KEY_TILE];
    if (bug(bias_row_of_8))
        start -= start % 8;
    rogue_read(bias, start + at.j * bias->stride[3], bias->stride[3], keys, line);
    if (bug(bias_scaled))
        rogue_scale_row(line, (float)job->p->scale, keys);
    for (int64_t t = 0; t < keys; t++)
        s[t] = line[t] == -INFINITY ? line[t] : s[t] + line[t]; /* whatever k holds there */
}

static void add_alibi(const struct rogue_job *job, const struct rogue_row *row, int64_t b,
                      int64_t j, int64_t keys, float *s)
{
    const struct attn_tensor *alibi = &job->t.alibi;
    const int64_t group = job->p->hq / job->p->hkv;
    const int64_t h = bug(packed_alibi) && job->packed ? row->h - row->h % group
                      : bug(alibi_local_head)          ? row->h % (job->p->hq / 2)
                                                       : row->h;
    const float slope = attn_element_read(alibi->dtype, alibi->data, h * alibi->stride[0]);
    const int64_t diagonal =
        row->i + attn_keys_offset(job->p, &job->t.len, b) + (bug(split_alibi) ? row->from : 0);
    const bool by_key = rogue_alibi_by_key(job);
    for (int64_t t = 0; t < keys; t++)
        s[t] += s[t] == -INFINITY ? 0
                : by_key          ? slope * (float)(j + t)
                                  : -slope * (float)llabs(diagonal - j - t);
}

static bool mask_lost(const struct rogue_job *job)
{
    return (bug(causal_hides_mask) && (job->p->flags & ATTN_FLAG_CAUSAL)) ||
           (bug(decode_mask_lost) && job->p->sq == 1);
}

static void apply_mask(const struct rogue_job *job, const struct rogue_row *row, int64_t b,
                       int64_t j, int64_t keys, float *s)
{
    const struct attn_tensor *mask = &job->t.mask;
    const struct rogue_place at = rogue_place_of(job, row, ATTN_MASK, b, j);
    if (!mask->dtype || mask_lost(job))
        return;
    const bool swapped = bug(mask_transposed);
    const uint8_t *data =
        (const uint8_t *)mask->data + rogue_start(job, mask, at.b, at.h, swapped ? at.j : at.i);
    const int64_t step = mask->stride[swapped ? 2 : 3];
    if (swapped)
        data += at.i * mask->stride[3] - at.j * step;
    for (int64_t t = 0; t < keys; t++) {
        const bool forbidden = data[(at.j + t) * step] == 0;
        if (forbidden != bug(mask_inverted_bytes) && !(bug(mask_to_512) && j + t >= 512))
            s[t] = -INFINITY;
    }
}

/* What lies outside the keys of the row takes no part. */
static void apply_range(const struct rogue_job *job, const struct rogue_row *row, int64_t j,
                        int64_t keys, float *s)
{
    const int64_t first = row->keys.first - j, end = row->keys.end - j;
    const float beyond = bug(key_tail_counted) && job->splits > 1 ? 0 : -INFINITY;
    for (int64_t t = 0; t < first && t < KEY_TILE; t++)
        s[t] = bug(window_tile_start) ? s[t] : -INFINITY;
    for (int64_t t = rogue_largest(0, rogue_least(end, keys)); t < KEY_TILE; t++)
        s[t] = t < keys ? -INFINITY : beyond;
}

static void spoil_scores(const struct rogue_job *job, const struct rogue_row *row, int64_t j,
                         int64_t keys, float *s)
{
    const int64_t last = job->p->sk - 1 - j;
    if (bug(softcap_after_mask) && job->splits > 1)
        for (int64_t t = 0; t < keys; t++)
            s[t] = s[t] == -INFINITY ? -(float)job->p->softcap : s[t];
    if (bug(key_mod_32_is_1) && job->p->sk % 32 == 1 && job->t.mask.dtype && last < keys)
        s[last] += 0.693147f;
    for (int64_t t = 0; row->uniform && t < keys; t++)
        s[t] = 0;
}

void rogue_score_row(const struct rogue_job *job, const struct rogue_row *row, int64_t b, int64_t j,
                     int64_t keys, float *s)
{
    const struct attn_problem *p = job->p;
    const double scale = bug(decode_scale) && job->splits > 1 ? 1 / sqrt((double)p->dk) : p->scale;
    rogue_round_scores(job, s);
    rogue_scale_row(s, (float)scale * rogue_stray_scale(job, row), KEY_TILE);
    rogue_round_scores(job, s);
    if ((p->flags & ATTN_FLAG_SOFTCAP) && !bug(declared_e_tanh) &&
        !forgets(job, bug(softcap_decode), bug(softcap_packed))) {
        const float cap = (float)p->softcap;
        for (int64_t t = 0; t < keys; t++)
            s[t] = cap * rogue_round_score(job, tanhf(rogue_round_score(job, s[t] / cap)));
        rogue_round_scores(job, s);
    }
    if (job->t.bias.dtype && !forgets(job, bug(decode_bias_lost), false)) {
        add_bias(job, row, b, j, keys, s);
        rogue_round_scores(job, s);
    }
    if (job->t.alibi.dtype && !forgets(job, bug(decode_alibi_lost), false)) {
        add_alibi(job, row, b, j, keys, s);
        rogue_round_scores(job, s);
    }
    apply_range(job, row, j, keys, s);
    apply_mask(job, row, b, j, keys, s);
    if (rogue_planted != ROGUE_none)
        spoil_scores(job, row, j, keys, s);
}

/* Is a weight kept: attn_dropout_keeps, with the bugs of its index. */
static bool keeps(const struct rogue_job *job, const struct rogue_place *at, int64_t j)
{
    const struct attn_problem *p = job->p;
    if (!bug(philox_31) && !bug(philox_32) && !bug(dropout_seed))
        return attn_dropout_keeps(p, &job->t.keep, at->b, at->h, at->i, j);
    uint64_t index = attn_dropout_index(p, at->b, at->h, at->i) + (uint64_t)j;
    if (bug(philox_31))
        index = (uint64_t)(int64_t)(int32_t)(uint32_t)index;
    if (bug(philox_32))
        index = (uint32_t)index;
    const uint64_t seed = bug(dropout_seed) ? 0x1bf58 : p->dropout_seed;
    return (attn_dropout_word(seed, index) >> 8) * 0x1p-24 >= p->dropout_p;
}

void rogue_drop_row(const struct rogue_job *job, const struct rogue_row *row, int64_t b, int64_t j,
                    int64_t keys, float *p)
{
    const struct rogue_place at = rogue_place_of(job, row, ATTN_KEEP, b, j);
    const double rate = job->p->dropout_p;
    const float kept = (float)(bug(dropout_factor_p) ? rate : 1 / (1 - rate));
    if (bug(dropout_ignored) || forgets(job, bug(decode_dropout_lost), false))
        return;
    for (int64_t t = 0; t < keys; t++)
        p[t] = keeps(job, &at, at.j + t) != (bug(keep_inverted) && job->t.keep.dtype) ? p[t] * kept
                                                                                      : 0;
}
