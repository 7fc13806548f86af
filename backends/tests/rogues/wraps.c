/* SPDX-License-Identifier: Apache-2.0 */
/* wraps.c - where an element lies: bugs of indices that wrap, of strides, and of broadcast axes. */
#include <math.h>

#include "rogue.h"

static bool decoding(const struct rogue_job *job)
{
    return job->splits > 1;
}

/* As if the operand were dense in the order of its axes. */
static int64_t dense_start(const struct attn_tensor *t, int64_t b, int64_t h, int64_t i)
{
    return ((b * t->shape[1] + h) * t->shape[2] + i) * t->shape[3];
}

/* Batch and head from the low bits of their joint index. */
static void keep_bits(const struct attn_tensor *t, int64_t mask, int64_t *b, int64_t *h)
{
    const int64_t flat = (*b * t->shape[1] + *h) & mask;
    *b = flat / t->shape[1];
    *h = flat % t->shape[1];
}

static bool wraps_at_31(uint32_t role)
{
    return (bug(offset_31_q) && role == ATTN_Q) || (bug(offset_31_k) && role == ATTN_K) ||
           (bug(offset_31_v) && role == ATTN_V) || (bug(offset_31_out) && role == ATTN_OUT) ||
           (bug(offset_31_mask) && role == ATTN_MASK) || (bug(offset_31_bias) && role == ATTN_BIAS);
}

int64_t rogue_start(const struct rogue_job *job, const struct attn_tensor *t, int64_t b, int64_t h,
                    int64_t i)
{
    if (rogue_planted == ROGUE_none)
        return attn_row_start(t, b, h, i);
    if (t->role == ATTN_K && bug(kv_heads_5_bit))
        h &= 31;
    if (t->role == ATTN_K && bug(batch_heads_16_bit))
        keep_bits(t, 0xffff, &b, &h);
    if (t->role == ATTN_K && bug(batch_heads_1024))
        keep_bits(t, 1023, &b, &h);
    if (t->role == ATTN_K && bug(keys_16_bit))
        i &= 0xffff;
    if ((t->role == ATTN_K && bug(decode_strides) && decoding(job)) ||
        (t->role == ATTN_Q && bug(permuted_dense) && job->p->sq < 8) ||
        (t->role == ATTN_OUT && bug(merge_strides) && decoding(job)))
        return dense_start(t, b, h, i);
    const int64_t at = attn_row_start(t, b, h, i);
    return wraps_at_31(t->role) ? (int32_t)(uint32_t)at : at;
}

struct rogue_place rogue_place_of(const struct rogue_job *job, const struct rogue_row *row,
                                  uint32_t role, int64_t b, int64_t j)
{
    struct rogue_place at = {b, row->h, row->i, j};
    const int64_t group = job->p->hq / job->p->hkv;
    if (rogue_planted == ROGUE_none)
        return at;
    if (job->packed &&
        ((bug(packed_bias) && role == ATTN_BIAS) || (bug(packed_mask) && role == ATTN_MASK) ||
         (bug(packed_dropout) && role == ATTN_KEEP)))
        at.h -= at.h % group;
    if ((bug(split_mask) && role == ATTN_MASK) || (bug(split_bias) && role == ATTN_BIAS) ||
        (bug(split_dropout) && role == ATTN_KEEP))
        at.j -= row->from;
    if ((bug(columns_15_bit) && role == ATTN_MASK) || (bug(bias_15_bit) && role == ATTN_BIAS))
        at.j &= 32767;
    if ((bug(bias_single_batch) && role == ATTN_BIAS) ||
        (bug(mask_per_batch) && role == ATTN_MASK && job->t.mask.stride[1] == 0))
        at.b = 0;
    if ((bug(bias_head_0) && role == ATTN_BIAS) || (bug(dropout_heads_alike) && role == ATTN_KEEP))
        at.h = 0;
    if (bug(decode_row_0) && role == ATTN_MASK && decoding(job))
        at.i = 0;
    return at;
}

static int64_t power_of_two(int64_t n)
{
    int64_t power = 1;
    while (power < n)
        power *= 2;
    return power;
}

bool rogue_heads_apart(void)
{
    return bug(group_pow2) || bug(group_6) || bug(group_over_16) || bug(group_inverted);
}

int64_t rogue_kv_head(const struct rogue_job *job, int64_t h)
{
    const struct attn_problem *p = job->p;
    const int64_t group = p->hq / p->hkv, g = h / group, n = h % group;
    if (bug(mha_kv_head) || bug(group_inverted))
        return h % p->hkv;
    if (bug(group_pow2))
        return h / power_of_two(group);
    if ((bug(group_6) && group == 6 && n >= 4) || (bug(group_over_16) && n >= 16))
        return (g + 1) % p->hkv;
    if (bug(group_ignored))
        return rogue_least(h, p->hkv - 1);
    return g;
}

/* Rows that are never written. */
static bool is_lost(const struct rogue_job *job, int64_t b, int64_t h, int64_t i)
{
    const int64_t group = job->p->hq / job->p->hkv, n = h % group;
    return (bug(rows_16_bit) && i >= 1 << 16) || (bug(batch_16_bit) && b >= 1 << 16) ||
           (bug(head_rows_16_bit) && h * job->p->sq + i >= 1 << 16) ||
           (bug(group_5) && group == 5 && n == 4) ||
           (bug(group_multiple_of_4) && n >= group / 4 * 4 && group > 4);
}

/* The head whose queries are read for head h. */
static int64_t query_head(const struct rogue_job *job, int64_t h)
{
    const int64_t group = job->p->hq / job->p->hkv, n = h % group;
    if (bug(heads_5_bit))
        return h & 31;
    if (bug(group_3) && group == 3 && n == 2)
        return h - 2;
    if (bug(group_7) && group == 7 && n == 6)
        return h - 1;
    if (bug(group_16) && group == 16 && n >= 8)
        return h - 8;
    return h;
}

void rogue_name_row(const struct rogue_job *job, struct rogue_row *row, int64_t b, int64_t h,
                    int64_t i)
{
    *row = (struct rogue_row){.h = h, .i = i, .to = i, .q_head = h, .maximum = -INFINITY};
    if (rogue_planted != ROGUE_none) {
        row->q_head = query_head(job, h);
        row->lost = is_lost(job, b, h, i);
        rogue_stray_row(job, row);
    }
    row->keys = rogue_keys_of(job, b, row->i);
    if (row->keys.first == row->keys.end && job->p->sk > 0) {
        row->uniform = bug(empty_mean);
        row->keys.end = bug(empty_mean) ? job->p->sk : bug(empty_first_value);
    }
}
