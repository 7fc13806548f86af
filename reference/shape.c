/* SPDX-License-Identifier: Apache-2.0 */
/* shape.c - extents by letter, and the units that an output is compared in. */
#include <string.h>

#include "reference/op.h"
#include "reference/operands.h"
#include "reference/reference.h"

/* A letter of a shape string as an index. */
static size_t slot(char letter)
{
    return (unsigned char)letter % REF_LETTERS;
}

int64_t ref_extent(const struct ref_shape *shape, char letter)
{
    return shape->extent[slot(letter)];
}

void ref_shape_init(struct ref_shape *shape)
{
    memset(shape->present, 0, sizeof(shape->present));
    for (size_t e = 0; e < REF_LETTERS; e++)
        shape->extent[e] = e >= '0' && e <= '9' ? (int64_t)e - '0' : -1;
}

static bool multiply(struct ref_shape *shape, char product, char a, char b)
{
    int64_t *x = shape->extent;

    if (x[slot(a)] < 0 || x[slot(b)] < 0)
        return true;
    return !__builtin_mul_overflow(x[slot(a)], x[slot(b)], &x[slot(product)]);
}

bool ref_shape_complete(const struct ref_op *op, struct ref_shape *shape)
{
    bool fits = multiply(shape, 'Q', 'h', 'q') && multiply(shape, 'K', 'g', 'k') &&
                multiply(shape, 'V', 'g', 'v') && multiply(shape, 'O', 'h', 'v');

    if (fits && op && op->extents)
        op->extents(shape);
    return fits;
}

/* Takes what is not known yet from a tensor of these axes. */
static void learn(struct ref_shape *shape, const char *axes, const struct attn_tensor *tensor)
{
    for (uint32_t a = 0; tensor && a < tensor->rank && axes[a]; a++)
        if (shape->extent[slot(axes[a])] < 0)
            shape->extent[slot(axes[a])] = tensor->shape[a];
}

/* Axes of gradients: those of their operands, 1 long where these are broadcast. */
static void learn_gradients(const struct ref_op *op, struct ref_shape *shape,
                            const struct ref_operands *operands)
{
    for (const struct ref_gradient *g = op->gradients; g && g->output; g++) {
        const struct attn_tensor *tensor = operands->by_role[g->operand];
        for (uint32_t a = 0; tensor && g->letters && a < tensor->rank && g->letters[a]; a++)
            shape->extent[slot(g->letters[a])] = tensor->stride[a] == 0 ? 1 : tensor->shape[a];
    }
}

void ref_shape_of_problem(const struct ref_op *op, const struct attn_problem *problem,
                          struct ref_shape *shape)
{
    const struct {
        char letter;
        int64_t extent;
    } fields[] = {{'b', problem->b},  {'h', problem->hq}, {'g', problem->hkv},
                  {'i', problem->sq}, {'j', problem->sk}, {'q', problem->dq},
                  {'k', problem->dk}, {'v', problem->dv}, {'d', problem->dh}};
    const struct ref_operand *row;
    struct ref_operands operands;

    ref_shape_init(shape);
    for (size_t f = 0; f < sizeof(fields) / sizeof(*fields); f++)
        shape->extent[slot(fields[f].letter)] = fields[f].extent;
    for (const struct ref_param *p = op->params; p && p->key; p++)
        if (p->letter && p->field)
            memcpy(&shape->extent[slot(p->letter)], (const char *)problem + p->field,
                   sizeof(int64_t));
    for (uint32_t t = 0; t < problem->n_tensors; t++)
        if (problem->tensors[t].role < REF_ROLES)
            shape->present[problem->tensors[t].role] = true;
    ref_shape_complete(op, shape);
    ref_operands_init(&operands, problem);
    learn_gradients(op, shape, &operands);
    for (const struct ref_output *o = op->outputs; o->role; o++)
        learn(shape, o->shape, operands.by_role[o->role]);
    for (size_t n = 0; (row = ref_operand_at(op, n)); n++)
        learn(shape, row->shape, operands.by_role[row->role]);
}

const struct ref_tie *ref_shape_misfit(const struct ref_op *op, const struct ref_shape *shape)
{
    for (const struct ref_tie *tie = op->ties; tie && tie->letter; tie++) {
        const int64_t x = ref_extent(shape, tie->letter);
        const int64_t y = ref_extent(shape, tie->as);
        if (x >= 0 && y >= 0 && x != y)
            return tie;
    }
    return NULL;
}

int64_t ref_units_take(const struct ref_units *units, int64_t of_group, int64_t group,
                       int64_t *next)
{
    const int64_t first = *next;

    while (*next < units->count && ref_unit_number(units, *next) / of_group == group)
        ++*next;
    return *next - first;
}

int64_t ref_shape_elements(const struct ref_shape *shape, const char *axes)
{
    int64_t elements = 1;

    for (; *axes; axes++)
        if (shape->extent[slot(*axes)] < 0 ||
            __builtin_mul_overflow(elements, shape->extent[slot(*axes)], &elements))
            return -1;
    return elements;
}

int64_t ref_unit_count(const struct ref_output *output, const struct ref_shape *shape)
{
    int64_t count = 1;

    for (const char *u = output->unit; *u; u++)
        count *= shape->extent[slot(*u)] < 0 ? 0 : shape->extent[slot(*u)];
    return count;
}

int64_t ref_unit_width(const struct ref_output *output, const struct ref_shape *shape)
{
    int64_t width = 1;

    for (const char *axis = output->shape; *axis; axis++)
        if (!strchr(output->unit, *axis))
            width *= shape->extent[slot(*axis)];
    return width;
}

int ref_unit_place(const struct ref_output *output, const struct ref_shape *shape, int64_t unit,
                   int64_t at[ATTN_MAX_RANK])
{
    int rank = (int)strlen(output->shape);

    for (int a = 0; a < rank; a++)
        at[a] = 0;
    for (size_t u = strlen(output->unit); u-- > 0;) {
        int64_t extent = shape->extent[slot(output->unit[u])];
        at[strchr(output->shape, output->unit[u]) - output->shape] = unit % extent;
        unit /= extent;
    }
    return rank;
}

int64_t ref_unit_at(const struct ref_output *output, const struct ref_shape *shape,
                    const int64_t at[ATTN_MAX_RANK])
{
    int64_t unit = 0;

    for (const char *u = output->unit; *u; u++)
        unit = unit * shape->extent[slot(*u)] + at[strchr(output->shape, *u) - output->shape];
    return unit;
}

int64_t ref_unit_index(const struct ref_output *output, const struct ref_shape *shape, int64_t unit,
                       char letter)
{
    for (size_t u = strlen(output->unit); u-- > 0;) {
        int64_t extent = shape->extent[slot(output->unit[u])];
        if (output->unit[u] == letter)
            return unit % extent;
        unit /= extent;
    }
    return -1;
}

int64_t ref_followers(const struct ref_op *op, int output, const struct ref_shape *shape)
{
    const struct ref_output *o = &op->outputs[output];
    int64_t followers = 1;

    for (const char *u = o->unit + strlen(op->outputs[o->leader].unit); *u; u++)
        followers *= shape->extent[slot(*u)];
    return followers;
}

int64_t ref_output_units(const struct attn_problem *problem, int output)
{
    const struct ref_op *op = ref_op_find(problem->op);
    struct ref_shape shape;

    ref_shape_of_problem(op, problem, &shape);
    return ref_unit_count(&op->outputs[output], &shape);
}

int64_t ref_output_width(const struct attn_problem *problem, int output)
{
    const struct ref_op *op = ref_op_find(problem->op);
    struct ref_shape shape;

    ref_shape_of_problem(op, problem, &shape);
    return ref_unit_width(&op->outputs[output], &shape);
}

double ref_output_cost(const struct attn_problem *problem, int output)
{
    return ref_op_find(problem->op)->unit_cost(problem, output);
}
