/* SPDX-License-Identifier: Apache-2.0 */
/* relation_values.c - relations that change scores and values: a constant added to all scores, v
 * scaled, split or constant. */
#include "run/relation.h"

#include <math.h>

#include "reference/dtype.h"

#define SHIFT 16.0 /* exact in every type, and beyond the scores of random inputs */

/* ---- shift ---- */

static bool fits_shift(struct attn_relation_work *work)
{
    return attn_relation_attends(work) && !attn_relation_has(work, ATTN_BIAS) &&
           !attn_relation_has(work, ATTN_SINK);
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
    .fits = fits_shift,
    .recast = recast_shift,
    .value = value_shift,
    .expect = expect_shift,
    .exact = attn_relation_never,
};

/* ---- scale_v ---- */

/* Powers of two scale normal numbers without rounding. With the range of f32 few numbers are below
 * these; due_to_underflow counts them. Sums in f16 meet them everywhere. */
static bool fits_scale(struct attn_relation_work *work)
{
    return attn_relation_attends(work) && work->numerics.deterministic &&
           (work->numerics.acc_type ? work->numerics.acc_type
                                    : attn_relation_problem(work)->dtype) != ATTN_F16 &&
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
    return attn_relation_value_same(work, part, tensor, at) *
           (tensor->role == ATTN_V ? column_factor(at[3]) : 1);
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
 * normal numbers. So they round away in both runs.
 *
 * The store loses as much in its own type, and rounds a different sum the other way. */
static double due_to_underflow(const struct attn_relation_work *work, double size)
{
    const struct attn_problem *p = attn_relation_problem(work);
    const struct attn_numerics *numerics = &work->numerics;
    const uint32_t acc = numerics->acc_type ? numerics->acc_type : p->dtype;
    const double normal = attn_dtype_min_normal(acc), n = (double)p->sk;
    const double loss = numerics->ftz ? normal : attn_dtype_min_subnormal(acc) / 2;
    double due =
        size < 4 * attn_dtype_min_normal(p->dtype) ? 2 * attn_dtype_min_subnormal(p->dtype) : 0;
    if (size <= 2 * n / attn_dtype_roundoff(acc) * normal)
        due += n * (9 * loss + 2 * attn_dtype_ulp(acc, size)) + attn_dtype_ulp(p->dtype, size);
    return due;
}

static bool expect_scaled(struct attn_relation_work *work, const struct attn_place *at,
                          struct attn_expectation *e)
{
    e->want = attn_results_read(&work->was, at) * (at->c < 0 ? 1 : column_factor(at->c));
    e->got = attn_results_read(&work->is[0], at);
    e->allowed = at->c < 0 ? 0 : due_to_underflow(work, fabs(e->want));
    return true;
}

const struct attn_relation attn_relation_scale_v = {
    .check = ATTN_CHECK_SCALE_V,
    .parts = 1,
    .fits = fits_scale,
    .value = value_scaled,
    .expect = expect_scaled,
    .exact = attn_relation_always,
};

/* ---- linear_v ---- */

static bool fits_linear(struct attn_relation_work *work)
{
    return attn_relation_attends(work) && attn_relation_problem(work)->sk > 1;
}

static double value_linear(const struct attn_relation_work *work, int part,
                           const struct attn_tensor *tensor, int64_t at[ATTN_MAX_RANK])
{
    return tensor->role == ATTN_V && at[2] % 2 != part
               ? 0
               : attn_relation_value_same(work, part, tensor, at);
}

static bool expect_linear(struct attn_relation_work *work, const struct attn_place *at,
                          struct attn_expectation *e)
{
    if (at->c < 0)
        return false;
    attn_relation_expect_same(work, at, e);
    e->got += attn_results_read(&work->is[1], at);
    e->allowed += attn_results_slack(&work->is[1], at);
    return true;
}

const struct attn_relation attn_relation_linear_v = {
    .check = ATTN_CHECK_LINEAR_V,
    .parts = 2,
    .structured = true,
    .fits = fits_linear,
    .value = value_linear,
    .expect = expect_linear,
    .exact = attn_relation_never,
};

/* ---- ones ---- */

static bool fits_ones(struct attn_relation_work *work)
{
    return attn_relation_attends(work) && !attn_relation_has(work, ATTN_SINK) &&
           !attn_relation_flagged(work, ATTN_FLAG_DROPOUT);
}

static double value_ones(const struct attn_relation_work *work, int part,
                         const struct attn_tensor *tensor, int64_t at[ATTN_MAX_RANK])
{
    return tensor->role == ATTN_V ? 1 : attn_relation_value_same(work, part, tensor, at);
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
    if (!(fabs(e->got - 1) <= e->allowed) && !sees_a_key(attn_relation_problem(work), at)) {
        e->want = e->allowed = 0;
        return work->numerics.empty_row == ATTN_EMPTY_ZERO;
    }
    return true;
}

const struct attn_relation attn_relation_ones = {
    .check = ATTN_CHECK_ONES,
    .parts = 1,
    .structured = true,
    .constant_v = true,
    .fits = fits_ones,
    .value = value_ones,
    .expect = expect_ones,
    .exact = attn_relation_never,
};
