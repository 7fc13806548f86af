/* SPDX-License-Identifier: Apache-2.0 */
/* function_forms.c - two keys at a known distance, for each kind of score. README.md has the idea.
 */
#include <math.h>

#include "reference/score.h"
#include "run/functions.h"

enum { ALIKE_EVERY = 8 };
#define SATURATE 32.0 /* tanh of it is 1 in every type */

/* ---- products of q and k: q is (x / scale, 1), first (0, 0), other (1, 0), the rest (0, -far) */

static double row_distance(const struct attn_relation_work *work, int64_t row)
{
    if (!attn_functions_long(work) && row % ALIKE_EVERY == ALIKE_EVERY - 1)
        return 0;
    const double x = attn_functions_spread(work, row);
    return row % 2 ? x : -x;
}

static double product_distance(const struct attn_relation_work *work, int64_t b, int64_t h,
                               int64_t i)
{
    const struct attn_problem *p = attn_relation_problem(work);
    return row_distance(work, (b * p->hq + h) * p->sq + i);
}

static bool product_fits(const struct attn_relation_work *work)
{
    (void)work;
    return true;
}

static double identity(const int64_t *at, int row)
{
    return at[row] == at[row + 1] && at[row] < 2;
}

static double query(double x, const struct attn_relation_work *work, int64_t c)
{
    return c == 0 ? x / attn_functions_scale(work)
                  : c == 1 && !attn_functions_dense(work) && x != 0;
}

static double product_value(const struct attn_relation_work *work, const struct attn_tensor *tensor,
                            const int64_t *at)
{
    const int64_t c = at[3];
    switch (tensor->role) {
    case ATTN_Q:
        return query(product_distance(work, at[0], at[1], at[2]), work, c);
    case ATTN_K:
        if (c == 1 && attn_functions_is_far(work, at[0], at[1], at[2]))
            return -ATTN_FAR_BELOW / attn_functions_scale(work);
        return c == 0 && attn_functions_is_other(work, at[0], at[1], at[2]);
    case ATTN_SCORE_M:
        return identity(at, 1);
    default:
        return attn_functions_v(work, at);
    }
}

/* ---- multi-head attention: the same q, k and v through projections of one term each. Columns of x
 * are q's two, k's two, and whether the key is `first`. Heads have powers of two of one distance.
 */

enum { X_DISTANCE, X_ONE, X_OTHER, X_FAR, X_FIRST };
_Static_assert(X_FIRST + 1 == ATTN_FUNCTIONS_X, "all columns of x");

static double head_factor(int64_t h)
{
    return (h % 2 ? -1 : 1) * exp2(-(double)(h / 2 % 3));
}

static double projected_distance(const struct attn_relation_work *work, int64_t b, int64_t h,
                                 int64_t i)
{
    return head_factor(h) * row_distance(work, b * attn_relation_problem(work)->sq + i);
}

static bool projected_fits(const struct attn_relation_work *work)
{
    return work->base->c.e >= ATTN_FUNCTIONS_X;
}

static double x_value(const struct attn_relation_work *work, int64_t b, int64_t s, int64_t c)
{
    switch (c) {
    case X_DISTANCE:
    case X_ONE:
        return query(row_distance(work, b * attn_relation_problem(work)->sq + s), work, c);
    case X_OTHER:
        return attn_functions_is_other(work, b, 0, s);
    case X_FAR:
        return attn_functions_is_far(work, b, 0, s) ? -ATTN_FAR_BELOW / attn_functions_scale(work)
                                                    : 0;
    default:
        return c == X_FIRST && attn_functions_is_first(work, b, 0, s);
    }
}

static double projected_value(const struct attn_relation_work *work,
                              const struct attn_tensor *tensor, const int64_t *at)
{
    const struct attn_case *c = &work->base->c;
    const int64_t heads = c->hq * c->dv;
    switch (tensor->role) {
    case ATTN_X_Q:
    case ATTN_X_K:
    case ATTN_X_V:
        return x_value(work, at[0], at[1], at[2]);
    case ATTN_W_Q: /* row 0 of a head takes the distance, row 1 the 1 */
        if (at[0] % c->dq == 0)
            return at[1] == X_DISTANCE ? head_factor(at[0] / c->dq) : 0;
        return at[0] % c->dq == 1 && at[1] == X_ONE;
    case ATTN_W_K:
        return (at[0] % c->dk == 0 && at[1] == X_OTHER) || (at[0] % c->dk == 1 && at[1] == X_FAR);
    case ATTN_W_V:
        return at[1] == (at[0] % c->dv % 2 ? X_OTHER : X_FIRST);
    case ATTN_W_O:
        return at[1] == at[0] % heads;
    case ATTN_SCORE_M:
        return identity(at, 1);
    case ATTN_HEAD_MASK:
        return attn_relation_value_same(work, 0, tensor, (int64_t *)(uintptr_t)at);
    default: /* biases */
        return 0;
    }
}

/* ---- distances: first is q itself. In column 0 other is y away, and the score is -y^2 scale / 2.
 * Columns from 1 on belong to pairs of keys: q has a far value in that of its pair. Every square is
 * exact in f32: y has 8 bits at most, and is a whole multiple of a 64th of the unit, which follows
 * the scale. In the dense form first is y away: one weight below many alike shows more of exp than
 * many below one, because their sum is rounded. */

static double unit_of(const struct attn_relation_work *work)
{
    return 1 / sqrt(attn_functions_scale(work));
}

static int64_t pairs_of(const struct attn_relation_work *work)
{
    const int64_t keys = attn_functions_keys(work) / 2, wide = work->base->c.dk - 1;
    return attn_functions_dense(work) ? 1 : keys < wide ? keys : wide;
}

/* y in units. */
static double apart(const struct attn_relation_work *work, int64_t b, int64_t g, int64_t pair)
{
    const int64_t n = (b * work->base->c.hkv + g) * pairs_of(work) + pair;
    const double y = sqrt(2 * attn_functions_spread(work, n));
    return fmax(attn_functions_narrow(fmax(round(64 * y), 1)) / 64, 0x1p-4);
}

static double gaussian_distance(const struct attn_relation_work *work, int64_t b, int64_t h,
                                int64_t i)
{
    const struct attn_case *c = &work->base->c;
    const int64_t g = h / (c->hq / c->hkv);
    const double y = apart(work, attn_functions_batch(work, b), g, i % pairs_of(work));
    return (attn_functions_dense(work) ? 0.5 : -0.5) * y * y;
}

/* Sums in f32 hold the squares; norms cancel. */
static bool gaussian_fits(const struct attn_relation_work *work)
{
    const struct attn_numerics *n = &work->numerics;
    const uint32_t acc = n->acc_type ? n->acc_type : work->base->c.dtype;
    return (acc == ATTN_F32 || acc == ATTN_F64) && !n->gaussian_by_norms && !n->partial_type &&
           n->u_in == 0;
}

static double gaussian_value(const struct attn_relation_work *work,
                             const struct attn_tensor *tensor, const int64_t *at)
{
    const int64_t pairs = pairs_of(work), c = at[3];
    const double unit = unit_of(work), far = sqrt(ATTN_FAR_BELOW) * unit;
    const bool dense = attn_functions_dense(work);
    if (tensor->role == ATTN_Q)
        return !dense && c == 1 + at[2] % pairs ? far : 0;
    if (tensor->role != ATTN_K) /* of each pair the even key is first */
        return dense ? attn_functions_v(work, at) : at[2] < 2 * pairs && at[2] % 2 == at[3] % 2;
    if (dense)
        return c == 0 && attn_functions_is_first(work, at[0], at[1], at[2])
                   ? unit * apart(work, at[0], at[1], 0)
                   : 0;
    if (c == 0)
        return at[2] % 2 && at[2] < 2 * pairs ? unit * apart(work, at[0], at[1], at[2] / 2) : 0;
    return c == 1 + at[2] / 2 ? far : 0;
}

/* ---- additive: q is 0. Key first is 0, so all its tanh are. Other turns on one hidden unit, whose
 * w_v is the distance over its tanh; the last unit is far below. In the dense form first is below.
 */

static int64_t units_of(const struct attn_relation_work *work)
{
    return attn_functions_dense(work) ? 1 : attn_functions_columns(work) - 1;
}

/* What a unit meets: for one half of them tanh is 1, for the others it is between 0 and 1. */
static double argument(int64_t unit)
{
    return unit % 2 ? 0.25 + 0.125 * (double)(unit / 2 % 16) : SATURATE;
}

static double unit_weight(const struct attn_relation_work *work, int64_t h, int64_t unit)
{
    const double x = attn_functions_spread(work, h * units_of(work) + unit);
    return attn_functions_dense(work) || (unit / 2 + h) % 2 ? x : -x;
}

/* Parameters may be shared by all heads. */
static int64_t weights_head(const struct attn_relation_work *work, int64_t h)
{
    return work->base->c.params_head ? h : 0;
}

static int64_t unit_on(const struct attn_relation_work *work, int64_t b, int64_t g)
{
    return (b * work->base->c.hkv + g) % units_of(work);
}

static double additive_distance(const struct attn_relation_work *work, int64_t b, int64_t h,
                                int64_t i)
{
    const struct attn_case *c = &work->base->c;
    const int64_t unit = unit_on(work, attn_functions_batch(work, b), h / (c->hq / c->hkv));
    (void)i;
    return unit_weight(work, weights_head(work, h), unit) * tanh(argument(unit));
}

static double additive_value(const struct attn_relation_work *work,
                             const struct attn_tensor *tensor, const int64_t *at)
{
    const int64_t units = units_of(work);
    switch (tensor->role) {
    case ATTN_Q:
    case ATTN_SCORE_WQ:
        return 0;
    case ATTN_K:
        if (at[3] == units && attn_functions_is_far(work, at[0], at[1], at[2]))
            return SATURATE;
        return at[3] == unit_on(work, at[0], at[1]) &&
                       attn_functions_is_other(work, at[0], at[1], at[2])
                   ? argument(at[3])
                   : 0;
    case ATTN_SCORE_WK:
        return at[1] == at[2];
    case ATTN_SCORE_WV:
        if (at[1] < units)
            return unit_weight(work, at[0], at[1]) / attn_functions_scale(work);
        return at[1] == units ? -ATTN_FAR_BELOW / attn_functions_scale(work) : 0;
    default:
        return attn_functions_v(work, at);
    }
}

/* ---- by operator and score ---- */

static const struct attn_function_form of_products = {product_fits, product_distance, product_value,
                                                      .equal_rows = true};
static const struct attn_function_form of_projections = {projected_fits, projected_distance,
                                                         projected_value, .equal_rows = true};
/* A constant folded into q and k counts twice, and twice again in the square. */
static const struct attn_function_form of_distances = {
    gaussian_fits, gaussian_distance, gaussian_value, .roundings = 4, .dense_first = true};
static const struct attn_function_form of_units = {product_fits, additive_distance, additive_value,
                                                   .roundings = 2, .tanh = true};

const struct attn_function_form *attn_function_form_of(const struct attn_relation_work *work)
{
    const struct ref_score *score = ref_score_find(work->base->c.score);
    const bool matrix = attn_functions_has(work, ATTN_SCORE_M);
    const bool product =
        (score->traits & REF_SCORE_PRODUCT) && (!score->params || !score->params[0] || matrix);
    if (attn_functions_projected(work))
        return product ? &of_projections : NULL;
    if (!attn_relation_attends(work))
        return NULL;
    if (product)
        return &of_products;
    if (score->traits & REF_SCORE_DISTANCE)
        return &of_distances;
    return attn_functions_has(work, ATTN_SCORE_WV) ? &of_units : NULL;
}
