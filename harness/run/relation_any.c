/* SPDX-License-Identifier: Apache-2.0 */
/* relation_any.c - relations that do not depend on how q, k and v combine: the past alone, one
 * batch entry alone, another number of threads. */
#include "run/relation.h"

#include <string.h>

/* ---- causal_prefix ---- */

/* The first key that changes. About half of the rows see no changed key. */
static bool fits_prefix(struct attn_relation_work *work)
{
    const struct attn_problem *p = attn_relation_problem(work);
    if (!attn_relation_flagged(work, ATTN_FLAG_CAUSAL) || !work->numerics.deterministic ||
        ref_op_find(p->op)->stabilised)
        return false;
    const int64_t least = attn_relation_least_offset(work);
    work->pivot = least + p->sq / 2 + 1;
    work->pivot = work->pivot < 1 ? 1 : work->pivot;
    return work->pivot < p->sk && least < work->pivot;
}

static double value_prefix(const struct attn_relation_work *work, int part,
                           const struct attn_tensor *tensor, int64_t at[ATTN_MAX_RANK])
{
    const double was = attn_relation_value_same(work, part, tensor, at);
    const int axis = tensor->rank == 4 ? 2 : 1;
    const uint32_t keys = attn_relation_has(work, ATTN_X_K) ? ATTN_X_K : ATTN_X_Q;
    if (at[axis] < work->pivot)
        return was;
    switch (tensor->role) {
    case ATTN_V:
    case ATTN_V_GLOBAL:
        return 300 - was;
    case ATTN_K:
    case ATTN_K_GLOBAL:
    case ATTN_LIN_K:
        return 1 - 3 * was;
    default:
        return tensor->role == keys ? 1 - 3 * was : was;
    }
}

static bool expect_prefix(struct attn_relation_work *work, const struct attn_place *at,
                          struct attn_expectation *e)
{
    const bool own =
        !attn_relation_attends(work) && !attn_relation_has(work, ATTN_X_K) && at->i >= work->pivot;
    e->want = attn_results_read(&work->was, at);
    e->got = attn_results_read(&work->is[0], at);
    e->allowed = 0;
    return !own && at->i + attn_relation_offset(work, at->b) < work->pivot;
}

const struct attn_relation attn_relation_causal_prefix = {
    .check = ATTN_CHECK_CAUSAL_PREFIX,
    .parts = 1,
    .fits = fits_prefix,
    .value = value_prefix,
    .expect = expect_prefix,
    .exact = attn_relation_always,
};

/* ---- batch ---- */

static bool is_batch_exact(const struct attn_relation_work *work)
{
    return work->numerics.invariant & ATTN_INVARIANT_BATCH;
}

/* Is each batch entry a result of its own? Then all outputs that there are have batches. */
static bool has_batches(const struct attn_relation_work *work)
{
    const struct attn_problem *p = attn_relation_problem(work);
    const struct ref_op *op = ref_op_find(p->op);
    bool all = !(op->coupled && op->coupled(p));
    for (const struct ref_output *o = op->outputs; o->role; o++)
        all = all && (strchr(o->shape, 'b') || !attn_tensor_find(p, o->role));
    return all;
}

/* Philox numbers its cells over all batches. */
static bool fits_batch(struct attn_relation_work *work)
{
    return attn_relation_problem(work)->b > 1 && has_batches(work) &&
           !attn_relation_flagged(work, ATTN_FLAG_DROPOUT) &&
           (attn_relation_bounded(work) || is_batch_exact(work));
}

static void recast_batch(const struct attn_relation_work *work, int part, struct attn_case *c)
{
    (void)work, (void)part;
    c->b = 1;
}

static double value_batch(const struct attn_relation_work *work, int part,
                          const struct attn_tensor *tensor, int64_t at[ATTN_MAX_RANK])
{
    const struct ref_operand *row =
        ref_operand_of(ref_op_find(attn_relation_problem(work)->op), tensor->role);
    if (row->shape[0] == 'b')
        at[0] = attn_relation_problem(work)->b - 1;
    return attn_relation_value_same(work, part, tensor, at);
}

static bool expect_batch(struct attn_relation_work *work, const struct attn_place *at,
                         struct attn_expectation *e)
{
    const struct attn_place alone = attn_place_in_batch(&work->is[0], at, 0);
    if (at->b != attn_relation_problem(work)->b - 1)
        return false;
    e->want = attn_results_read(&work->was, at);
    e->got = attn_results_read(&work->is[0], &alone);
    e->allowed = is_batch_exact(work) ? 0
                                      : attn_results_slack(&work->was, at) +
                                            attn_results_slack(&work->is[0], &alone);
    return true;
}

const struct attn_relation attn_relation_batch = {
    .check = ATTN_CHECK_BATCH,
    .parts = 1,
    .fits = fits_batch,
    .recast = recast_batch,
    .value = value_batch,
    .expect = expect_batch,
    .exact = is_batch_exact,
};

/* ---- threads ---- */

static bool is_threads_exact(const struct attn_relation_work *work)
{
    return work->numerics.invariant & ATTN_INVARIANT_THREADS;
}

static bool fits_threads(struct attn_relation_work *work)
{
    return attn_relation_bounded(work) || is_threads_exact(work);
}

static bool expect_threads(struct attn_relation_work *work, const struct attn_place *at,
                           struct attn_expectation *e)
{
    attn_relation_expect_same(work, at, e);
    e->allowed = is_threads_exact(work) ? 0 : e->allowed;
    return true;
}

const struct attn_relation attn_relation_threads = {
    .check = ATTN_CHECK_THREADS,
    .parts = 1,
    .changes = (const uint32_t[]){0},
    .fits = fits_threads,
    .value = attn_relation_value_same,
    .expect = expect_threads,
    .exact = is_threads_exact,
};
