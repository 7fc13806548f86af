/* SPDX-License-Identifier: Apache-2.0 */
/* relation_queries.c - a relation that changes the order of the queries. */
#include "run/relation.h"

/* The axis of queries in an input; -1: it has none. */
static int query_axis(const struct attn_tensor *tensor)
{
    switch (tensor->role) {
    case ATTN_Q:
    case ATTN_MASK:
    case ATTN_BIAS:
    case ATTN_KEEP:
    case ATTN_GATE:
    case ATTN_OUT:
    case ATTN_LSE:
    case ATTN_GRAD_OUT:
    case ATTN_GRAD_LSE:
        return 2;
    case ATTN_LEN:
        return tensor->rank == 2 ? 1 : -1;
    default:
        return -1;
    }
}

/* What goes by the number of a query cannot move with it. */
static bool fits_queries(struct attn_relation_work *work)
{
    return (attn_relation_attends(work) || attn_relation_weighs(work) ||
            attn_relation_differentiates(work)) &&
           !attn_relation_by_position(work) &&
           (attn_relation_has(work, ATTN_KEEP) ||
            !attn_relation_flagged(work, ATTN_FLAG_DROPOUT)) &&
           attn_relation_problem(work)->sq > 1;
}

static double value_queries(const struct attn_relation_work *work, int part,
                            const struct attn_tensor *tensor, int64_t at[ATTN_MAX_RANK])
{
    const int axis = query_axis(tensor);
    if (axis >= 0)
        at[axis] = attn_relation_permuted(at[axis], attn_relation_problem(work)->sq);
    return attn_relation_value_same(work, part, tensor, at);
}

/* Query i of the made problem is another one of the case: results follow it. */
static bool expect_queries(struct attn_relation_work *work, const struct attn_place *at,
                           struct attn_expectation *e)
{
    const int64_t sq = attn_relation_problem(work)->sq;
    const int axis = attn_relation_output_axis(&work->was, at->output, "iY");
    struct attn_place from = *at;
    from.i = attn_relation_permuted(at->i, sq);
    if (axis >= 0)
        from.at[axis] = attn_relation_permuted(at->at[axis], sq);
    e->want = attn_results_read(&work->was, &from);
    e->got = attn_results_read(&work->is[0], at);
    e->allowed = attn_results_slack(&work->was, &from) + attn_results_slack(&work->is[0], at);
    return true;
}

const struct attn_relation attn_relation_permute_queries = {
    .check = ATTN_CHECK_PERMUTE_QUERIES,
    .parts = 1,
    .fits = fits_queries,
    .value = value_queries,
    .expect = expect_queries,
    .exact = attn_relation_never,
};
