/* SPDX-License-Identifier: Apache-2.0 */
/* relation_keys.c - relations that change the set of keys: another order, copies, two parts, the
 * keys that dropout keeps. */
#include "run/relation.h"

#include <math.h>

#include "reference/operands.h"
#include "reference/philox.h"

/* ---- permute_keys ---- */

/* Has the problem an operand of keys and values alone? In self-attention they are the queries, too.
 */
static bool has_keys_alone(const struct attn_relation_work *work)
{
    return attn_relation_attends(work) || attn_relation_weighs(work) ||
           attn_relation_differentiates(work) ||
           (attn_relation_has(work, ATTN_X_K) && !attn_relation_has(work, ATTN_X_V));
}

/* With lengths, keys change places within their batch, so no operand with keys may be shared by
 * batches. */
static bool fits_permute(struct attn_relation_work *work)
{
    const struct attn_problem *p = attn_relation_problem(work);
    const struct attn_tensor *len = attn_tensor_find(p, ATTN_LEN);
    if (!attn_relation_bounded(work) || attn_relation_by_position(work) ||
        attn_relation_flagged(work, ATTN_FLAG_DROPOUT) || p->sk < 2 || !has_keys_alone(work))
        return false;
    for (uint32_t t = 0; len && t < p->n_tensors; t++)
        if (attn_relation_key_axis(p->tensors[t].role) >= 0 && p->tensors[t].stride[0] == 0 &&
            p->b > 1)
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

/* Number j of n in the new order: golden-ratio steps around a circle. So neighbours are separated,
 * and every tile gets keys from the whole range. */
int64_t attn_relation_permuted(int64_t j, int64_t n)
{
    int64_t step = (int64_t)(0.618 * (double)n) + 1;
    while (common_divisor(step, n) != 1)
        step++;
    return (j * step + n / 3) % n;
}

/* The key whose place number j of batch `batch` takes. */
static int64_t key_before(const struct attn_relation_work *work, int64_t batch, int64_t j)
{
    const struct attn_tensor *len = attn_tensor_find(attn_relation_problem(work), ATTN_LEN);
    const int64_t n = len ? (int64_t)ref_load(len, &batch) : attn_relation_problem(work)->sk;
    return j < n ? attn_relation_permuted(j, n) : j;
}

static double value_permuted(const struct attn_relation_work *work, int part,
                             const struct attn_tensor *tensor, int64_t at[ATTN_MAX_RANK])
{
    const int axis = attn_relation_key_axis(tensor->role);
    if (axis >= 0 && tensor->stride[axis] != 0)
        at[axis] = key_before(work, at[0], at[axis]);
    return attn_relation_value_same(work, part, tensor, at);
}

/* Gradients of keys move with their keys. */
static bool expect_permuted(struct attn_relation_work *work, const struct attn_place *at,
                            struct attn_expectation *e)
{
    const int axis = attn_relation_output_axis(&work->was, at->output, "jZ");
    struct attn_place from = *at;
    if (axis >= 0)
        from.at[axis] = key_before(work, at->at[0], at->at[axis]);
    e->want = attn_results_read(&work->was, &from);
    e->got = attn_results_read(&work->is[0], at);
    e->allowed = attn_results_slack(&work->was, &from) + attn_results_slack(&work->is[0], at);
    return true;
}

const struct attn_relation attn_relation_permute_keys = {
    .check = ATTN_CHECK_PERMUTE_KEYS,
    .parts = 1,
    .changes = (const uint32_t[]){ATTN_K, ATTN_V, ATTN_X_K, ATTN_MASK, ATTN_BIAS, 0},
    .fits = fits_permute,
    .value = value_permuted,
    .expect = expect_permuted,
    .exact = attn_relation_never,
};

/* ---- gqa ---- */

static bool fits_gqa(struct attn_relation_work *work)
{
    return attn_relation_bounded(work) &&
           attn_relation_problem(work)->hkv < attn_relation_problem(work)->hq;
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
    const int64_t width = tensor->role == ATTN_W_K || tensor->role == ATTN_B_K ? p->dk : p->dv;
    if (tensor->role == ATTN_K || tensor->role == ATTN_V || tensor->role == ATTN_K_GLOBAL ||
        tensor->role == ATTN_V_GLOBAL)
        at[1] /= p->hq / p->hkv;
    else if (tensor->role == ATTN_W_K || tensor->role == ATTN_B_K || tensor->role == ATTN_W_V ||
             tensor->role == ATTN_B_V) /* rows of a head */
        at[0] = at[0] / width / (p->hq / p->hkv) * width + at[0] % width;
    return attn_relation_value_same(work, part, tensor, at);
}

const struct attn_relation attn_relation_gqa = {
    .check = ATTN_CHECK_GQA,
    .parts = 1,
    .changes = (const uint32_t[]){ATTN_K, ATTN_V, ATTN_K_GLOBAL, ATTN_V_GLOBAL, ATTN_W_K, ATTN_W_V,
                                  ATTN_B_K, ATTN_B_V, 0},
    .fits = fits_gqa,
    .recast = recast_gqa,
    .value = value_gqa,
    .expect = attn_relation_expect_same,
    .exact = attn_relation_never,
};

/* ---- split ---- */

static bool fits_split(struct attn_relation_work *work)
{
    const struct attn_problem *p = attn_relation_problem(work);
    work->pivot = p->sk / 2;
    /* Bottom right with lengths: every batch has its own offset, but a case has only one. */
    return (attn_relation_attends(work) || attn_relation_weighs(work)) && p->sk > 1 &&
           !attn_relation_has(work, ATTN_SINK) &&
           !attn_relation_has(work, ATTN_GLOBAL) && /* it has as many keys as queries */
           !attn_relation_flagged(work, ATTN_FLAG_DROPOUT) &&
           !(attn_relation_flagged(work, ATTN_FLAG_OFF_BR) && attn_relation_has(work, ATTN_LEN));
}

static void recast_split(const struct attn_relation_work *work, int part, struct attn_case *c)
{
    c->off = attn_relation_offset(work, 0) - (part ? work->pivot : 0);
    c->off_br = false;
    c->sk = part ? c->sk - work->pivot : work->pivot;
    if (!attn_relation_sums(work))
        attn_case_ask(c, ATTN_LSE);
}

static double value_split(const struct attn_relation_work *work, int part,
                          const struct attn_tensor *tensor, int64_t at[ATTN_MAX_RANK])
{
    const int axis = attn_relation_key_axis(tensor->role);
    if (axis >= 0 && tensor->stride[axis] != 0)
        at[axis] += part ? work->pivot : 0;
    if (tensor->role == ATTN_REL_POS) /* entry i - j + sk - 1, of j less the pivot and fewer keys */
        at[0] += part ? 0 : attn_relation_problem(work)->sk - work->pivot;
    const double value = attn_relation_value_same(work, part, tensor, at);
    if (tensor->role != ATTN_LEN)
        return value;
    return part ? fmax(value - (double)work->pivot, 0) : fmin(value, (double)work->pivot);
}

/* Without a denominator the parts add up, unless one leaves the range of the type. */
static bool expect_sum(struct attn_relation_work *work, const struct attn_place *at,
                       struct attn_expectation *e)
{
    e->want = attn_results_read(&work->was, at);
    e->got = attn_results_read(&work->is[0], at) + attn_results_read(&work->is[1], at);
    e->allowed = attn_results_slack(&work->was, at) + attn_results_slack(&work->is[0], at) +
                 attn_results_slack(&work->is[1], at);
    return isfinite(e->got);
}

/* out = a x + (1-a) y with a = 1 / (1 + exp(difference of lse)). If that difference is wrong by d,
 * a is wrong by at most a (1-a) expm1(d). */
static bool expect_split(struct attn_relation_work *work, const struct attn_place *at,
                         struct attn_expectation *e)
{
    if (attn_relation_sums(work))
        return expect_sum(work, at, e);
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

const struct attn_relation attn_relation_split = {
    .check = ATTN_CHECK_SPLIT,
    .parts = 2,
    .fits = fits_split,
    .recast = recast_split,
    .value = value_split,
    .expect = expect_split,
    .exact = attn_relation_never,
};

/* ---- duplicate_key ---- */

static bool fits_duplicate(struct attn_relation_work *work)
{
    return attn_relation_bounded(work) && has_keys_alone(work) &&
           !attn_relation_by_position(work) && !attn_relation_flagged(work, ATTN_FLAG_DROPOUT) &&
           !attn_relation_has(work, ATTN_SINK) && attn_relation_problem(work)->sk > 0;
}

static void recast_duplicate(const struct attn_relation_work *work, int part, struct attn_case *c)
{
    (void)work, (void)part;
    c->sk *= 2;
}

static double value_duplicate(const struct attn_relation_work *work, int part,
                              const struct attn_tensor *tensor, int64_t at[ATTN_MAX_RANK])
{
    const int axis = attn_relation_key_axis(tensor->role);
    if (axis >= 0)
        at[axis] /= 2;
    return attn_relation_value_same(work, part, tensor, at) * (tensor->role == ATTN_LEN ? 2 : 1);
}

static bool expect_duplicate(struct attn_relation_work *work, const struct attn_place *at,
                             struct attn_expectation *e)
{
    attn_relation_expect_same(work, at, e);
    e->want += at->c < 0 ? M_LN2 : 0;
    if (attn_relation_sums(work)) { /* twice the sum */
        e->want *= 2;
        e->allowed += attn_results_slack(&work->was, at);
        return isfinite(e->got);
    }
    return true;
}

const struct attn_relation attn_relation_duplicate_key = {
    .check = ATTN_CHECK_DUPLICATE_KEY,
    .parts = 1,
    .structured = true,
    .changes = (const uint32_t[]){ATTN_K, ATTN_V, ATTN_X_K, ATTN_MASK, ATTN_BIAS, ATTN_LEN, 0},
    .fits = fits_duplicate,
    .recast = recast_duplicate,
    .value = value_duplicate,
    .expect = expect_duplicate,
    .exact = attn_relation_never,
};

/* ---- keep ---- */

enum { DIGITS = 8, SEEN = 63 };

static bool fits_keep(struct attn_relation_work *work)
{
    return attn_relation_attends(work) && attn_relation_flagged(work, ATTN_FLAG_DROPOUT) &&
           !attn_relation_has(work, ATTN_KEEP) && !attn_relation_has(work, ATTN_SINK) &&
           !attn_relation_has(work, ATTN_BIAS) && !attn_relation_has(work, ATTN_ALIBI);
}

/* All scores 0; column c of v is binary digit c of the key's number. */
static double value_keep(const struct attn_relation_work *work, int part,
                         const struct attn_tensor *tensor, int64_t at[ATTN_MAX_RANK])
{
    switch (tensor->role) {
    case ATTN_Q:
    case ATTN_K:
    case ATTN_Q_GLOBAL:
    case ATTN_K_GLOBAL:
    case ATTN_SCORE_WV:
        return 0;
    case ATTN_V:
    case ATTN_V_GLOBAL:
        return (double)(at[2] >> at[3] % DIGITS & 1);
    default:
        return attn_relation_value_same(work, part, tensor, at);
    }
}

static void count_kept(struct attn_relation_work *work, const struct attn_place *at)
{
    const struct attn_problem *p = attn_relation_problem(work);
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
    e->want = work->counts[at->c % DIGITS] / work->counts[SEEN] /
              (1 - attn_relation_problem(work)->dropout_p);
    e->allowed = attn_results_slack(&work->is[0], at);
    return work->counts[SEEN] > 0;
}

const struct attn_relation attn_relation_keep = {
    .check = ATTN_CHECK_KEEP,
    .parts = 1,
    .structured = true,
    .fits = fits_keep,
    .value = value_keep,
    .expect = expect_keep,
    .exact = attn_relation_never,
};
