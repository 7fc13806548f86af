/* SPDX-License-Identifier: Apache-2.0 */
/* mistakes_operators.c - mistakes in what single operators have: projections, features and
 * rotations, parameters. */
#include <math.h>
#include <string.h>

#include "case/operator.h"
#include "explain/mistakes.h"

static const struct ref_op *op_of(const struct attn_mutation *m)
{
    return ref_op_find(m->problem.op);
}

int attn_mistake_axis(struct attn_mutation *m, uint32_t role, const char *letters)
{
    const struct ref_operand *row = ref_operand_of(op_of(m), role);
    const char *at = row && attn_mutated(m, role) ? strpbrk(row->shape, letters) : NULL;
    return at ? (int)(at - row->shape) : -1;
}

/* ---- one entry of an axis for all ---- */

static bool first_along(struct attn_mutation *m, uint32_t role, const char *letters, const char *of)
{
    const int axis = attn_mistake_axis(m, role, letters);
    struct attn_tensor *t = attn_mutated(m, role);
    if (axis < 0 || t->stride[axis] == 0 || t->shape[axis] < 2)
        return false;
    t->stride[axis] = 0;
    ATTN_SAY(m, "%s of %s 0 for all of them", attn_role_name(role), of);
    return true;
}

static bool of_first_head(struct attn_mutation *m, double role)
{
    return first_along(m, (uint32_t)role, "gh", "head");
}

static bool of_first_batch(struct attn_mutation *m, double role)
{
    return first_along(m, (uint32_t)role, "b", "batch");
}

static bool of_first_column(struct attn_mutation *m, double role)
{
    return first_along(m, (uint32_t)role, "kv", "column");
}

static bool of_first_step(struct attn_mutation *m, double role)
{
    return first_along(m, (uint32_t)role, "j", "step");
}

static bool of_first_round(struct attn_mutation *m, double role)
{
    return first_along(m, (uint32_t)role, "R", "round");
}

/* ---- projections, features, rotations ---- */

static bool projections_swapped(struct attn_mutation *m, double unused)
{
    struct attn_tensor *e = attn_mutated(m, ATTN_PROJ_E), *f = attn_mutated(m, ATTN_PROJ_F);
    (void)unused;
    if (!e || !f)
        return false;
    e->role = ATTN_PROJ_F;
    f->role = ATTN_PROJ_E;
    ATTN_SAY(m, "proj_e and proj_f exchanged");
    return true;
}

static bool both_of_first_head(struct attn_mutation *m, double unused)
{
    (void)unused;
    const bool both = of_first_head(m, ATTN_PROJ_E) && attn_mutated(m, ATTN_PROJ_F) &&
                      of_first_head(m, ATTN_PROJ_F);
    ATTN_SAY(m, "proj_e and proj_f of head 0 for all of them");
    return both;
}

/* What an approximation stands for. */
static bool attention_itself(struct attn_mutation *m, double unused)
{
    const struct ref_op *attention = ref_op_named(ATTN_DEFAULT_OP);
    const bool fits = ref_op_is(m->problem.op, REF_QKV | REF_APPROXIMATES);
    (void)unused;
    for (uint32_t t = m->problem.n_tensors; fits && t-- > 0;)
        if (!ref_operand_of(attention, m->tensors[t].role) &&
            ref_output_of(attention, m->tensors[t].role) < 0)
            attn_mutated_drop(m, m->tensors[t].role);
    m->problem.op = attention->op;
    m->problem.variant = 0;
    ATTN_SAY(m, "op=%s: not approximated", attention->name);
    return fits;
}

static bool bias_turned(struct attn_mutation *m, double unused)
{
    struct attn_tensor *t = attn_mutated(m, ATTN_BIAS);
    (void)unused;
    if (!t || t->shape[2] != t->shape[3] || t->stride[2] == t->stride[3])
        return false;
    const int64_t stride = t->stride[2];
    t->stride[2] = t->stride[3];
    t->stride[3] = stride;
    ATTN_SAY(m, "bias transposed");
    return true;
}

/* Rows of a tensor that is [heads, rows, ...], but for the last. */
static bool shorter(struct attn_mutation *m, uint32_t role)
{
    struct attn_tensor *t = attn_mutated(m, role);
    if (!t || t->shape[1] < 2)
        return false;
    t->shape[1]--;
    return true;
}

static bool last_row_lost(struct attn_mutation *m, double role)
{
    if (!shorter(m, (uint32_t)role))
        return false;
    shorter(m, ATTN_PROJ_F);
    m->problem.landmarks -= role == ATTN_PROJ_E;
    ATTN_SAY(m,
             role == ATTN_PROJ_E ? "the last projected row left out" : "the last feature left out");
    return true;
}

static bool turned(struct attn_mutation *m, double role)
{
    ATTN_SAY(m, "%s with the other sign", attn_role_name((uint32_t)role));
    return attn_mutated_remake(m, (uint32_t)role, -1, 0, 0);
}

static bool scale_by_rows(struct attn_mutation *m, double unused)
{
    const double old = m->problem.scale;
    (void)unused;
    if (m->problem.landmarks < 1)
        return false;
    m->problem.scale = 1 / sqrt((double)m->problem.landmarks);
    ATTN_SAY(m, "scale %.6g instead of %.6g (from landmarks)", m->problem.scale, old);
    return true;
}

/* Where the root of the scale goes to queries and keys. factor: what the keys are multiplied by
 * too much or too little, as a power of the scale. */
static bool root_of_scale(struct attn_mutation *m, double power)
{
    const double by = pow(fabs(m->problem.scale), power);
    if (!attn_mutated(m, ATTN_FEATURES) || by == 1)
        return false;
    ATTN_SAY(m, power < 0 ? "the root of the scale not applied to k"
                          : "the root of the scale applied to k twice");
    return attn_mutated_remake(m, ATTN_K, by, 0, 0);
}

static bool root_once(struct attn_mutation *m, double unused)
{
    const double old = m->problem.scale;
    (void)unused;
    if (m->problem.iterations < 1 || !(old > 0))
        return false;
    m->problem.scale = sqrt(old);
    ATTN_SAY(m, "the root of the scale applied to one of q and k");
    return old != 1;
}

/* ---- parameters ---- */

static int64_t *field_of(struct attn_mutation *m, const struct ref_param *param)
{
    return (int64_t *)(void *)((char *)&m->problem + param->field);
}

/* Parameter n of the operator, if it is a field of the problem and its score does not own it. */
static const struct ref_param *param_at(const struct attn_mutation *m, double n, uint8_t kind)
{
    const struct ref_param *params = op_of(m)->params;
    const struct ref_score *score = op_of(m)->scores ? ref_score_find(m->problem.score) : NULL;
    for (int k = 0; params && params[k].key; k++)
        if (k == (int)n)
            return params[k].field && params[k].kind == kind && !op_of(m)->param_flags &&
                           ref_score_reads(score, params[k].key)
                       ? &params[k]
                       : NULL;
    return NULL;
}

static void say_param(struct attn_mutation *m, const struct ref_param *param, double is, double was)
{
    char words[2][32];
    attn_param_text(param, is, words[0], sizeof words[0]);
    attn_param_text(param, was, words[1], sizeof words[1]);
    ATTN_SAY(m, "%s=%s instead of %s", param->key, words[0], words[1]);
}

static bool other_word(struct attn_mutation *m, double n)
{
    const struct ref_param *param = param_at(m, n, REF_PARAM_WORD);
    if (!param)
        return false;
    int64_t *field = field_of(m, param);
    const int64_t was = *field;
    *field = was < (int64_t)param->most ? was + 1 : (int64_t)param->least;
    say_param(m, param, (double)*field, (double)was);
    return *field != was;
}

static bool moved_param(struct attn_mutation *m, double n, int64_t by)
{
    const struct ref_param *param = param_at(m, n, REF_PARAM_INT);
    if (!param)
        return false;
    int64_t *field = field_of(m, param);
    *field += by;
    say_param(m, param, (double)*field, (double)(*field - by));
    return (double)*field >= param->least && (double)*field <= param->most;
}

static bool one_more(struct attn_mutation *m, double n)
{
    return moved_param(m, n, 1);
}

static bool one_less(struct attn_mutation *m, double n)
{
    return moved_param(m, n, -1);
}

static bool no_eps(struct attn_mutation *m, double unused)
{
    const double was = m->problem.eps;
    (void)unused;
    m->problem.eps = 0;
    ATTN_SAY(m, "no eps");
    return was > 0;
}

enum lin_scale { BY_DEFAULT, BY_STEPS, BY_CHUNK, ONE, BY_SCALE, LIN_SCALES };

static bool other_lin_scale(struct attn_mutation *m, double kind)
{
    struct attn_problem *p = &m->problem;
    const double own = p->flags & ATTN_FLAG_CAUSAL ? 1 / (double)p->chunk : 1 / (double)p->sq;
    const double was = p->lin_scale != 0 ? p->lin_scale : own;
    const double scales[] = {[BY_DEFAULT] = own,
                             [BY_STEPS] = 1 / (double)p->sq,
                             [BY_CHUNK] = 1 / (double)p->chunk,
                             [ONE] = 1,
                             [BY_SCALE] = p->scale};
    if (!attn_mutated(m, ATTN_LIN_Q))
        return false;
    p->lin_scale = scales[(int)kind];
    ATTN_SAY(m, "lin_scale %.6g instead of %.6g%s", p->lin_scale, was,
             kind == BY_STEPS   ? " (one over the sequence)"
             : kind == BY_CHUNK ? " (one over the chunk)"
                                : "");
    return p->lin_scale != was;
}

/* An operand read in the place of another of its shape. */
static bool read_for(struct attn_mutation *m, uint32_t role, uint32_t other)
{
    const struct attn_tensor *from = attn_mutated(m, role);
    struct attn_tensor *to = attn_mutated(m, other);
    if (!from || !to || from->shape[3] != to->shape[3])
        return false;
    *to = *from;
    to->role = other;
    ATTN_SAY(m, "%s in the place of %s", attn_role_name(role), attn_role_name(other));
    return true;
}

static bool for_lin_q(struct attn_mutation *m, double role)
{
    return read_for(m, (uint32_t)role, ATTN_LIN_Q);
}

static bool for_lin_k(struct attn_mutation *m, double role)
{
    return read_for(m, (uint32_t)role, ATTN_LIN_K);
}

const struct attn_mistake attn_mistakes_operators[] = {
    {other_word, 8, {0, 1, 2, 3, 4, 5, 6, 7}},
    {one_less, 8, {0, 1, 2, 3, 4, 5, 6, 7}},
    {one_more, 8, {0, 1, 2, 3, 4, 5, 6, 7}},
    {attn_mistake_without, 2, {ATTN_STATE_IN, ATTN_PROJ_F}},
    {of_first_batch, 2, {ATTN_STATE_IN, ATTN_DECAY}},
    {of_first_head,
     7,
     {ATTN_STATE_IN, ATTN_DECAY, ATTN_BONUS, ATTN_PROJ_E, ATTN_PROJ_F, ATTN_FEATURES,
      ATTN_ROTATIONS}},
    {of_first_column, 2, {ATTN_DECAY, ATTN_BONUS}},
    {of_first_step, 1, {ATTN_DECAY}},
    {of_first_round, 1, {ATTN_ROTATIONS}},
    {turned, 1, {ATTN_ROTATIONS}},
    {both_of_first_head, 1, {0}},
    {attention_itself, 1, {0}},
    {bias_turned, 1, {0}},
    {projections_swapped, 1, {0}},
    {last_row_lost, 2, {ATTN_PROJ_E, ATTN_FEATURES}},
    {scale_by_rows, 1, {0}},
    {root_of_scale, 2, {-0.5, 0.5}},
    {root_once, 1, {0}},
    {no_eps, 1, {0}},
    {other_lin_scale, LIN_SCALES, {BY_DEFAULT, BY_STEPS, BY_CHUNK, ONE, BY_SCALE}},
    {for_lin_q, 1, {ATTN_Q}},
    {for_lin_k, 1, {ATTN_K}},
    {NULL, 0, {0}},
};
