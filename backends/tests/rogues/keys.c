/* SPDX-License-Identifier: Apache-2.0 */
/* keys.c - the keys that a query sees by lengths, causal masks and windows, and how kernels got
 * them wrong. */
#include "rogue.h"

/* The problem as a kernel with a bug of windows or offsets reads it. */
static void misread(const struct rogue_job *job, struct attn_problem *p)
{
    const bool decoding = job->splits > 1;
    if ((bug(decode_top_left) && decoding) || bug(window_top_left)) {
        p->flags &= ~ATTN_FLAG_OFF_BR;
        p->off = 0;
    }
    if ((bug(decode_window_ignored) && decoding) || (bug(window_prefill_ignored) && !decoding))
        p->flags &= ~ATTN_FLAG_WINDOW;
    if ((bug(decode_window_minus) && decoding) || (bug(window_left_exclusive) && !decoding))
        p->window_left--;
    if (bug(window_plus_one))
        p->window_left++;
    if (bug(decode_window_blocks) && decoding)
        p->window_left = p->window_left / KEY_TILE * KEY_TILE;
    if (bug(decode_window_both) && decoding)
        p->window_right = p->window_left;
    if (bug(causal_lost_weights) && job->t.weights.dtype)
        p->flags &= ~ATTN_FLAG_CAUSAL;
}

/* Keys that are left out or taken in at the ends of the range. */
static void misplace(const struct rogue_job *job, struct attn_keys *keys, int64_t diagonal)
{
    const bool decoding = job->splits > 1;
    const struct attn_problem *p = job->p;
    if (bug(mha_last_key) || bug(declared_partial) || bug(joint_all_last_key) ||
        bug(joint_values_last_key) || bug(joint_sums_last_key))
        keys->end--;
    if (bug(mha_first_key) || bug(declared_acc))
        keys->first++;
    if (((bug(causal_15_bit) && decoding) || (bug(window_15_bit) && !decoding)) &&
        diagonal >= 1 << 15)
        keys->first = rogue_largest(keys->first, 1 << 15);
    if (bug(softmax_15_bit))
        keys->end = rogue_least(keys->end, 1 << 15);
    if (bug(softmax_16_bit))
        keys->end = rogue_least(keys->end, 1 << 16);
    if (bug(keys_as_queries))
        keys->end = rogue_least(keys->end, p->sq);
    if (bug(decode_len_blocks) && decoding)
        keys->end = rogue_least(p->sk, (keys->end + 15) / 16 * 16);
}

struct attn_keys rogue_keys_of(const struct rogue_job *job, int64_t b, int64_t i)
{
    if (rogue_planted == ROGUE_none)
        return attn_keys_seen(job->p, &job->t.len, b, i);
    struct attn_problem p = *job->p;
    misread(job, &p);
    if (bug(decode_len_batch_0) && job->splits > 1)
        b = 0;
    if (bug(packed_causal) && job->packed)
        i /= job->p->hq / job->p->hkv;
    if (bug(decode_row_0) && job->splits > 1)
        i = 0;
    if (bug(queries_12_bit))
        i &= 4095;
    struct attn_keys keys = attn_keys_seen(&p, &job->t.len, b, i);
    if (keys.first < keys.end)
        misplace(job, &keys, i + attn_keys_offset(&p, &job->t.len, b));
    if (keys.first >= keys.end)
        keys.first = keys.end = 0;
    return keys;
}
