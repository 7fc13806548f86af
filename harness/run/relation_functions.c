/* SPDX-License-Identifier: Apache-2.0 */
/* relation_functions.c - the declared errors of exp, tanh and log, tested as such. The general
 * bound adds them to errors of scores and sums, which are larger, so a wrong exp can hide there.
 *
 * Each row compares two keys at a known distance x: their scores are 0 and x or -x, and all other
 * keys have the weight 0. Scores are exact (function_forms.c). v is 0 or 1, so a column of out is
 * one weight, and lse is log(1 + exp(x)). What remains is the error of the functions and a few
 * roundings, which README.md counts. Every eighth row has equal scores: its lse is log(keys). */
#include <math.h>

#include "reference/dtype.h"
#include "reference/score.h"
#include "run/functions.h"

/* Roundings, in units of u, besides those of the functions: of a weight (sum, quotient or
 * reciprocal and product, a rescale of the sum and of its own), of the merge of splits (their
 * quotient, and the product with their weight), and of an argument, relative to it (log2 e, the
 * product with it, and the difference). Scale and W_q are powers of two, so a factor folded into
 * them is rounded no more often. */
#define WEIGHT_ROUNDINGS   5.0
#define MERGE_ROUNDINGS    4.0
#define ARGUMENT_ROUNDINGS 3.0
#define CAP_ROUNDINGS      4.0 /* softcap: its factor, quotient and products (BOUND.md) */

static bool fits(struct attn_relation_work *work)
{
    const struct attn_case *c = &work->base->c;
    const struct attn_function_form *form = attn_function_form_of(work);
    return form && c->scale >= 0x1p-6 && c->scale <= 4 && form->fits(work) &&
           (c->softcap <= 0 || (c->softcap >= 1 && c->softcap <= 0x1p10));
}

static void recast(const struct attn_relation_work *work, int part, struct attn_case *c)
{
    (void)part;
    c->sk = attn_functions_keys(work);
    if (attn_functions_projected(work) && !c->cross)
        c->sq = c->sk;
    c->scale = attn_functions_scale(work);
    c->scale_given = true;
    c->causal = c->window = c->off_br = c->mask_bool = c->dropout = false;
    c->bias_normal = c->bias_const = c->alibi = c->sink = c->global_proj = false;
    c->global = ATTN_GLOBAL_NONE;
    c->n_dilation = 0;
    c->off = c->window_left = c->window_right = 0;
    c->len = ATTN_LEN_NONE;
}

static double value(const struct attn_relation_work *work, int part,
                    const struct attn_tensor *tensor, int64_t at[ATTN_MAX_RANK])
{
    (void)part;
    return attn_function_form_of(work)->value(work, tensor, at);
}

/* Do both keys go through the same tile, and through the same rescales and merges after it? Then
 * these cancel in the quotient. The first tile is one that begins at key 0, and so is the first
 * split. */
static bool share_tile(const struct attn_relation_work *work, int64_t b, int64_t h)
{
    const struct attn_numerics *n = &work->is[0].numerics;
    const struct attn_problem *p = attn_relation_problem(work);
    const struct attn_function_pair pair =
        attn_functions_pair(work, attn_functions_batch(work, b), h / (p->hq / p->hkv));
    const int64_t end = (pair.first > pair.other ? pair.first : pair.other) + 1;
    const int64_t keys = attn_functions_keys(work);
    return !attn_functions_dense(work) && attn_function_form_of(work)->equal_rows &&
           (n->key_tile == 0 || end <= n->key_tile) && (n->splits <= 1 || end <= keys / n->splits);
}

/* Roundoff of a type that something is stored in; 0: the type is none, or no narrower than that of
 * the accumulation. */
static double narrowing(const struct attn_relation_work *work, uint32_t type)
{
    const uint32_t acc = work->is[0].numerics.acc_type;
    const double u = attn_dtype_roundoff(acc ? acc : attn_relation_problem(work)->dtype);
    const double stored = type ? attn_dtype_roundoff(type) : 0;
    return stored > u ? stored : 0;
}

/* Multi-head attention stores q, k, v and the heads. W_o adds no rounding: of its terms one is not
 * 0, and has the weight 1. */
static double projected_roundoff(const struct attn_relation_work *work)
{
    const uint32_t type = work->is[0].numerics.proj_type;
    if (!attn_functions_projected(work))
        return 0;
    return narrowing(work, type ? type : attn_relation_problem(work)->dtype);
}

static struct attn_function_truth make_truth(const struct attn_relation_work *work,
                                             const struct attn_place *at, int64_t h, double u)
{
    const struct attn_numerics *n = &work->is[0].numerics;
    const struct attn_function_form *form = attn_function_form_of(work);
    const double cap = work->base->c.softcap, keys = (double)attn_functions_keys(work);
    const double x = form->distance(work, at->b, h, at->i);
    const double z = cap > 0 ? cap * tanh(x / cap) : x;
    /* Rows of equal scores have no key far below. */
    const double others = attn_functions_dense(work) || x == 0 ? keys - 1 : 1;
    /* The larger score, if that of first is 0. */
    const double most = fmax(0, z);
    const double score = form->dense_first && attn_functions_dense(work) ? -z : 0; /* of first */
    struct attn_function_truth t = {.x = x, .most = most + score, .others = others};
    const double more = 1.02 * x, moved = cap > 0 ? cap * tanh(more / cap) : more;
    const double first = exp(-most), other = others * exp(z - most);
    t.mistaken = 1 / (1 + others * exp(moved));
    t.sum = first + other;
    t.first = first / t.sum;
    t.other = other / t.sum;
    t.lse = t.most + log(t.sum);
    t.adding = others > 1 && x != 0 ? others * u : 0; /* equal terms near 1 add up exactly */

    const double tiles =
        n->key_tile > 0 ? ceil(keys / (double)n->key_tile) : 1; /* a rescale between two of them */
    const double parts = n->splits > 1 ? 1 : 0, far = fabs(z) + 2 * n->tau;
    const double stores = n->score_stores > 1 ? n->score_stores : 1;
    const double stored = expm1(stores * log1p(narrowing(work, n->score_type)));
    t.score = (2 * n->u_in + stored + 2 * projected_roundoff(work) + form->roundings * u) * fabs(z);
    if (form->tanh)
        t.score += n->e_tanh * fabs(z);
    if (cap > 0)
        t.score += (CAP_ROUNDINGS * u + n->e_tanh) * fabs(z);
    const double shift = t.score + ARGUMENT_ROUNDINGS * u * far;
    const double merge = parts * (4 * u * (t.most + fabs(t.lse)) +
                                  (2 * u + n->e_log) * (log(keys) + n->tau) + n->e_arg * far);
    const double rel = 2 * n->e_exp + n->e_arg * far;
    t.common = merge + (tiles - 1 + parts) * n->e_exp;
    t.wrong = expm1(shift + rel + (share_tile(work, at->b, h) ? 0 : t.common));
    return t;
}

/* The roundings of p before it is multiplied: as it is stored, and as an operand. */
static double p_roundings(const struct attn_relation_work *work)
{
    const struct attn_numerics *n = &work->is[0].numerics;
    return narrowing(work, n->p_type) * (n->p_stochastic ? 2 : 1) + n->u_pv;
}

/* What may underflow of one key, in each type that a weight is kept in. */
static double lost(const struct attn_numerics *n, uint32_t acc, uint32_t dtype)
{
    const uint32_t types[] = {acc, n->p_type ? n->p_type : acc, dtype};
    double sum = 0;
    for (int t = 0; t < 3; t++)
        sum += n->ftz ? attn_dtype_min_normal(types[t]) : 2 * attn_dtype_min_subnormal(types[t]);
    return 2 * sum;
}

/* The same for all columns of a row, so the last one is kept. */
static const struct attn_function_truth *truth_of(struct attn_relation_work *work,
                                                  const struct attn_place *at, int64_t h, double u)
{
    const struct attn_problem *p = attn_relation_problem(work);
    const int64_t row = (at->b * p->hq + h) * p->sq + at->i + 1;
    if (work->truth_row != row)
        work->truth = make_truth(work, at, h, u);
    work->truth_row = row;
    return &work->truth;
}

/* lse: the larger weight is in the sum whole, the smaller one is wrong by t.wrong. */
static void expect_lse(const struct attn_relation_work *work, const struct attn_function_truth *t,
                       double u, struct attn_expectation *e)
{
    const struct attn_numerics *n = &work->is[0].numerics;
    e->want = t->lse;
    e->allowed = fmin(t->first, t->other) * t->wrong + n->e_exp + t->common + t->adding + 2 * u +
                 (n->e_log + 4 * u) * fabs(log(t->sum)) + (t->most > 0 ? t->score : 0) +
                 ARGUMENT_ROUNDINGS * u * (t->most + n->tau);
    if (n->denominator != 1)
        e->allowed += p_roundings(work);
}

static void expect_weight(const struct attn_relation_work *work,
                          const struct attn_function_truth *t, double u, bool other,
                          struct attn_expectation *e)
{
    const struct attn_problem *p = attn_relation_problem(work);
    const struct attn_numerics *n = &work->is[0].numerics;
    const uint32_t acc = n->acc_type ? n->acc_type : p->dtype;
    const double want = other ? t->other : t->first;
    double roundings = WEIGHT_ROUNDINGS * u + t->adding * (other ? 2 : 1);
    if (n->splits > 1)
        roundings += MERGE_ROUNDINGS * u;
    roundings += 2 * p_roundings(work) + 2 * projected_roundoff(work);
    if (n->partial_type)
        roundings += (double)attn_functions_keys(work) * attn_dtype_roundoff(n->partial_type);
    e->want = want;
    e->allowed = t->first * t->other * t->wrong * (1 + t->wrong) + want * roundings +
                 (other ? t->others : 1) * lost(n, acc, p->dtype);
    /* Rows of equal scores: `other` counts one key of them. */
    if (other && !attn_functions_dense(work) && t->x == 0)
        e->want /= t->others;
}

/* The head and column of the heads that an element of out shows. False: of multi-head attention one
 * that shows something else, too. */
static bool source_of(const struct attn_relation_work *work, const struct attn_place *at,
                      int64_t *h, int64_t *c)
{
    const struct attn_problem *p = attn_relation_problem(work);
    *h = at->h;
    *c = at->c;
    if (!attn_functions_projected(work))
        return true;
    if (at->c >= 0) {
        *h = at->c % (p->hq * p->dv) / p->dv;
        *c = at->c % p->dv;
    }
    /* The residual has q's distance in its first columns. */
    return !(attn_relation_flagged(work, ATTN_FLAG_RESIDUAL) && at->c >= 0 &&
             at->c < ATTN_FUNCTIONS_X) &&
           !attn_inner_pruned(p, *h);
}

static bool expect(struct attn_relation_work *work, const struct attn_place *at,
                   struct attn_expectation *e)
{
    const struct attn_numerics *n = &work->is[0].numerics;
    const struct attn_problem *p = attn_relation_problem(work);
    const uint32_t stored = work->is[0].tensor[at->output]->dtype;
    const double u =
        attn_dtype_roundoff(n->acc_type ? n->acc_type : p->dtype) * (n->acc_toward_zero ? 2 : 1);
    int64_t h, c;
    if (at->i >= work->part[0]->problem.sq || !source_of(work, at, &h, &c))
        return false;
    const struct attn_function_truth *t = truth_of(work, at, h, u);
    e->got = attn_results_read(&work->is[0], at);
    if (at->c < 0)
        expect_lse(work, t, u, e);
    else
        expect_weight(work, t, u, c % 2, e);
    if (u <= attn_dtype_roundoff(ATTN_F64))
        e->allowed *= 2; /* what is wanted is computed in f64, too */
    e->allowed +=
        attn_dtype_roundoff(stored) * (n->out_toward_zero ? 2 : 1) * (fabs(e->want) + e->allowed);
    const double mistaken = c % 2 ? 1 - t->mistaken : t->mistaken;
    if (at->c >= 0 && t->x != 0 && fabs(mistaken - e->want) > e->allowed)
        work->sees_scale = true;
    return true;
}

const struct attn_relation attn_relation_functions = {
    .check = ATTN_CHECK_FUNCTIONS,
    .parts = 1,
    .structured = true,
    .fits = fits,
    .recast = recast,
    .value = value,
    .expect = expect,
    .exact = attn_relation_always, /* this file has the allowance */
};
