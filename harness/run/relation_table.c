/* SPDX-License-Identifier: Apache-2.0 */
/* relation_table.c - the relations: how each problem is made, and what its result must be. */
#include <math.h>
#include <string.h>

#include "reference/dtype.h"
#include "reference/operands.h"
#include "reference/philox.h"
#include "run/relation.h"

#define SHIFT 16.0 /* exact in every type, and beyond the scores of random inputs */

static const struct attn_problem *problem(const struct attn_relation_work *work)
{
    return &work->base->problem;
}

static bool has(const struct attn_relation_work *work, uint32_t role)
{
    return attn_tensor_find(problem(work), role) != NULL;
}

static bool flagged(const struct attn_relation_work *work, uint64_t flags)
{
    return (problem(work)->flags & flags) != 0;
}

static bool attends(const struct attn_relation_work *work)
{
    return ref_op_is(problem(work)->op, REF_QKV | REF_SOFTMAX);
}

/* The case's own operand at these indices. */
static double base(const struct attn_relation_work *work, const struct attn_tensor *like,
                   const int64_t *at)
{
    return ref_load(attn_tensor_find(problem(work), like->role), at);
}

static int64_t offset(const struct attn_relation_work *work, int64_t b)
{
    struct ref_operands operands;
    ref_operands_init(&operands, problem(work));
    return ref_offset(&operands, b);
}

/* The axis of keys in a tensor; -1: it has none. */
static int key_axis(uint32_t role)
{
    switch (role) {
    case ATTN_K:
    case ATTN_V:
        return 2;
    case ATTN_MASK:
    case ATTN_BIAS:
        return 3;
    default:
        return -1;
    }
}

/* ---- what most relations have in common ---- */

static bool expect_same(struct attn_relation_work *work, const struct attn_place *at,
                        struct attn_expectation *e)
{
    e->want = attn_results_read(&work->was, at);
    e->got = attn_results_read(&work->is[0], at);
    e->allowed = attn_results_slack(&work->was, at) + attn_results_slack(&work->is[0], at);
    return true;
}

static double value_same(const struct attn_relation_work *work, int part,
                         const struct attn_tensor *tensor, int64_t at[ATTN_MAX_RANK])
{
    (void)part;
    return base(work, tensor, at);
}

/* ---- permute_keys ---- */

/* With lengths, keys change places among those of their batch: nothing that has keys may then be
 * shared by batches. */
static bool fits_permute(struct attn_relation_work *work)
{
    const struct attn_problem *p = problem(work);
    const struct attn_tensor *len = attn_tensor_find(p, ATTN_LEN);
    const uint64_t by_position = ATTN_FLAG_CAUSAL | ATTN_FLAG_WINDOW | ATTN_FLAG_DROPOUT;
    if (!attends(work) || flagged(work, by_position) || has(work, ATTN_ALIBI) || p->sk < 2)
        return false;
    for (uint32_t t = 0; len && t < p->n_tensors; t++)
        if (key_axis(p->tensors[t].role) >= 0 && p->tensors[t].stride[0] == 0 && p->b > 1)
            return false;
    return !len || len->rank == 1;
}

static int64_t common_divisor(int64_t a, int64_t b)
{
    while (b) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Key j of n in the new order: golden steps around a circle, so that neighbours part and every tile
 * gets keys from all over. */
static int64_t permuted(int64_t j, int64_t n)
{
    int64_t step = (int64_t)(0.618 * (double)n) + 1;
    while (common_divisor(step, n) != 1)
        step++;
    return (j * step + n / 3) % n;
}

static double value_permuted(const struct attn_relation_work *work, int part,
                             const struct attn_tensor *tensor, int64_t at[ATTN_MAX_RANK])
{
    const struct attn_tensor *len = attn_tensor_find(problem(work), ATTN_LEN);
    const int axis = key_axis(tensor->role);
    if (axis >= 0 && tensor->stride[axis] != 0) {
        const int64_t n = len ? (int64_t)ref_load(len, at) : problem(work)->sk;
        at[axis] = at[axis] < n ? permuted(at[axis], n) : at[axis];
    }
    return value_same(work, part, tensor, at);
}

/* ---- shift ---- */

static bool fits_shift(struct attn_relation_work *work)
{
    return attends(work) && !has(work, ATTN_BIAS) && !has(work, ATTN_SINK);
}

static void recast_shift(const struct attn_relation_work *work, int part, struct attn_case *c)
{
    (void)work, (void)part;
    c->bias_normal = true;
    c->bias_axes = 0;
}

static double value_shift(const struct attn_relation_work *work, int part,
                          const struct attn_tensor *tensor, int64_t at[ATTN_MAX_RANK])
{
    return tensor->role == ATTN_BIAS ? SHIFT : value_same(work, part, tensor, at);
}

static bool expect_shift(struct attn_relation_work *work, const struct attn_place *at,
                         struct attn_expectation *e)
{
    expect_same(work, at, e);
    e->want += at->c < 0 ? SHIFT : 0;
    return true;
}

/* ---- scale_v ---- */

/* Powers of two scale without rounding where numbers are normal, as those of f32's range are here;
 * the smallest results of 16-bit types are not. */
static bool fits_scale(struct attn_relation_work *work)
{
    return attends(work) && work->numerics.deterministic &&
           (work->numerics.acc_type ? work->numerics.acc_type : problem(work)->dtype) != ATTN_F16 &&
           work->numerics.partial_type != ATTN_F16;
}

static double column_factor(int64_t c)
{
    static const double factors[] = {-1, 2, -2};
    return factors[c % 3];
}

static double value_scaled(const struct attn_relation_work *work, int part,
                           const struct attn_tensor *tensor, int64_t at[ATTN_MAX_RANK])
{
    return value_same(work, part, tensor, at) * (tensor->role == ATTN_V ? column_factor(at[3]) : 1);
}

static bool expect_scaled(struct attn_relation_work *work, const struct attn_place *at,
                          struct attn_expectation *e)
{
    const uint32_t dtype = problem(work)->dtype;
    e->want = attn_results_read(&work->was, at) * (at->c < 0 ? 1 : column_factor(at->c));
    e->got = attn_results_read(&work->is[0], at);
    e->allowed = at->c >= 0 && fabs(e->want) < 4 * attn_dtype_min_normal(dtype)
                     ? 2 * attn_dtype_min_subnormal(dtype)
                     : 0;
    return true;
}

/* ---- linear_v ---- */

static bool fits_linear(struct attn_relation_work *work)
{
    return attends(work) && problem(work)->sk > 1;
}

static double value_linear(const struct attn_relation_work *work, int part,
                           const struct attn_tensor *tensor, int64_t at[ATTN_MAX_RANK])
{
    return tensor->role == ATTN_V && at[2] % 2 != part ? 0 : value_same(work, part, tensor, at);
}

static bool expect_linear(struct attn_relation_work *work, const struct attn_place *at,
                          struct attn_expectation *e)
{
    if (at->c < 0)
        return false;
    expect_same(work, at, e);
    e->got += attn_results_read(&work->is[1], at);
    e->allowed += attn_results_slack(&work->is[1], at);
    return true;
}

/* ---- ones ---- */

static bool fits_ones(struct attn_relation_work *work)
{
    return attends(work) && !has(work, ATTN_SINK) && !flagged(work, ATTN_FLAG_DROPOUT);
}

static double value_ones(const struct attn_relation_work *work, int part,
                         const struct attn_tensor *tensor, int64_t at[ATTN_MAX_RANK])
{
    return tensor->role == ATTN_V ? 1 : value_same(work, part, tensor, at);
}

static bool sees_a_key(const struct attn_problem *p, const struct attn_place *at)
{
    for (int64_t j = 0; j < p->sk; j++)
        if (ref_allowed(p, at->b, at->h, at->i, j))
            return true;
    return false;
}

static bool expect_ones(struct attn_relation_work *work, const struct attn_place *at,
                        struct attn_expectation *e)
{
    if (at->c < 0)
        return false;
    e->got = attn_results_read(&work->is[0], at);
    e->want = 1;
    e->allowed = attn_results_slack(&work->is[0], at);
    if (!(fabs(e->got - 1) <= e->allowed) && !sees_a_key(problem(work), at)) {
        e->want = e->allowed = 0;
        return work->numerics.empty_row == ATTN_EMPTY_ZERO;
    }
    return true;
}

/* ---- causal_prefix ---- */

/* The first key changed: so that about half of the rows see none of them. */
static bool fits_prefix(struct attn_relation_work *work)
{
    const struct attn_problem *p = problem(work);
    if (!ref_op_is(p->op, REF_SOFTMAX) || !flagged(work, ATTN_FLAG_CAUSAL) ||
        !work->numerics.deterministic)
        return false;
    int64_t least = INT64_MAX;
    for (int64_t b = 0; b < p->b; b++)
        least = offset(work, b) < least ? offset(work, b) : least;
    work->pivot = least + p->sq / 2 + 1;
    work->pivot = work->pivot < 1 ? 1 : work->pivot;
    return work->pivot < p->sk && least < work->pivot;
}

static double value_prefix(const struct attn_relation_work *work, int part,
                           const struct attn_tensor *tensor, int64_t at[ATTN_MAX_RANK])
{
    const double was = value_same(work, part, tensor, at);
    const int axis = tensor->rank == 4 ? 2 : 1;
    const uint32_t keys = has(work, ATTN_X_K) ? ATTN_X_K : ATTN_X_Q;
    if (at[axis] < work->pivot)
        return was;
    return tensor->role == ATTN_V                           ? 300 - was
           : tensor->role == ATTN_K || tensor->role == keys ? 1 - 3 * was
                                                            : was;
}

static bool expect_prefix(struct attn_relation_work *work, const struct attn_place *at,
                          struct attn_expectation *e)
{
    const bool own = !attends(work) && !has(work, ATTN_X_K) && at->i >= work->pivot;
    e->want = attn_results_read(&work->was, at);
    e->got = attn_results_read(&work->is[0], at);
    e->allowed = 0;
    return !own && at->i + offset(work, at->b) < work->pivot;
}

/* ---- gqa ---- */

static bool fits_gqa(struct attn_relation_work *work)
{
    return attends(work) && problem(work)->hkv < problem(work)->hq;
}

static void recast_gqa(const struct attn_relation_work *work, int part, struct attn_case *c)
{
    (void)work, (void)part;
    c->hkv = c->hq;
}

static double value_gqa(const struct attn_relation_work *work, int part,
                        const struct attn_tensor *tensor, int64_t at[ATTN_MAX_RANK])
{
    if (tensor->role == ATTN_K || tensor->role == ATTN_V)
        at[1] /= problem(work)->hq / problem(work)->hkv;
    return value_same(work, part, tensor, at);
}

/* ---- batch ---- */

static bool is_batch_exact(const struct attn_relation_work *work)
{
    return work->numerics.invariant & ATTN_INVARIANT_BATCH;
}

/* Do all outputs have batches, so that each entry of one is a result of its own. */
static bool has_batches(const struct attn_relation_work *work)
{
    bool all = true;
    for (const struct ref_output *o = ref_op_find(problem(work)->op)->outputs; o->role; o++)
        all = all && strchr(o->shape, 'b');
    return all;
}

/* Philox numbers its cells over all batches. */
static bool fits_batch(struct attn_relation_work *work)
{
    return problem(work)->b > 1 && has_batches(work) && !flagged(work, ATTN_FLAG_DROPOUT) &&
           (attends(work) || is_batch_exact(work));
}

static void recast_batch(const struct attn_relation_work *work, int part, struct attn_case *c)
{
    (void)work, (void)part;
    c->b = 1;
}

static double value_batch(const struct attn_relation_work *work, int part,
                          const struct attn_tensor *tensor, int64_t at[ATTN_MAX_RANK])
{
    const struct ref_operand *row = ref_operand_of(ref_op_find(problem(work)->op), tensor->role);
    if (row->shape[0] == 'b')
        at[0] = problem(work)->b - 1;
    return value_same(work, part, tensor, at);
}

static bool expect_batch(struct attn_relation_work *work, const struct attn_place *at,
                         struct attn_expectation *e)
{
    const struct attn_place alone = attn_place_in_batch(&work->is[0], at, 0);
    if (at->b != problem(work)->b - 1)
        return false;
    e->want = attn_results_read(&work->was, at);
    e->got = attn_results_read(&work->is[0], &alone);
    e->allowed = is_batch_exact(work) ? 0
                                      : attn_results_slack(&work->was, at) +
                                            attn_results_slack(&work->is[0], &alone);
    return true;
}

/* ---- split ---- */

static bool fits_split(struct attn_relation_work *work)
{
    const struct attn_problem *p = problem(work);
    work->pivot = p->sk / 2;
    /* Bottom right with lengths: every batch has an offset of its own, a case has one. */
    return attends(work) && p->sk > 1 && !has(work, ATTN_SINK) &&
           !flagged(work, ATTN_FLAG_DROPOUT) &&
           !(flagged(work, ATTN_FLAG_OFF_BR) && has(work, ATTN_LEN));
}

static void recast_split(const struct attn_relation_work *work, int part, struct attn_case *c)
{
    c->off = offset(work, 0) - (part ? work->pivot : 0);
    c->off_br = false;
    c->sk = part ? c->sk - work->pivot : work->pivot;
    attn_case_ask(c, ATTN_LSE);
}

static double value_split(const struct attn_relation_work *work, int part,
                          const struct attn_tensor *tensor, int64_t at[ATTN_MAX_RANK])
{
    const int axis = key_axis(tensor->role);
    if (axis >= 0 && tensor->stride[axis] != 0)
        at[axis] += part ? work->pivot : 0;
    const double value = value_same(work, part, tensor, at);
    if (tensor->role != ATTN_LEN)
        return value;
    return part ? fmax(value - (double)work->pivot, 0) : fmin(value, (double)work->pivot);
}

/* out = a x + (1-a) y with a = 1 / (1 + exp(difference of lse)). Where that difference is wrong by
 * d, a is wrong by at most a (1-a) expm1(d). */
static bool expect_split(struct attn_relation_work *work, const struct attn_place *at,
                         struct attn_expectation *e)
{
    const struct attn_place sum = attn_place_of_lse(&work->is[0], at);
    const double l[] = {attn_results_read(&work->is[0], &sum),
                        attn_results_read(&work->is[1], &sum)};
    const double d[] = {attn_results_slack(&work->is[0], &sum),
                        attn_results_slack(&work->is[1], &sum)};
    const double top = fmax(l[0], l[1]);
    e->want = attn_results_read(&work->was, at);
    e->allowed = attn_results_slack(&work->was, at);
    if (at->c < 0) {
        e->got = isinf(top) ? top : top + log(exp(l[0] - top) + exp(l[1] - top));
        e->allowed += fmax(d[0], d[1]);
        return true;
    }
    const double x = attn_results_read(&work->is[0], at), y = attn_results_read(&work->is[1], at);
    if (isinf(l[0]) || isinf(l[1])) { /* a part without keys */
        const int other = isinf(l[0]) ? 1 : 0;
        e->got = other ? y : x;
        e->allowed += attn_results_slack(&work->is[other], at);
        return true;
    }
    const double a = 1 / (1 + exp(l[1] - l[0]));
    const double wrong = fmin(a * (1 - a) * expm1(d[0] + d[1]), 1);
    e->got = a * x + (1 - a) * y;
    e->allowed += (a + wrong) * attn_results_slack(&work->is[0], at) +
                  (1 - a + wrong) * attn_results_slack(&work->is[1], at) + wrong * fabs(x - y);
    return true;
}

/* ---- duplicate_key ---- */

static bool fits_duplicate(struct attn_relation_work *work)
{
    const uint64_t by_position = ATTN_FLAG_CAUSAL | ATTN_FLAG_WINDOW | ATTN_FLAG_DROPOUT;
    return attends(work) && !flagged(work, by_position) && !has(work, ATTN_ALIBI) &&
           !has(work, ATTN_SINK) && problem(work)->sk > 0;
}

static void recast_duplicate(const struct attn_relation_work *work, int part, struct attn_case *c)
{
    (void)work, (void)part;
    c->sk *= 2;
}

static double value_duplicate(const struct attn_relation_work *work, int part,
                              const struct attn_tensor *tensor, int64_t at[ATTN_MAX_RANK])
{
    const int axis = key_axis(tensor->role);
    if (axis >= 0)
        at[axis] /= 2;
    return value_same(work, part, tensor, at) * (tensor->role == ATTN_LEN ? 2 : 1);
}

static bool expect_duplicate(struct attn_relation_work *work, const struct attn_place *at,
                             struct attn_expectation *e)
{
    expect_same(work, at, e);
    e->want += at->c < 0 ? M_LN2 : 0;
    return true;
}

/* ---- keep ---- */

enum { DIGITS = 8, SEEN = 63 };

static bool fits_keep(struct attn_relation_work *work)
{
    return attends(work) && flagged(work, ATTN_FLAG_DROPOUT) && !has(work, ATTN_KEEP) &&
           !has(work, ATTN_SINK) && !has(work, ATTN_BIAS) && !has(work, ATTN_ALIBI);
}

/* All scores 0; column c of v is binary digit c of the key's number. */
static double value_keep(const struct attn_relation_work *work, int part,
                         const struct attn_tensor *tensor, int64_t at[ATTN_MAX_RANK])
{
    switch (tensor->role) {
    case ATTN_Q:
    case ATTN_K:
    case ATTN_SCORE_WV:
        return 0;
    case ATTN_V:
        return (double)(at[2] >> at[3] % DIGITS & 1);
    default:
        return value_same(work, part, tensor, at);
    }
}

static void count_kept(struct attn_relation_work *work, const struct attn_place *at)
{
    const struct attn_problem *p = problem(work);
    const int64_t row = (at->b * p->hq + at->h) * p->sq + at->i;
    if (work->counted_row == row + 1)
        return;
    work->counted_row = row + 1;
    for (int n = 0; n < 64; n++)
        work->counts[n] = 0;
    for (int64_t j = 0; j < p->sk; j++) {
        if (!ref_allowed(p, at->b, at->h, at->i, j))
            continue;
        work->counts[SEEN]++;
        if (attn_dropout_keep(p->dropout_seed, (uint64_t)(row * p->sk + j), p->dropout_p))
            for (int n = 0; n < DIGITS; n++)
                work->counts[n] += (double)(j >> n & 1);
    }
}

static bool expect_keep(struct attn_relation_work *work, const struct attn_place *at,
                        struct attn_expectation *e)
{
    if (at->c < 0)
        return false;
    count_kept(work, at);
    e->got = attn_results_read(&work->is[0], at);
    e->want = work->counts[at->c % DIGITS] / work->counts[SEEN] / (1 - problem(work)->dropout_p);
    e->allowed = attn_results_slack(&work->is[0], at);
    return work->counts[SEEN] > 0;
}

/* ---- threads ---- */

static bool is_threads_exact(const struct attn_relation_work *work)
{
    return work->numerics.invariant & ATTN_INVARIANT_THREADS;
}

static bool fits_threads(struct attn_relation_work *work)
{
    return attends(work) || is_threads_exact(work);
}

static bool expect_threads(struct attn_relation_work *work, const struct attn_place *at,
                           struct attn_expectation *e)
{
    expect_same(work, at, e);
    e->allowed = is_threads_exact(work) ? 0 : e->allowed;
    return true;
}

static bool always(const struct attn_relation_work *work)
{
    (void)work;
    return true;
}

static bool never(const struct attn_relation_work *work)
{
    (void)work;
    return false;
}

const struct attn_relation attn_relations[ATTN_CHECK_THREADS + 1] = {
    {ATTN_CHECK_PERMUTE_KEYS, 1, false, false, fits_permute, NULL, value_permuted, expect_same,
     never},
    {ATTN_CHECK_SHIFT, 1, false, false, fits_shift, recast_shift, value_shift, expect_shift, never},
    {ATTN_CHECK_SCALE_V, 1, false, false, fits_scale, NULL, value_scaled, expect_scaled, always},
    {ATTN_CHECK_LINEAR_V, 2, true, false, fits_linear, NULL, value_linear, expect_linear, never},
    {ATTN_CHECK_ONES, 1, true, true, fits_ones, NULL, value_ones, expect_ones, never},
    {ATTN_CHECK_CAUSAL_PREFIX, 1, false, false, fits_prefix, NULL, value_prefix, expect_prefix,
     always},
    {ATTN_CHECK_GQA, 1, false, false, fits_gqa, recast_gqa, value_gqa, expect_same, never},
    {ATTN_CHECK_BATCH, 1, false, false, fits_batch, recast_batch, value_batch, expect_batch,
     is_batch_exact},
    {ATTN_CHECK_SPLIT, 2, false, false, fits_split, recast_split, value_split, expect_split, never},
    {ATTN_CHECK_DUPLICATE_KEY, 1, true, false, fits_duplicate, recast_duplicate, value_duplicate,
     expect_duplicate, never},
    {ATTN_CHECK_KEEP, 1, true, false, fits_keep, NULL, value_keep, expect_keep, never},
    {ATTN_CHECK_THREADS, 1, false, false, fits_threads, NULL, value_same, expect_threads,
     is_threads_exact},
};
