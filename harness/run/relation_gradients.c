/* SPDX-License-Identifier: Apache-2.0 */
/* relation_gradients.c - relations of gradients: dout in two parts, a constant added to all keys,
 * other values outside what a row or a key sees, heads of keys repeated, keys in two parts, dropout
 * by a mask that is given. */
#include "run/relation.h"

#include <math.h>

#include "reference/operands.h"
#include "reference/philox.h"

static uint32_t role_of(const struct attn_relation_work *work, const struct attn_place *at)
{
    return work->was.tensor[at->output]->role;
}

/* ---- linear_dout ---- */

static bool fits_linear(struct attn_relation_work *work)
{
    return attn_relation_differentiates(work);
}

/* Part 0 has every second element, doubled; part 1 has the others, with the other sign. */
static double value_linear(const struct attn_relation_work *work, int part,
                           const struct attn_tensor *tensor, int64_t at[ATTN_MAX_RANK])
{
    const double was = attn_relation_value_same(work, part, tensor, at);
    if (tensor->role == ATTN_GRAD_LSE)
        return part ? 0 : 2 * was;
    if (tensor->role != ATTN_GRAD_OUT)
        return was;
    return (at[2] + at[3]) % 2 != part ? 0 : part ? -was : 2 * was;
}

static bool expect_linear(struct attn_relation_work *work, const struct attn_place *at,
                          struct attn_expectation *e)
{
    e->want = attn_results_read(&work->was, at);
    e->got = attn_results_read(&work->is[0], at) / 2 - attn_results_read(&work->is[1], at);
    e->allowed = attn_results_slack(&work->was, at) + attn_results_slack(&work->is[0], at) / 2 +
                 attn_results_slack(&work->is[1], at);
    return true;
}

const struct attn_relation attn_relation_linear_dout = {
    .check = ATTN_CHECK_LINEAR_DOUT,
    .parts = 2,
    .structured = true,
    .changes = (const uint32_t[]){ATTN_GRAD_OUT, ATTN_GRAD_LSE, 0},
    .fits = fits_linear,
    .value = value_linear,
    .expect = expect_linear,
    .exact = attn_relation_never,
};

/* ---- shift_k ---- */

/* Keys on a grid on which adding the constant rounds nothing, even in bf16. */
#define GRID  0x1p-5
#define MOST  3.0
#define ADDED 2.0

/* Every score of a row changes by the same q.c, and the sum of dS over a row is 0, but for a
 * gradient of lse. */
static bool fits_shift_k(struct attn_relation_work *work)
{
    return !attn_relation_has(work, ATTN_SINK) && !attn_relation_has(work, ATTN_GRAD_LSE) &&
           !attn_relation_flagged(work, ATTN_FLAG_SOFTCAP);
}

static double value_shift_k(const struct attn_relation_work *work, int part,
                            const struct attn_tensor *tensor, int64_t at[ATTN_MAX_RANK])
{
    const double was = attn_relation_value_same(work, part, tensor, at);
    if (tensor->role != ATTN_K)
        return was;
    return fmax(-MOST, fmin(round(was / GRID) * GRID, MOST)) + (part ? ADDED : 0);
}

static bool expect_shift_k(struct attn_relation_work *work, const struct attn_place *at,
                           struct attn_expectation *e)
{
    e->want = attn_results_read(&work->is[0], at);
    e->got = attn_results_read(&work->is[1], at);
    e->allowed = attn_results_slack(&work->is[0], at) + attn_results_slack(&work->is[1], at);
    return true;
}

const struct attn_relation attn_relation_shift_k_gradients = {
    .check = ATTN_CHECK_SHIFT_K,
    .parts = 2,
    .structured = true,
    .derived = true,
    .changes = (const uint32_t[]){ATTN_K, 0},
    .fits = fits_shift_k,
    .value = value_shift_k,
    .expect = expect_shift_k,
    .exact = attn_relation_never,
};

/* ---- causal_prefix ---- */

/* Part 0 changes keys from the pivot on, part 1 the first rows: about half of each. */
static int64_t rows_changed(const struct attn_relation_work *work)
{
    const int64_t sq = attn_relation_problem(work)->sq;
    return sq / 2 + 1 < sq ? sq / 2 + 1 : sq;
}

static bool fits_causal(struct attn_relation_work *work)
{
    const int64_t least = attn_relation_least_offset(work);
    work->pivot = least + rows_changed(work) < 1 ? 1 : least + rows_changed(work);
    return attn_relation_flagged(work, ATTN_FLAG_CAUSAL) && work->numerics.deterministic;
}

/* LSE is the case's own, so other scores give weights beyond 1. These keep them where 16 bits hold
 * them: an infinity would meet another in rows that are not compared. */
static double other_factor(double was)
{
    return -was / 2;
}

static double other_value(double was)
{
    return 30 - was;
}

static double value_causal(const struct attn_relation_work *work, int part,
                           const struct attn_tensor *tensor, int64_t at[ATTN_MAX_RANK])
{
    const double was = attn_relation_value_same(work, part, tensor, at);
    switch (tensor->role) {
    case ATTN_K:
    case ATTN_V:
        return part || at[2] < work->pivot ? was
               : tensor->role == ATTN_K    ? other_factor(was)
                                           : other_value(was);
    case ATTN_Q:
    case ATTN_GRAD_OUT:
        return !part || at[2] >= rows_changed(work) ? was
               : tensor->role == ATTN_Q             ? other_factor(was)
                                                    : other_value(was);
    default:
        return was;
    }
}

/* dq of rows that see no changed key, dk and dv of keys that no changed row sees. */
static bool expect_causal(struct attn_relation_work *work, const struct attn_place *at,
                          struct attn_expectation *e)
{
    const uint32_t role = role_of(work, at);
    const int64_t off = attn_relation_offset(work, at->b);
    const bool row = role == ATTN_GRAD_Q && at->i + off < work->pivot;
    const bool key =
        (role == ATTN_GRAD_K || role == ATTN_GRAD_V) && at->at[2] >= rows_changed(work) + off;
    e->want = attn_results_read(&work->was, at);
    e->got = attn_results_read(&work->is[row ? 0 : 1], at);
    e->allowed = 0;
    return row || key;
}

const struct attn_relation attn_relation_causal_gradients = {
    .check = ATTN_CHECK_CAUSAL_PREFIX,
    .parts = 2,
    .changes = (const uint32_t[]){ATTN_Q, ATTN_K, ATTN_V, ATTN_GRAD_OUT, 0},
    .fits = fits_causal,
    .value = value_causal,
    .expect = expect_causal,
    .exact = attn_relation_always,
};

/* ---- gqa ---- */

static bool fits_gqa(struct attn_relation_work *work)
{
    return attn_relation_problem(work)->hkv < attn_relation_problem(work)->hq;
}

static void recast_gqa(const struct attn_relation_work *work, int part, struct attn_case *c)
{
    (void)work, (void)part;
    c->hkv = c->hq;
}

static double value_gqa(const struct attn_relation_work *work, int part,
                        const struct attn_tensor *tensor, int64_t at[ATTN_MAX_RANK])
{
    const struct attn_problem *p = attn_relation_problem(work);
    if (tensor->role == ATTN_K || tensor->role == ATTN_V)
        at[1] /= p->hq / p->hkv;
    return attn_relation_value_same(work, part, tensor, at);
}

/* dk and dv of a key head are the sums of those of its query heads. */
static bool expect_gqa(struct attn_relation_work *work, const struct attn_place *at,
                       struct attn_expectation *e)
{
    const struct attn_problem *p = attn_relation_problem(work);
    const uint32_t role = role_of(work, at);
    const int64_t heads = role == ATTN_GRAD_K || role == ATTN_GRAD_V ? p->hq / p->hkv : 1;
    struct attn_place own = *at;
    e->want = attn_results_read(&work->was, at);
    e->allowed = attn_results_slack(&work->was, at);
    e->got = 0;
    for (int64_t n = 0; n < heads; n++) {
        if (heads > 1)
            own.at[1] = at->at[1] * heads + n;
        e->got += attn_results_read(&work->is[0], &own);
        e->allowed += attn_results_slack(&work->is[0], &own);
    }
    return true;
}

const struct attn_relation attn_relation_gqa_gradients = {
    .check = ATTN_CHECK_GQA,
    .parts = 1,
    .changes = (const uint32_t[]){ATTN_K, ATTN_V, 0},
    .fits = fits_gqa,
    .recast = recast_gqa,
    .value = value_gqa,
    .expect = expect_gqa,
    .exact = attn_relation_never,
};

/* ---- split ---- */

/* The parts have the LSE and OUT of all keys, so it fits plans that use these. Bottom right with
 * lengths: every batch has its own offset, but a case has only one. */
static bool fits_split(struct attn_relation_work *work)
{
    const struct attn_problem *p = attn_relation_problem(work);
    work->pivot = p->sk / 2;
    return p->sk > 1 && !work->numerics.bwd_lse && !work->numerics.bwd_delta &&
           (attn_relation_has(work, ATTN_KEEP) ||
            !attn_relation_flagged(work, ATTN_FLAG_DROPOUT)) &&
           !(attn_relation_flagged(work, ATTN_FLAG_OFF_BR) && attn_relation_has(work, ATTN_LEN));
}

static void recast_split(const struct attn_relation_work *work, int part, struct attn_case *c)
{
    c->off = attn_relation_offset(work, 0) - (part ? work->pivot : 0);
    c->off_br = false;
    c->sk = part ? c->sk - work->pivot : work->pivot;
}

static double value_split(const struct attn_relation_work *work, int part,
                          const struct attn_tensor *tensor, int64_t at[ATTN_MAX_RANK])
{
    const int axis = attn_relation_key_axis(tensor->role);
    if (axis >= 0 && tensor->stride[axis] != 0)
        at[axis] += part ? work->pivot : 0;
    const double value = attn_relation_value_same(work, part, tensor, at);
    if (tensor->role != ATTN_LEN)
        return value;
    return part ? fmax(value - (double)work->pivot, 0) : fmin(value, (double)work->pivot);
}

/* What a part has of an element. False: the element is one of the other part's keys. */
static bool add_part(struct attn_relation_work *work, int part, const struct attn_place *at,
                     struct attn_expectation *e)
{
    const int axis = attn_relation_output_axis(&work->was, at->output, "jZ");
    struct attn_place own = *at;
    if (axis >= 0 && (at->at[axis] >= work->pivot) != part)
        return false;
    if (axis >= 0)
        own.at[axis] -= part ? work->pivot : 0;
    e->got += attn_results_read(&work->is[part], &own);
    e->allowed += attn_results_slack(&work->is[part], &own);
    return true;
}

/* dk, dv and a bias of a key are those of the part that has it; all else adds up. The gradient of a
 * sink has no keys: each part has all of it. */
static bool expect_split(struct attn_relation_work *work, const struct attn_place *at,
                         struct attn_expectation *e)
{
    e->want = attn_results_read(&work->was, at);
    e->allowed = attn_results_slack(&work->was, at);
    e->got = 0;
    add_part(work, 0, at, e);
    add_part(work, 1, at, e);
    return role_of(work, at) != ATTN_GRAD_SINK;
}

const struct attn_relation attn_relation_split_gradients = {
    .check = ATTN_CHECK_SPLIT,
    .parts = 2,
    .fits = fits_split,
    .recast = recast_split,
    .value = value_split,
    .expect = expect_split,
    .exact = attn_relation_never,
};

/* ---- keep ---- */

static bool fits_keep(struct attn_relation_work *work)
{
    return attn_relation_flagged(work, ATTN_FLAG_DROPOUT) && !attn_relation_has(work, ATTN_KEEP);
}

static void recast_keep(const struct attn_relation_work *work, int part, struct attn_case *c)
{
    (void)work, (void)part;
    c->keep = true;
}

static double value_keep(const struct attn_relation_work *work, int part,
                         const struct attn_tensor *tensor, int64_t at[ATTN_MAX_RANK])
{
    const struct attn_problem *p = attn_relation_problem(work);
    const int64_t row = (at[0] * p->hq + at[1]) * p->sq + at[2];
    return tensor->role == ATTN_KEEP
               ? attn_dropout_keep(p->dropout_seed, (uint64_t)(row * p->sk + at[3]), p->dropout_p)
               : attn_relation_value_same(work, part, tensor, at);
}

const struct attn_relation attn_relation_keep_gradients = {
    .check = ATTN_CHECK_KEEP,
    .parts = 1,
    .changes = (const uint32_t[]){ATTN_KEEP, 0},
    .fits = fits_keep,
    .recast = recast_keep,
    .value = value_keep,
    .expect = attn_relation_expect_same,
    .exact = attn_relation_never,
};
