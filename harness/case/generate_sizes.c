/* SPDX-License-Identifier: Apache-2.0 */
/* generate_sizes.c - random sizes, and the keys that not every operator accepts. */
#include <stdio.h>
#include <string.h>

#include "case/draft.h"
#include "case/language.h"

#define COUNT(values) (sizeof(values) / sizeof *(values))

/* The most operations of a case: reference and bound take some milliseconds for it. */
static const double most_operations = 12e6;

/* Lengths around the tiles of kernels. */
static const int64_t edges[] = {15,  16,  17,  31,  32,  33,  63,  64,  65,  127, 128,
                                129, 191, 192, 193, 255, 256, 257, 300, 511, 513};
/* Widths that kernels are written for, and others at their limits. */
static const int64_t usual[] = {8, 16, 24, 32, 40, 64};
static const int64_t odd[] = {63, 65, 72, 80, 96, 100, 128, 131, 192, 256};

static int64_t length(struct attn_draft *draft)
{
    switch (attn_draw_below(draft->state, 4)) {
    case 0:
        return attn_draft_range(draft, 1, 9);
    case 1:
        return attn_draft_range(draft, 1, 40);
    case 2:
        return attn_draft_range(draft, 1, 200);
    default:
        return attn_draft_number(draft, edges, COUNT(edges));
    }
}

static int64_t width(struct attn_draft *draft)
{
    switch (attn_draw_below(draft->state, 4)) {
    case 0:
        return attn_draft_range(draft, 1, 9);
    case 1:
        return attn_draft_range(draft, 1, 70);
    case 2:
        return attn_draft_number(draft, usual, COUNT(usual));
    default:
        return attn_draft_number(draft, odd, COUNT(odd));
    }
}

/* The operations of attention with every cell allowed, of the score, a gate, and projections. */
static double operations(const struct attn_draft *draft)
{
    const struct attn_case *c = &draft->sizes;
    if (!(draft->op->traits & REF_SOFTMAX))
        return attn_case_flops(c, attn_case_cells(c));
    const double queries = (double)(c->b * c->hq * c->sq), keys = (double)(c->b * c->hkv * c->sk);
    const double cells = queries * (double)c->sk;
    double n = 2.0 * (double)(c->dk + c->dv) * cells;
    if (draft->score->cost) /* of one query of one head */
        n += queries * draft->score->cost(&(struct attn_problem){
                           .sk = c->sk, .dq = c->dq, .dk = c->dk, .dh = c->dh});
    if (ref_operand_of(draft->op, ATTN_GATE))
        n += queries * (double)c->dv;
    if (attn_op_takes(draft->op, "e"))
        n += 2.0 * (double)c->e *
             (queries * (double)(c->dq + c->dv) + keys * (double)(c->dk + c->dv));
    return n;
}

static void draw_lengths(struct attn_draft *draft, struct attn_case *c)
{
    c->sq = length(draft);
    c->sk = attn_draft_percent(draft, 2)    ? 0
            : attn_draft_percent(draft, 70) ? length(draft)
                                            : c->sq;
    if (attn_draft_percent(draft, 8))
        c->sq = 1;
    if (attn_op_takes(draft->op, "kv") && !c->cross)
        c->sk = c->sq;
}

static void draw_widths(struct attn_draft *draft, struct attn_case *c)
{
    const bool hidden = draft->score->hidden, is_free = draft->score->free_widths;
    c->dk = width(draft);
    c->dv = attn_draft_percent(draft, 40) ? width(draft) : c->dk;
    c->dq = is_free && attn_draft_percent(draft, 50) ? width(draft) : c->dk;
    c->dh = !hidden ? 0 : attn_draft_percent(draft, 60) ? attn_draft_range(draft, 1, 70) : c->dk;
    if (!attn_op_takes(draft->op, "e"))
        c->e = 0;
    else if (c->residual && !c->wo) /* x_q is added to an output of that width */
        c->e = c->hq * c->dv;
    else
        c->e = attn_draft_percent(draft, 50)
                   ? attn_draft_range(draft, 1, attn_draft_percent(draft, 50) ? 100 : 300)
                   : c->hq * c->dk;
}

/* Extents that the operator wants alike. */
static void tie(const struct ref_op *op, struct attn_case *c)
{
    for (const struct ref_tie *t = op->ties; t && t->letter; t++) {
        int64_t *one = attn_case_extent(c, t->letter), *other = attn_case_extent(c, t->as);
        if (one && (other || t->as == '1'))
            *one = other ? *other : 1;
    }
}

/* Draws until the case is small, so that expensive features are not drawn less often. */
static void draw(struct attn_draft *draft, struct attn_case *c)
{
    static const int64_t batches[] = {1, 1, 2, 3, 4}, heads[] = {1, 1, 2, 3, 4, 5},
                         groups[] = {1, 1, 1, 2, 3, 4, 8};
    do {
        c->b = attn_draft_number(draft, batches, COUNT(batches));
        c->hkv = attn_draft_number(draft, heads, COUNT(heads));
        c->hq = c->hkv * attn_draft_number(draft, groups, COUNT(groups));
        draw_lengths(draft, c);
        draw_widths(draft, c);
        tie(draft->op, c);
    } while (operations(draft) > most_operations);
}

static void size_word(struct attn_draft *draft, const char *key, int64_t value)
{
    attn_draft_word(draft, "%s=%lld", key, (long long)value);
}

/* A size that is its own default need not be written. */
static void unless_default(struct attn_draft *draft, const char *key, int64_t value,
                           int64_t fallback)
{
    if (value != fallback || attn_draft_percent(draft, 25))
        size_word(draft, key, value);
}

static void write_heads(struct attn_draft *draft, const struct attn_case *c)
{
    if (c->hq == 1 && !attn_op_needs(draft->op, "hq") && attn_draft_percent(draft, 50))
        return;
    if (c->hq == c->hkv && attn_draft_percent(draft, 25)) {
        size_word(draft, "h", c->hq);
    } else {
        size_word(draft, "hq", c->hq);
        unless_default(draft, "hkv", c->hkv, c->hq);
    }
}

static void write_sizes(struct attn_draft *draft, const struct attn_case *c)
{
    unless_default(draft, "b", c->b, 1);
    write_heads(draft, c);
    if (c->sk == c->sq && attn_draft_percent(draft, 50)) {
        size_word(draft, "s", c->sq);
    } else {
        size_word(draft, "sq", c->sq);
        unless_default(draft, "sk", c->sk, c->sq);
    }
    if (c->dq == c->dk && c->dv == c->dk && attn_draft_percent(draft, 25)) {
        size_word(draft, "d", c->dk);
    } else {
        size_word(draft, "dk", c->dk);
        unless_default(draft, "dq", c->dq, c->dk);
        unless_default(draft, "dv", c->dv, c->dk);
    }
    if (draft->score->hidden)
        unless_default(draft, "dh", c->dh, c->dk);
}

/* One to three heads, in any order. */
static void prune(struct attn_draft *draft, int64_t hq)
{
    const int64_t wanted = attn_draft_range(draft, 1, hq < 3 ? hq : 3);
    int64_t heads[3];
    char text[64] = "";
    for (int64_t n = 0; n < wanted; n++) {
        bool again = true;
        while (again) {
            heads[n] = attn_draft_range(draft, 0, hq - 1);
            again = false;
            for (int64_t i = 0; i < n; i++)
                again = again || heads[i] == heads[n];
        }
    }
    for (int64_t n = 0, length = 0; n < wanted; n++)
        length += snprintf(text + length, sizeof text - (size_t)length, "%s%lld", n ? "/" : "",
                           (long long)heads[n]);
    attn_draft_word(draft, "prune=%s", text);
}

static double parameter_value(struct attn_draft *draft, const struct ref_param *param)
{
    if (param->kind == REF_PARAM_REAL)
        return param->least +
               (param->most - param->least) * ((double)(attn_draw(draft->state) >> 11) * 0x1p-53);
    return param->least +
           attn_draw_below(draft->state, 1 + (unsigned)(param->most - param->least) % 64);
}

/* Does a value of a parameter go with the sizes and the parameters so far, and is the case still
 * small? Then it joins the shape. */
static bool take_value(const struct ref_op *op, const struct ref_param *param, double value,
                       struct ref_shape *shape)
{
    struct ref_shape next = *shape;
    if (param->letter)
        next.extent[(unsigned char)param->letter] = (int64_t)value;
    if (!ref_shape_complete(op, &next) || ref_shape_misfit(op, &next))
        return false;
    if (!(op->traits & REF_SOFTMAX) && op->flops(&next, 0) > most_operations)
        return false;
    *shape = next;
    return true;
}

/* Draws a value of a parameter that only this operator has. A width that no field has is like dk.
 * If no value fits, the parameter keeps its default. */
static void parameter(struct attn_draft *draft, const struct ref_param *param,
                      struct ref_shape *shape)
{
    const bool width = param->letter && param->field == 0;
    for (int tries = 0; tries < 50; tries++) {
        double value =
            width ? param->least + attn_draw_below(draft->state, 1 + (unsigned)draft->sizes.dk)
                  : parameter_value(draft, param);
        char text[64];
        if (param->kind == REF_PARAM_TABLE && value == 1) /* only a pack brings a tensor */
            value = 2;
        if (!take_value(draft->op, param, value, shape))
            continue;
        if (param->field && param->kind != REF_PARAM_REAL) {
            const int64_t whole = (int64_t)value;
            memcpy((char *)&draft->fields + param->field, &whole, sizeof whole);
        }
        attn_param_text(param, value, text, sizeof text);
        attn_draft_word(draft, "%s=%s", param->key, text);
        return;
    }
}

/* Draws the operator, and the keys that it accepts and others do not. */
static void write_operator(struct attn_draft *draft, const struct attn_case *c)
{
    const struct ref_op *op = draft->op;
    struct ref_shape shape;
    const bool other = strcmp(op->name, ATTN_DEFAULT_OP) != 0;
    if (other)
        attn_draft_word(draft, "op=%s", op->name);
    if (c->cross)
        attn_draft_word(draft, "kv=cross");
    if (c->residual)
        attn_draft_word(draft, "residual=1");
    if (!c->wo)
        attn_draft_word(draft, "wo=0");
    if (attn_op_takes(op, "e"))
        unless_default(draft, "e", c->e, c->hq * c->dk);
    if (attn_op_takes(op, "proj_bias") && attn_draft_percent(draft, 75))
        attn_draft_word(draft, "proj_bias=%u", attn_draft_percent(draft, 67));
    if (attn_op_takes(op, "weights") && attn_draft_percent(draft, 25))
        attn_draft_word(draft, "weights=stiefel");
    if (attn_op_takes(op, "prune") && attn_draft_percent(draft, 30))
        prune(draft, c->hq);
    if (!(op->traits & REF_SOFTMAX) && attn_case_has_params(c) && attn_draft_percent(draft, 50))
        attn_draft_word(draft, "params=head");
    if (!attn_case_shape(c, &shape))
        return;
    for (const struct ref_param *p = op->params; p && p->key; p++)
        if (ref_score_reads(op->scores ? draft->score : NULL, p->key) &&
            (p->fallback < p->least || attn_draft_percent(draft, other ? 50 : 15)))
            parameter(draft, p, &shape);
    /* Those of operators with a softmax are drawn with their scores. */
    for (const struct ref_output *o = op->outputs; o->role && !(op->traits & REF_SOFTMAX); o++)
        if (!(o->flags & (REF_NEEDED | REF_DEFAULT)) && !ref_choice_of(op, o->role) &&
            !ref_gradient_of(op, o->role) && attn_draft_percent(draft, 50)) {
            attn_draft_word(draft, "out=%s", o->name);
            break;
        }
}

void attn_draft_sizes(struct attn_draft *draft)
{
    struct attn_case *c = &draft->sizes;
    const struct ref_op *op = draft->op;
    c->op = op->op;
    c->score = draft->score->score;
    c->cross = attn_op_takes(op, "kv") && attn_draft_percent(draft, 45);
    c->residual = attn_op_takes(op, "residual") && attn_draft_percent(draft, 30);
    c->wo = !(attn_op_takes(op, "wo") && attn_draft_percent(draft, 25));
    draw(draft, c);
    write_sizes(draft, c);
    write_operator(draft, c);
}
