/* SPDX-License-Identifier: Apache-2.0 */
/* operator.c - what a case says about the operands and outputs in its operator's tables. */
#include "case/operator.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

static_assert(ATTN_CASE_ROLES == REF_ROLES, "out= may ask for every role of a table");

const struct ref_op *attn_case_op(const struct attn_case *c)
{
    return ref_op_find(c->op);
}

const struct ref_score *attn_case_score(const struct attn_case *c)
{
    return ref_score_find(c->score);
}

bool attn_score_has_params(const struct ref_score *score)
{
    return score->params && score->params[0];
}

bool attn_case_has_params(const struct attn_case *c)
{
    const struct ref_operand *row;
    bool by_head = attn_score_has_params(attn_case_score(c));
    for (size_t n = 0; !by_head && (row = ref_operand_at(attn_case_op(c), n)); n++)
        by_head = row->flags & REF_BY_HEAD;
    return by_head;
}

static bool is_among(const char *const *names, const char *name)
{
    for (; names && *names; names++)
        if (strcmp(*names, name) == 0)
            return true;
    return false;
}

bool attn_op_takes(const struct ref_op *op, const char *key)
{
    return op && is_among(op->keys, key);
}

bool attn_op_needs(const struct ref_op *op, const char *key)
{
    return op && is_among(op->needed, key);
}

bool attn_op_fills(const struct ref_op *op, const char *fill)
{
    return op && is_among(op->fills, fill);
}

bool attn_op_crafts(const struct ref_op *op, const char *fill)
{
    return op && is_among(op->crafted, fill);
}

/* AXES of mask= and bias= as bits of the operand's axes, which are batches, heads, queries and keys
 * in the order of ATTN_AXIS_*. A bit is set if the axis is not full. */
static unsigned not_full(unsigned full)
{
    return ATTN_AXES_ALL & ~full;
}

const struct ref_param *attn_op_param(const struct ref_op *op, const char *key)
{
    for (const struct ref_param *p = op ? op->params : NULL; p && p->key; p++)
        if (strcmp(p->key, key) == 0)
            return p;
    return NULL;
}

double attn_case_value(const struct attn_case *c, const char *key)
{
    const struct ref_param *param = attn_op_param(attn_case_op(c), key);
    return param ? attn_case_param(c, param) : 0;
}

double attn_case_scale(const struct attn_case *c)
{
    const struct ref_op *op = attn_case_op(c);
    struct ref_shape shape;
    if (op->scores)
        return ref_score_scale(c->score, c->dk, (int64_t)attn_case_value(c, "parts"));
    attn_case_shape(c, &shape);
    return op->scale ? op->scale(&shape) : 1;
}

/* Does a parameter with the name of an operand ask for the operand? */
static bool asks_param(const struct attn_case *c, const char *name)
{
    const struct ref_param *param = attn_op_param(attn_case_op(c), name);
    return param && attn_case_param(c, param) != 0;
}

/* Does the parameter that decides about a role ask for it? False if none decides. */
static bool chooses(const struct attn_case *c, uint32_t role)
{
    const struct ref_op *op = attn_case_op(c);
    const struct ref_choice *choice = ref_choice_of(op, role);
    return choice && attn_case_param(c, attn_op_param(op, choice->key)) == choice->value;
}

static bool is_score_param(uint32_t role)
{
    for (const struct ref_score *const *score = ref_scores_known; *score; score++)
        if (ref_score_has((*score)->score, role))
            return true;
    return false;
}

bool attn_case_draws(const struct attn_case *c, const struct ref_operand *operand,
                     struct attn_drawn *drawn)
{
    *drawn = (struct attn_drawn){.rank = (uint32_t)strlen(operand->shape)};
    if (is_score_param(operand->role)) {
        drawn->one = c->params_head ? 0 : 1; /* the heads come first */
        return ref_score_has(c->score, operand->role);
    }
    if (operand->flags & REF_BY_HEAD)
        drawn->one = c->params_head ? 0 : 1;
    switch (operand->role) {
    case ATTN_X_K:
        return c->cross;
    case ATTN_W_O:
        return c->wo;
    case ATTN_B_Q:
    case ATTN_B_K:
    case ATTN_B_V:
        return c->proj_bias;
    case ATTN_B_O:
        return c->proj_bias && c->wo;
    case ATTN_MASK:
        drawn->one = not_full(c->mask_axes);
        return c->mask_bool;
    case ATTN_BIAS:
        drawn->one = not_full(c->bias_const ? 0 : c->bias_axes);
        return c->bias_normal || c->bias_const;
    case ATTN_LEN:
        if (c->len != ATTN_LEN_RAND_2D)
            drawn->rank = 1;
        return c->len != ATTN_LEN_NONE && c->len != ATTN_LEN_PACK;
    case ATTN_GLOBAL:
        return c->global == ATTN_GLOBAL_FIRST || c->global == ATTN_GLOBAL_RAND;
    case ATTN_DILATION:
        return c->n_dilation > 0;
    case ATTN_Q_GLOBAL:
    case ATTN_K_GLOBAL:
    case ATTN_V_GLOBAL:
        return c->global_proj;
    case ATTN_ALIBI:
        return c->alibi;
    case ATTN_SINK:
        return c->sink;
    case ATTN_KEEP:
        return c->keep;
    case ATTN_HEAD_MASK:
        return c->n_prune > 0;
    default:
        return (operand->flags & REF_NEEDED) || asks_param(c, operand->name) ||
               chooses(c, operand->role);
    }
}

/* Does out= name an output that is there by default? Then the others of these are not. */
static bool names_some(const struct attn_case *c)
{
    bool some = false;
    for (const struct ref_output *o = attn_case_op(c)->outputs; o->role; o++)
        some = some || ((o->flags & REF_DEFAULT) && attn_case_asks(c, o->role));
    return some;
}

bool attn_case_gives(const struct attn_case *c, const struct ref_output *output)
{
    return (output->flags & REF_NEEDED) || attn_case_asks(c, output->role) ||
           chooses(c, output->role) || ((output->flags & REF_DEFAULT) && !names_some(c));
}

/* The sizes of a case by letter. */
static const struct {
    char letter;
    size_t field;
} sizes[] = {
    {'b', offsetof(struct attn_case, b)},   {'h', offsetof(struct attn_case, hq)},
    {'g', offsetof(struct attn_case, hkv)}, {'i', offsetof(struct attn_case, sq)},
    {'j', offsetof(struct attn_case, sk)},  {'q', offsetof(struct attn_case, dq)},
    {'k', offsetof(struct attn_case, dk)},  {'v', offsetof(struct attn_case, dv)},
    {'d', offsetof(struct attn_case, dh)},  {'e', offsetof(struct attn_case, e)},
    {'f', offsetof(struct attn_case, e)},   {'w', offsetof(struct attn_case, e)},
    {'o', offsetof(struct attn_case, e)},
};

int64_t *attn_case_extent(struct attn_case *c, char letter)
{
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
        if (sizes[s].letter == letter)
            return (int64_t *)((char *)c + sizes[s].field);
    return NULL;
}

/* The axes of the gradient of an operand. */
static void set_gradient(const struct ref_op *op, const struct ref_operand *row,
                         const struct attn_drawn *drawn, struct ref_shape *shape)
{
    for (const struct ref_gradient *g = op->gradients; g && g->output; g++)
        for (size_t a = 0; g->operand == row->role && g->letters && g->letters[a]; a++)
            shape->extent[(unsigned char)g->letters[a]] =
                drawn->one >> a & 1 ? 1 : shape->extent[(unsigned char)row->shape[a]];
}

bool attn_case_shape(const struct attn_case *c, struct ref_shape *shape)
{
    const struct ref_op *op = attn_case_op(c);
    const struct ref_operand *row;
    struct attn_drawn drawn;
    ref_shape_init(shape);
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
        memcpy(&shape->extent[(unsigned char)sizes[s].letter], (const char *)c + sizes[s].field,
               sizeof(int64_t));
    for (const struct ref_param *p = op->params; p && p->key; p++)
        if (p->letter)
            shape->extent[(unsigned char)p->letter] = (int64_t)attn_case_param(c, p);
    for (size_t n = 0; (row = ref_operand_at(op, n)); n++) {
        shape->present[row->role] = attn_case_draws(c, row, &drawn);
        if (shape->present[row->role])
            set_gradient(op, row, &drawn, shape);
    }
    for (const struct ref_output *o = op->outputs; o->role; o++)
        shape->present[o->role] = attn_case_gives(c, o);
    return ref_shape_complete(op, shape);
}

void attn_case_set_fields(const struct attn_case *c, struct attn_problem *problem)
{
    const struct ref_op *op = attn_case_op(c);
    for (const struct ref_param *p = op->params; p && p->key; p++) {
        const double value = attn_case_param(c, p);
        const int64_t whole = (int64_t)value;
        char *field = (char *)problem + p->field;
        if (p->field == 0)
            continue;
        if (p->kind == REF_PARAM_REAL)
            memcpy(field, &value, sizeof value);
        else
            memcpy(field, &whole, sizeof whole);
    }
    if (op->param_flags)
        problem->flags |= op->param_flags(problem);
}

bool attn_case_weighs(const struct attn_case *c)
{
    struct attn_problem problem = {.op = c->op};
    attn_case_set_fields(c, &problem);
    return problem.flags & ATTN_FLAG_WEIGHT;
}

bool attn_case_is_softmax(const struct attn_case *c)
{
    const struct ref_operand *gate = ref_operand_of(attn_case_op(c), ATTN_GATE);
    struct attn_drawn drawn;
    return ref_op_is(c->op, REF_SOFTMAX) && !attn_case_weighs(c) &&
           !(gate && attn_case_draws(c, gate, &drawn));
}

int64_t attn_case_cells(const struct attn_case *c)
{
    return c->b * c->hq * c->sq * c->sk;
}
