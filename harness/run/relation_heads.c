/* SPDX-License-Identifier: Apache-2.0 */
/* relation_heads.c - relations of multi-head attention alone: heads in another order, a bias of k
 * that no softmax sees. */
#include "run/relation.h"

#include <math.h>

#define ADDED_TO_K 2.0 /* a whole number: projections stay exact */

/* ---- permute_heads ---- */

/* Philox numbers its cells by head. Without W_o the columns of out would change places. */
static bool fits_heads(struct attn_relation_work *work)
{
    return attn_relation_projects(work) && attn_relation_problem(work)->hq > 1 &&
           attn_relation_has(work, ATTN_W_O) && !attn_relation_flagged(work, ATTN_FLAG_DROPOUT);
}

/* Query head h takes the place of one that is a group before it, or of its neighbour if all share
 * one key head. */
static int64_t rotated(const struct attn_problem *p, int64_t h)
{
    return (h + (p->hkv > 1 ? p->hq / p->hkv : 1)) % p->hq;
}

static int64_t rotated_key(const struct attn_problem *p, int64_t g)
{
    return (g + 1) % p->hkv;
}

static double value_heads(const struct attn_relation_work *work, int part,
                          const struct attn_tensor *tensor, int64_t at[ATTN_MAX_RANK])
{
    const struct attn_problem *p = attn_relation_problem(work);
    switch (tensor->role) {
    case ATTN_W_Q:
    case ATTN_B_Q:
        at[0] = rotated(p, at[0] / p->dq) * p->dq + at[0] % p->dq;
        break;
    case ATTN_W_K:
    case ATTN_B_K:
        at[0] = rotated_key(p, at[0] / p->dk) * p->dk + at[0] % p->dk;
        break;
    case ATTN_W_V:
    case ATTN_B_V:
        at[0] = rotated_key(p, at[0] / p->dv) * p->dv + at[0] % p->dv;
        break;
    case ATTN_W_O:
        at[1] = rotated(p, at[1] / p->dv) * p->dv + at[1] % p->dv;
        break;
    case ATTN_HEAD_MASK:
    case ATTN_SINK:
    case ATTN_ALIBI:
        at[0] = rotated(p, at[0]);
        break;
    case ATTN_MASK:
    case ATTN_BIAS:
        at[1] = tensor->stride[1] ? rotated(p, at[1]) : at[1];
        break;
    default:
        break;
    }
    return attn_relation_value_same(work, part, tensor, at);
}

/* lse of head h of the made problem is that of the head whose place it has taken. */
static bool expect_heads(struct attn_relation_work *work, const struct attn_place *at,
                         struct attn_expectation *e)
{
    struct attn_place was = *at;
    if (at->c < 0) {
        was.h = rotated(attn_relation_problem(work), at->h);
        was = attn_place_of_lse(&work->was, &was);
    }
    e->want = attn_results_read(&work->was, &was);
    e->got = attn_results_read(&work->is[0], at);
    e->allowed = attn_results_slack(&work->was, &was) + attn_results_slack(&work->is[0], at);
    return true;
}

const struct attn_relation attn_relation_permute_heads = {
    .check = ATTN_CHECK_PERMUTE_HEADS,
    .parts = 1,
    .changes =
        (const uint32_t[]){ATTN_W_Q, ATTN_W_K, ATTN_W_V, ATTN_W_O, ATTN_B_Q, ATTN_B_K, ATTN_B_V,
                           ATTN_HEAD_MASK, ATTN_SINK, ATTN_ALIBI, ATTN_MASK, ATTN_BIAS, 0},
    .fits = fits_heads,
    .value = value_heads,
    .expect = expect_heads,
    .exact = attn_relation_never,
};

/* ---- shift_k ---- */

/* Every score of a row changes by the same q.c. */
static bool fits_shift_k(struct attn_relation_work *work)
{
    return attn_relation_projects(work) && attn_relation_has(work, ATTN_B_K) &&
           !attn_relation_has(work, ATTN_SINK) && !attn_relation_flagged(work, ATTN_FLAG_SOFTCAP);
}

static double value_shift_k(const struct attn_relation_work *work, int part,
                            const struct attn_tensor *tensor, int64_t at[ATTN_MAX_RANK])
{
    return attn_relation_value_same(work, part, tensor, at) +
           (tensor->role == ATTN_B_K ? ADDED_TO_K : 0);
}

static bool expect_shift_k(struct attn_relation_work *work, const struct attn_place *at,
                           struct attn_expectation *e)
{
    return at->c >= 0 && attn_relation_expect_same(work, at, e);
}

const struct attn_relation attn_relation_shift_k = {
    .check = ATTN_CHECK_SHIFT_K,
    .parts = 1,
    .changes = (const uint32_t[]){ATTN_B_K, 0},
    .fits = fits_shift_k,
    .value = value_shift_k,
    .expect = expect_shift_k,
    .exact = attn_relation_never,
};
