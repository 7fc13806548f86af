/* SPDX-License-Identifier: Apache-2.0 */
/* relation_table.c - the table of relations, and what most of them have in common. */
#include <string.h>

#include "reference/operands.h"
#include "reference/score.h"
#include "run/relation.h"

const struct attn_problem *attn_relation_problem(const struct attn_relation_work *work)
{
    return &work->base->problem;
}

bool attn_relation_has(const struct attn_relation_work *work, uint32_t role)
{
    return attn_tensor_find(attn_relation_problem(work), role) != NULL;
}

bool attn_relation_flagged(const struct attn_relation_work *work, uint64_t flags)
{
    return (attn_relation_problem(work)->flags & flags) != 0;
}

bool attn_relation_by_position(const struct attn_relation_work *work)
{
    const struct ref_score *score = ref_score_find(attn_relation_problem(work)->score);
    return attn_relation_flagged(work, ATTN_FLAG_CAUSAL | ATTN_FLAG_WINDOW) ||
           attn_relation_has(work, ATTN_ALIBI) || attn_relation_has(work, ATTN_GLOBAL) ||
           (score && score->traits & REF_SCORE_PLACES);
}

bool attn_relation_attends(const struct attn_relation_work *work)
{
    return ref_op_is(attn_relation_problem(work)->op, REF_QKV) &&
           ref_is_softmax(attn_relation_problem(work));
}

bool attn_relation_weighs(const struct attn_relation_work *work)
{
    return ref_op_is(attn_relation_problem(work)->op, REF_QKV | REF_SOFTMAX) &&
           !ref_is_softmax(attn_relation_problem(work));
}

bool attn_relation_sums(const struct attn_relation_work *work)
{
    return attn_relation_flagged(work, ATTN_FLAG_WEIGHT);
}

bool attn_relation_projects(const struct attn_relation_work *work)
{
    const struct attn_problem *p = attn_relation_problem(work);
    bool single = work->inner && work->inner->exact;
    for (int64_t o = 0; single && o < ref_output_width(p, 0); o++)
        single = work->inner->sources[o].column >= 0;
    return single && (ref_score_find(p->score)->traits & REF_SCORE_PRODUCT) &&
           !attn_relation_has(work, ATTN_SCORE_M);
}

bool attn_relation_differentiates(const struct attn_relation_work *work)
{
    return attn_relation_has(work, ATTN_GRAD_OUT);
}

bool attn_relation_bounded(const struct attn_relation_work *work)
{
    return attn_relation_attends(work) || attn_relation_projects(work) ||
           attn_relation_weighs(work) || attn_relation_differentiates(work);
}

/* The case's own operand at these indices. */
static double base(const struct attn_relation_work *work, const struct attn_tensor *like,
                   const int64_t *at)
{
    return ref_load(attn_tensor_find(attn_relation_problem(work), like->role), at);
}

int64_t attn_relation_offset(const struct attn_relation_work *work, int64_t b)
{
    struct ref_operands operands;
    ref_operands_init(&operands, attn_relation_problem(work));
    return ref_offset(&operands, b);
}

int64_t attn_relation_least_offset(const struct attn_relation_work *work)
{
    int64_t least = INT64_MAX;
    for (int64_t b = 0; b < attn_relation_problem(work)->b; b++)
        least = attn_relation_offset(work, b) < least ? attn_relation_offset(work, b) : least;
    return least;
}

/* The axis of keys in a tensor; -1: it has none. */
int attn_relation_key_axis(uint32_t role)
{
    switch (role) {
    case ATTN_K:
    case ATTN_V:
    case ATTN_K_GLOBAL:
    case ATTN_V_GLOBAL:
        return 2;
    case ATTN_X_K:
        return 1;
    case ATTN_MASK:
    case ATTN_BIAS:
    case ATTN_KEEP:
        return 3;
    default:
        return -1;
    }
}

int attn_relation_output_axis(const struct attn_results *results, int output, const char *letters)
{
    const char *shape = ref_op_find(results->instance->problem.op)->outputs[output].shape;
    const char *axis = strpbrk(shape, letters);
    return axis && results->tensor[output]->shape[axis - shape] > 1 ? (int)(axis - shape) : -1;
}

bool attn_relation_expect_same(struct attn_relation_work *work, const struct attn_place *at,
                               struct attn_expectation *e)
{
    e->want = attn_results_read(&work->was, at);
    e->got = attn_results_read(&work->is[0], at);
    e->allowed = attn_results_slack(&work->was, at) + attn_results_slack(&work->is[0], at);
    return true;
}

double attn_relation_value_same(const struct attn_relation_work *work, int part,
                                const struct attn_tensor *tensor, int64_t at[ATTN_MAX_RANK])
{
    (void)part;
    return base(work, tensor, at);
}

bool attn_relation_always(const struct attn_relation_work *work)
{
    (void)work;
    return true;
}

bool attn_relation_never(const struct attn_relation_work *work)
{
    (void)work;
    return false;
}

static const struct attn_relation *const of_results[ATTN_CHECK_THREADS + 1] = {
    [ATTN_CHECK_PERMUTE_KEYS] = &attn_relation_permute_keys,
    [ATTN_CHECK_SHIFT] = &attn_relation_shift,
    [ATTN_CHECK_SCALE_V] = &attn_relation_scale_v,
    [ATTN_CHECK_LINEAR_V] = &attn_relation_linear_v,
    [ATTN_CHECK_ONES] = &attn_relation_ones,
    [ATTN_CHECK_CAUSAL_PREFIX] = &attn_relation_causal_prefix,
    [ATTN_CHECK_GQA] = &attn_relation_gqa,
    [ATTN_CHECK_BATCH] = &attn_relation_batch,
    [ATTN_CHECK_SPLIT] = &attn_relation_split,
    [ATTN_CHECK_DUPLICATE_KEY] = &attn_relation_duplicate_key,
    [ATTN_CHECK_KEEP] = &attn_relation_keep,
    [ATTN_CHECK_FUNCTIONS] = &attn_relation_functions,
    [ATTN_CHECK_PERMUTE_QUERIES] = &attn_relation_permute_queries,
    [ATTN_CHECK_PERMUTE_HEADS] = &attn_relation_permute_heads,
    [ATTN_CHECK_SHIFT_K] = &attn_relation_shift_k,
    [ATTN_CHECK_CHUNKS] = &attn_relation_chunks,
    [ATTN_CHECK_IDENTITY_PROJECTION] = &attn_relation_identity_projection,
    [ATTN_CHECK_NO_DENOMINATOR] = &attn_relation_no_denominator,
    [ATTN_CHECK_THREADS] = &attn_relation_threads,
};

/* Of gradients. */
static const struct attn_relation *const of_gradients[ATTN_CHECK_THREADS + 1] = {
    [ATTN_CHECK_PERMUTE_KEYS] = &attn_relation_permute_keys,
    [ATTN_CHECK_SCALE_V] = &attn_relation_scale_v,
    [ATTN_CHECK_CAUSAL_PREFIX] = &attn_relation_causal_gradients,
    [ATTN_CHECK_GQA] = &attn_relation_gqa_gradients,
    [ATTN_CHECK_BATCH] = &attn_relation_batch,
    [ATTN_CHECK_SPLIT] = &attn_relation_split_gradients,
    [ATTN_CHECK_KEEP] = &attn_relation_keep_gradients,
    [ATTN_CHECK_PERMUTE_QUERIES] = &attn_relation_permute_queries,
    [ATTN_CHECK_SHIFT_K] = &attn_relation_shift_k_gradients,
    [ATTN_CHECK_LINEAR_DOUT] = &attn_relation_linear_dout,
    [ATTN_CHECK_THREADS] = &attn_relation_threads,
};

const struct attn_relation *attn_relation_of(const struct attn_problem *problem,
                                             enum attn_check check)
{
    if (check > ATTN_CHECK_THREADS)
        return NULL;
    return attn_tensor_find(problem, ATTN_GRAD_OUT) ? of_gradients[check] : of_results[check];
}
