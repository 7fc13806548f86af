/* SPDX-License-Identifier: Apache-2.0 */
/* mistakes_state.c - mistakes of recurrences: in decays, in the bonus, in the state that is given.
 */
#include <math.h>
#include <string.h>

#include "explain/mistakes.h"
#include "reference/dtype.h"

/* ---- decays ---- */

/* Replaces a tensor by function(value, argument, step), `step` along the axis of steps. */
static bool map(struct attn_mutation *m, uint32_t role,
                double (*function)(double value, double argument, int64_t step), double argument)
{
    const int axis = attn_mistake_axis(m, role, "j");
    if (!attn_mutated_remake(m, role, 1, 0, 0))
        return false;
    struct attn_tensor *t = attn_mutated(m, role);
    int64_t count = 1;
    bool changed = false;
    for (uint32_t a = 0; a < t->rank; a++)
        count *= t->stride[a] ? t->shape[a] : 1;
    for (int64_t n = 0; n < count; n++) {
        const int64_t step =
            axis >= 0 && t->stride[axis] ? n / t->stride[axis] % t->shape[axis] : 0;
        const double was = attn_dtype_load(t->dtype, t->data, n);
        attn_dtype_store(t->dtype, t->data, n, function(was, argument, step));
        changed = changed || attn_dtype_load(t->dtype, t->data, n) != was;
    }
    return changed;
}

static double at_least(double value, double least, int64_t step)
{
    (void)step;
    return fmax(value, least);
}

static bool decay_clipped(struct attn_mutation *m, double least)
{
    ATTN_SAY(m, "logarithms of decay below %g cut off there", least);
    return map(m, ATTN_DECAY, at_least, least);
}

static double times_at_begin(double value, double tile, int64_t step)
{
    return step % (int64_t)fabs(tile) == 0 ? value * (tile < 0 ? 0 : 2) : value;
}

/* tile < 0: not at all. */
static bool decay_at_begin(struct attn_mutation *m, double tile)
{
    ATTN_SAY(m, "%s decay at the first step of each block of %.0f", tile < 0 ? "no" : "twice the",
             fabs(tile));
    return attn_mistake_axis(m, ATTN_DECAY, "j") >= 0 &&
           (double)attn_mutated(m, ATTN_DECAY)->shape[2] > fabs(tile) &&
           map(m, ATTN_DECAY, times_at_begin, tile);
}

static double exponential(double value, double factor, int64_t step)
{
    (void)step;
    return factor * exp(value);
}

static bool decay_is_log(struct attn_mutation *m, double factor)
{
    ATTN_SAY(m, "%sexp of the decay as its rate", factor < 0 ? "minus " : "");
    return map(m, ATTN_DECAY, exponential, factor);
}

static bool decay_times(struct attn_mutation *m, double factor)
{
    ATTN_SAY(m,
             factor == 0  ? "no decay"
             : factor < 0 ? "growth instead of decay"
                          : "decays times %.6g%s",
             factor, factor == attn_ln2 || factor == 1 / attn_ln2 ? ": exp in another base" : "");
    return attn_mutated_remake(m, ATTN_DECAY, factor, 0, 0);
}

static void from_other_step(const struct attn_mutation *m, double by, int64_t at[ATTN_MAX_RANK])
{
    const int64_t step = at[2] + (int64_t)by, last = m->problem.sk - 1;
    at[2] = step < 0 ? 0 : step > last ? last : step;
}

static bool decay_of_step(struct attn_mutation *m, double by)
{
    const struct attn_tensor *t = attn_mutated(m, ATTN_DECAY);
    ATTN_SAY(m, "the decay of the step %s", by < 0 ? "before" : "after");
    return attn_mistake_axis(m, ATTN_DECAY, "j") == 2 && t->stride[2] != 0 &&
           attn_mutated_gather(
               m, ATTN_DECAY, (const int64_t[]){t->shape[0], t->shape[1], t->shape[2], t->shape[3]},
               from_other_step, by);
}

static void from_channel(const struct attn_mutation *m, double lanes, int64_t at[ATTN_MAX_RANK])
{
    (void)m;
    at[0] %= (int64_t)lanes;
}

/* An operand of channels alone, read modulo a number of lanes. */
static bool channel_modulo(struct attn_mutation *m, uint32_t role, double lanes)
{
    const struct attn_tensor *t = attn_mutated(m, role);
    ATTN_SAY(m, "%s of channel c modulo %.0f", attn_role_name(role), lanes);
    return t && t->rank == 1 && t->shape[0] > (int64_t)lanes &&
           attn_mutated_gather(m, role, (const int64_t[]){t->shape[0]}, from_channel, lanes);
}

static bool decay_modulo(struct attn_mutation *m, double lanes)
{
    return channel_modulo(m, ATTN_DECAY, lanes);
}

static bool bonus_modulo(struct attn_mutation *m, double lanes)
{
    return channel_modulo(m, ATTN_BONUS, lanes);
}

/* ---- bonus and state ---- */

/* A bonus that is needed is a logit: 0 is none. */
static bool no_bonus(struct attn_mutation *m, double unused)
{
    const struct ref_operand *row = ref_operand_of(ref_op_find(m->problem.op), ATTN_BONUS);
    (void)unused;
    ATTN_SAY(m, "no bonus");
    if (!row || !attn_mutated(m, ATTN_BONUS))
        return false;
    return row->flags & REF_NEEDED ? attn_mutated_remake(m, ATTN_BONUS, 0, 0, 0)
                                   : attn_mutated_drop(m, ATTN_BONUS);
}

/* Where past and own step share a denominator, a past that decays once more is a larger bonus. */
static bool past_decays(struct attn_mutation *m, double times)
{
    const struct attn_tensor *w = attn_mutated(m, ATTN_DECAY);
    struct attn_tensor *u = attn_mutated(m, ATTN_BONUS);
    if (!w || !u || w->rank != 1 || u->rank != 1 || !attn_mutated_remake(m, ATTN_BONUS, 1, 0, 0))
        return false;
    u = attn_mutated(m, ATTN_BONUS);
    for (int64_t c = 0; c < u->shape[0]; c++) {
        const double decay = attn_dtype_load(w->dtype, w->data, c * w->stride[0]);
        const double bonus = attn_dtype_load(u->dtype, u->data, c * u->stride[0]);
        attn_dtype_store(u->dtype, u->data, c * u->stride[0], bonus + times * decay);
    }
    ATTN_SAY(m, "the past decayed once %s before it is read", times > 0 ? "more" : "less");
    return true;
}

static bool state_transposed(struct attn_mutation *m, double unused)
{
    struct attn_tensor *t = attn_mutated(m, ATTN_STATE_IN);
    (void)unused;
    if (!t || t->rank != 4 || t->shape[2] != t->shape[3])
        return false;
    const int64_t stride = t->stride[2];
    t->stride[2] = t->stride[3];
    t->stride[3] = stride;
    ATTN_SAY(m, "state_in transposed");
    return true;
}

/* Read as if it were [Dv,Dk], where the widths differ. */
static void from_turned(const struct attn_mutation *m, double unused, int64_t at[ATTN_MAX_RANK])
{
    const int64_t n = at[2] * m->problem.dv + at[3];
    (void)unused;
    at[2] = n % m->problem.dk;
    at[3] = n / m->problem.dk;
}

static bool state_turned(struct attn_mutation *m, double unused)
{
    const struct attn_tensor *t = attn_mutated(m, ATTN_STATE_IN);
    ATTN_SAY(m, "state_in transposed");
    return t && t->rank == 4 && t->shape[2] != t->shape[3] &&
           attn_mutated_gather(m, ATTN_STATE_IN, t->shape, from_turned, unused);
}

/* A state of a, b and p, of which a decay is a change of p. */
static bool state_decays(struct attn_mutation *m, double times)
{
    const struct attn_tensor *w = attn_mutated(m, ATTN_DECAY);
    const struct attn_tensor *old = attn_mutated(m, ATTN_STATE_IN);
    if (!w || !old || w->rank != 1 || old->rank != 3 || old->shape[2] != 3 ||
        !attn_mutated_remake(m, ATTN_STATE_IN, 1, 0, 0))
        return false;
    struct attn_tensor *t = attn_mutated(m, ATTN_STATE_IN);
    for (int64_t b = 0; b < t->shape[0]; b++)
        for (int64_t c = 0; c < t->shape[1]; c++) {
            const int64_t at = b * t->stride[0] + c * t->stride[1] + 2 * t->stride[2];
            const double decay = attn_dtype_load(w->dtype, w->data, c * w->stride[0]);
            const double p = attn_dtype_load(t->dtype, t->data, at);
            attn_dtype_store(t->dtype, t->data, at, p - times * decay);
        }
    ATTN_SAY(m, "state_in decayed once %s", times > 0 ? "more" : "less");
    return true;
}

/* A bonus that weighs every step: in keys, not beside them. f32 alone, for k would be rounded. */
static bool bonus_to_all(struct attn_mutation *m, double unused)
{
    const struct attn_tensor *u = attn_mutated(m, ATTN_BONUS);
    (void)unused;
    if (!u || u->rank != 2 || m->problem.dtype != ATTN_F32 ||
        !attn_mutated_remake(m, ATTN_K, 1, 0, 0))
        return false;
    struct attn_tensor *k = attn_mutated(m, ATTN_K);
    if (k->stride[3] == 0)
        return false;
    for (int64_t b = 0; b < (k->stride[0] ? k->shape[0] : 1); b++)
        for (int64_t h = 0; h < (k->stride[1] ? k->shape[1] : 1); h++)
            for (int64_t i = 0; i < (k->stride[2] ? k->shape[2] : 1); i++)
                for (int64_t c = 0; c < k->shape[3]; c++) {
                    const int64_t at =
                        b * k->stride[0] + h * k->stride[1] + i * k->stride[2] + c * k->stride[3];
                    ((float *)k->data)[at] *= (float)attn_dtype_load(
                        u->dtype, u->data, h * u->stride[0] + c * u->stride[1]);
                }
    ATTN_SAY(m, "the bonus for every step");
    return attn_mutated_drop(m, ATTN_BONUS);
}

const struct attn_mistake attn_mistakes_state[] = {
    {no_bonus, 1, {0}},
    {past_decays, 2, {1, -1}},
    {decay_times, 4, {0, -1, 0.69314718055994530942, 1.44269504088896340736}},
    {decay_is_log, 2, {1, -1}},
    {decay_clipped, 3, {-5, -10, -1}},
    {decay_of_step, 2, {-1, 1}},
    {decay_at_begin, 4, {16, 32, 64, 128}},
    {decay_at_begin, 4, {-16, -32, -64, -128}},
    {decay_modulo, 4, {8, 16, 32, 64}},
    {bonus_modulo, 4, {8, 16, 32, 64}},
    {state_transposed, 1, {0}},
    {state_turned, 1, {0}},
    {state_decays, 2, {1, -1}},
    {bonus_to_all, 1, {0}},
    {NULL, 0, {0}},
};
