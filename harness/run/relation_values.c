/* SPDX-License-Identifier: Apache-2.0 */
/* relation_values.c - relations that change scores and values: a constant added to all scores, v
 * scaled, split or constant. */
#include "run/relation.h"

#include <math.h>

#include "reference/dtype.h"
#include "reference/operands.h"

#define SHIFT 16.0 /* exact in every type, and beyond the scores of random inputs */

/* ---- shift ---- */

static bool fits_shift(struct attn_relation_work *work)
{
    return attn_relation_bounded(work) && !attn_relation_sums(work) &&
           !attn_relation_has(work, ATTN_BIAS) && !attn_relation_has(work, ATTN_SINK);
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
    return tensor->role == ATTN_BIAS ? SHIFT : attn_relation_value_same(work, part, tensor, at);
}

static bool expect_shift(struct attn_relation_work *work, const struct attn_place *at,
                         struct attn_expectation *e)
{
    attn_relation_expect_same(work, at, e);
    e->want += at->c < 0 ? SHIFT : 0;
    return true;
}

const struct attn_relation attn_relation_shift = {
    .check = ATTN_CHECK_SHIFT,
    .parts = 1,
    .changes = (const uint32_t[]){ATTN_BIAS, 0},
    .fits = fits_shift,
    .recast = recast_shift,
    .value = value_shift,
    .expect = expect_shift,
    .exact = attn_relation_never,
};

/* ---- scale_v ---- */

/* Gradients: columns of v and of out are scaled, those of dout by the inverse. dP and delta stay.
 */
static bool is_backward(const struct attn_relation_work *work)
{
    return attn_relation_has(work, ATTN_GRAD_OUT);
}

/* Powers of two scale normal numbers without rounding. With the range of f32 few numbers are below
 * these; due_to_underflow counts them. Sums in f16 meet them everywhere. */
static bool fits_scale(struct attn_relation_work *work)
{
    if (is_backward(work) && attn_relation_problem(work)->dtype == ATTN_F16)
        return false;                   /* dout and dv are stored */
    if (attn_relation_projects(work) && /* heads of f16 are stored, and x is not scaled */
        (attn_relation_problem(work)->dtype == ATTN_F16 || work->numerics.proj_type == ATTN_F16 ||
         attn_relation_flagged(work, ATTN_FLAG_RESIDUAL)))
        return false;
    return (attn_relation_bounded(work) || is_backward(work)) && work->numerics.deterministic &&
           !attn_relation_has(work, ATTN_GATE) && /* it multiplies what underflows */
           (work->numerics.acc_type ? work->numerics.acc_type
                                    : attn_relation_problem(work)->dtype) != ATTN_F16 &&
           work->numerics.partial_type != ATTN_F16;
}

static double column_factor(int64_t c)
{
    static const double factors[] = {-1, 2, -2};
    return factors[c % 3];
}

/* The column of v that makes column c of out. */
static int64_t value_column(const struct attn_relation_work *work, int64_t c)
{
    return work->inner ? work->inner->sources[c].column % attn_relation_problem(work)->dv : c;
}

static double value_scaled(const struct attn_relation_work *work, int part,
                           const struct attn_tensor *tensor, int64_t at[ATTN_MAX_RANK])
{
    const int64_t dv = attn_relation_problem(work)->dv;
    const bool v = tensor->role == ATTN_V || tensor->role == ATTN_V_GLOBAL ||
                   (tensor->role == ATTN_OUT && is_backward(work));
    const double factor = v                               ? column_factor(at[3])
                          : tensor->role == ATTN_GRAD_OUT ? 1 / column_factor(at[3])
                          : tensor->role == ATTN_W_V || tensor->role == ATTN_B_V
                              ? column_factor(at[0] % dv)
                          : tensor->role == ATTN_B_O ? column_factor(value_column(work, at[0]))
                                                     : 1;
    return factor * attn_relation_value_same(work, part, tensor, at);
}

/* How far results of this size may differ, because numbers below the least normal one do not scale.
 *
 * Each key's product with v, its addition and its rescaling may lose half a subnormal of the
 * accumulation, or the least normal number if it flushes. They lose it in both runs, and the factor
 * 2 of one of them doubles it: 3 times 1 + 2 losses a key. The sum of a key that differs so may
 * round the other way, by one spacing, when it is added and when it is rescaled.
 *
 * Sums of a certain size do not notice. Of n keys, the products below the least normal number and
 * what they lose add up to less than half the spacing of a sum that is larger than 2n / u least
 * normal numbers. So they round away in both runs. Sums toward zero do notice: taking anything away
 * from one lowers it by a whole spacing, and a product that is lost in one run takes nothing away.
 *
 * The store loses as much in its own type, and rounds a different sum the other way. */
static double due_to_underflow(const struct attn_relation_work *work, double size)
{
    const struct attn_problem *p = attn_relation_problem(work);
    const struct attn_numerics *numerics = &work->numerics;
    const uint32_t acc = numerics->acc_type ? numerics->acc_type : p->dtype;
    const double n = (double)(is_backward(work) ? p->hq / p->hkv * p->sq : p->sk); /* terms */
    const double normal = attn_dtype_min_normal(acc);
    const double loss = numerics->ftz ? normal : attn_dtype_min_subnormal(acc) / 2;
    double due =
        size < 4 * attn_dtype_min_normal(p->dtype) ? 2 * attn_dtype_min_subnormal(p->dtype) : 0;
    if (numerics->acc_toward_zero || size <= 2 * n / attn_dtype_roundoff(acc) * normal)
        due += n * (9 * loss + 2 * attn_dtype_ulp(acc, size)) + attn_dtype_ulp(p->dtype, size);
    return due;
}

static bool expect_scaled(struct attn_relation_work *work, const struct attn_place *at,
                          struct attn_expectation *e)
{
    const bool dv = is_backward(work) && work->was.tensor[at->output]->role == ATTN_GRAD_V;
    const bool out = !is_backward(work) && at->c >= 0;
    const double factor = dv    ? 1 / column_factor(at->at[3])
                          : out ? column_factor(value_column(work, at->c))
                                : 1;
    e->want = attn_results_read(&work->was, at) * factor;
    e->got = attn_results_read(&work->is[0], at);
    e->allowed = dv || out ? due_to_underflow(work, fabs(e->want)) : 0;
    return true;
}

const struct attn_relation attn_relation_scale_v = {
    .check = ATTN_CHECK_SCALE_V,
    .parts = 1,
    .changes = (const uint32_t[]){ATTN_V, ATTN_V_GLOBAL, ATTN_W_V, ATTN_B_V, ATTN_B_O, ATTN_OUT,
                                  ATTN_GRAD_OUT, 0},
    .fits = fits_scale,
    .value = value_scaled,
    .expect = expect_scaled,
    .exact = attn_relation_always,
};

/* ---- linear_v ---- */

static bool fits_linear(struct attn_relation_work *work)
{
    return attn_relation_bounded(work) && attn_relation_problem(work)->sk > 1 &&
           !attn_relation_flagged(work, ATTN_FLAG_RESIDUAL);
}

static double value_linear(const struct attn_relation_work *work, int part,
                           const struct attn_tensor *tensor, int64_t at[ATTN_MAX_RANK])
{
    /* Multi-head attention: the even columns of W_v with the biases, and the odd ones. */
    const bool v = tensor->role == ATTN_V || tensor->role == ATTN_V_GLOBAL;
    const bool zero = (v && at[2] % 2 != part) || (tensor->role == ATTN_W_V && at[1] % 2 != part) ||
                      ((tensor->role == ATTN_B_V || tensor->role == ATTN_B_O) && part > 0);
    return zero ? 0 : attn_relation_value_same(work, part, tensor, at);
}

static bool expect_linear(struct attn_relation_work *work, const struct attn_place *at,
                          struct attn_expectation *e)
{
    if (at->c < 0)
        return false;
    attn_relation_expect_same(work, at, e);
    e->got += attn_results_read(&work->is[1], at);
    e->allowed += attn_results_slack(&work->is[1], at);
    return isfinite(e->got) || !attn_relation_sums(work); /* sums may leave the type's range */
}

const struct attn_relation attn_relation_linear_v = {
    .check = ATTN_CHECK_LINEAR_V,
    .parts = 2,
    .structured = true,
    .changes = (const uint32_t[]){ATTN_V, ATTN_V_GLOBAL, ATTN_W_V, ATTN_B_V, ATTN_B_O, 0},
    .fits = fits_linear,
    .value = value_linear,
    .expect = expect_linear,
    .exact = attn_relation_never,
};

/* ---- ones ---- */

static bool fits_ones(struct attn_relation_work *work)
{
    return attn_relation_bounded(work) && !attn_relation_weighs(work) &&
           !attn_relation_has(work, ATTN_SINK) &&
           (attn_relation_attends(work) || attn_relation_has(work, ATTN_B_V)) &&
           !attn_relation_flagged(work, ATTN_FLAG_DROPOUT);
}

static double value_ones(const struct attn_relation_work *work, int part,
                         const struct attn_tensor *tensor, int64_t at[ATTN_MAX_RANK])
{
    switch (tensor->role) {
    case ATTN_V:
    case ATTN_V_GLOBAL:
    case ATTN_B_V:
        return 1;
    case ATTN_W_V:
        return 0;
    default:
        return attn_relation_value_same(work, part, tensor, at);
    }
}

static bool sees_a_key(const struct attn_problem *p, const struct attn_place *at, int64_t h)
{
    for (int64_t j = 0; j < p->sk; j++)
        if (ref_allowed(p, at->b, h, at->i, j))
            return true;
    return false;
}

/* What out is where its head is `y`. Sets the head. */
static double of_head(const struct attn_relation_work *work, const struct attn_place *at, double y,
                      int64_t *h)
{
    const struct attn_problem *p = attn_relation_problem(work);
    const struct attn_tensor *b_o = attn_tensor_find(p, ATTN_B_O);
    *h = at->h;
    if (!work->inner)
        return y;
    const struct attn_inner_source *source = &work->inner->sources[at->c];
    *h = source->column / p->dv;
    return source->weight * (attn_inner_pruned(p, *h) ? 0 : y) + (b_o ? ref_load(b_o, &at->c) : 0) +
           (attn_relation_flagged(work, ATTN_FLAG_RESIDUAL)
                ? ref_load(attn_tensor_find(p, ATTN_X_Q), (int64_t[]){at->b, at->i, at->c})
                : 0);
}

static bool expect_ones(struct attn_relation_work *work, const struct attn_place *at,
                        struct attn_expectation *e)
{
    if (at->c < 0)
        return false;
    int64_t h;
    e->got = attn_results_read(&work->is[0], at);
    e->want = of_head(work, at, 1, &h);
    e->allowed = attn_results_slack(&work->is[0], at);
    if (!(fabs(e->got - e->want) <= e->allowed) &&
        !sees_a_key(attn_relation_problem(work), at, h)) {
        e->want = of_head(work, at, 0, &h);
        e->allowed = work->inner ? e->allowed : 0;
        return work->numerics.empty_row == ATTN_EMPTY_ZERO;
    }
    return true;
}

const struct attn_relation attn_relation_ones = {
    .check = ATTN_CHECK_ONES,
    .parts = 1,
    .structured = true,
    .constant_v = true,
    .changes = (const uint32_t[]){ATTN_V, ATTN_V_GLOBAL, ATTN_W_V, ATTN_B_V, 0},
    .fits = fits_ones,
    .value = value_ones,
    .expect = expect_ones,
    .exact = attn_relation_never,
};
