/* SPDX-License-Identifier: Apache-2.0 */
/* mask.c - which cells take part. */
#include "mutant.h"

static int64_t valid_keys(const struct mutant_job *job, int64_t b, int64_t i)
{
    const struct attn_tensor *len = &job->operands.view[ATTN_LEN];
    if (!len->dtype || bug(len_ignored))
        return job->p->sk;
    int64_t n = ((const int32_t *)
                     len->data)[b * len->stride[0] + (len->rank == 2 ? i * len->stride[1] : 0)];
    if (bug(len_minus_one) && n > 0)
        return n - 1;
    if (bug(len_plus_one))
        return mutant_least(n + 1, job->p->sk);
    if (bug(neighbour_batch) && n < job->p->sk && b + 1 < job->p->b)
        return n + 1;
    if (bug(len_on_queries))
        return i < n ? job->p->sk : 0;
    if (bug(zero_length) && n == 0)
        return job->p->sk;
    return n;
}

int64_t mutant_offset(const struct mutant_job *job, int64_t b)
{
    const struct attn_problem *p = job->p;
    bool bottom_right = (p->flags & ATTN_FLAG_OFF_BR) != 0;
    if (bug(causal_br_as_top_left))
        bottom_right = false;
    if (bug(causal_top_left_as_br))
        bottom_right = true;
    return bottom_right ? valid_keys(job, b, 0) - p->sq : p->off;
}

static bool in_causal(const struct mutant_job *job, int64_t diagonal, int64_t j)
{
    if (!(job->p->flags & ATTN_FLAG_CAUSAL))
        return true;
    if (bug(causal_diagonal_plus))
        return j <= diagonal + 1;
    if (bug(causal_diagonal_minus))
        return j < diagonal;
    return j <= diagonal;
}

static bool in_window(const struct mutant_job *job, int64_t diagonal, int64_t j)
{
    int64_t left = job->p->window_left, right = job->p->window_right;
    if (!(job->p->flags & ATTN_FLAG_WINDOW))
        return true;
    if (bug(window_swapped)) {
        left = job->p->window_right;
        right = job->p->window_left;
    }
    const bool bounded = bug(window_unbounded_literal);
    const bool no_left = left < 0 && !bounded, no_right = right < 0 && !bounded;
    left += bug(window_left_plus) - bug(window_left_minus);
    right += bug(window_right_plus) - bug(window_right_minus);
    return (no_left || j >= diagonal - left) && (no_right || j <= diagonal + right);
}

static bool in_boolean(const struct mutant_job *job, int64_t b, int64_t h, int64_t i, int64_t j)
{
    const struct attn_tensor *mask = &job->operands.view[ATTN_MASK];
    if (!mask->dtype)
        return true;
    const unsigned char byte =
        ((const unsigned char *)mask->data)[mutant_at(job, ATTN_MASK, b, h, i, j)];
    if (bug(bool_is_one))
        return byte == 1;
    if (bug(bool_low_bit))
        return (byte & 1) != 0;
    return (byte != 0) != bug(mask_inverted);
}

bool mutant_allowed(const struct mutant_job *job, int64_t b, int64_t h, int64_t i, int64_t j)
{
    const int64_t diagonal = i + mutant_offset(job, b);
    if (bug(causal_tile_included)) { /* judged by the last row and the first key of its tile */
        const int64_t last = diagonal + (QUERY_TILE - 1 - i % QUERY_TILE);
        const int64_t end = j - j % KEY_TILE + KEY_TILE - 1;
        if (end <= last)
            return j < valid_keys(job, b, i) && in_boolean(job, b, h, i, j);
    }
    return j < valid_keys(job, b, i) && in_causal(job, diagonal, j) &&
           in_window(job, diagonal, j) && in_boolean(job, b, h, i, j);
}

bool mutant_tile_masked(const struct mutant_job *job, int64_t b, int64_t i, int64_t j)
{
    if (!(job->p->flags & ATTN_FLAG_CAUSAL) || bug(causal_diagonal_plus))
        return false;
    const int64_t last = i + QUERY_TILE - 1 + mutant_offset(job, b);
    return bug(causal_tile_skipped) ? j >= last : j > last;
}

bool mutant_kept(const struct mutant_job *job, int64_t b, int64_t h, int64_t i, int64_t j)
{
    if (bug(dropout_shifted))
        j = (j + 1) % job->p->sk;
    return attn_dropout_keeps(job->p, &job->operands.view[ATTN_KEEP], b, h, i, j);
}
