/* SPDX-License-Identifier: Apache-2.0 */
/* units.c - maps units and their elements to places in a tensor. */
#include "tensor/units.h"

#include <stdio.h>
#include <string.h>

#include "reference/dtype.h"

/* Does a unit run along this axis of the tensor? */
static bool is_within(const struct attn_units *units, int axis)
{
    return strchr(units->output->unit, units->output->shape[axis]) == NULL;
}

static int64_t step_of(const struct attn_units *units)
{
    int64_t step = 0, axes = 0;
    for (uint32_t axis = 0; units->tensor && axis < units->tensor->rank; axis++)
        if (is_within(units, (int)axis)) {
            step = units->tensor->stride[axis];
            axes++;
        }
    return axes > 1 ? -1 : step;
}

void attn_units_of(const struct attn_problem *problem, int output, struct attn_units *units)
{
    const struct ref_op *op = ref_op_find(problem->op);
    units->op = op;
    units->number = output;
    units->output = &op->outputs[output];
    units->tensor = attn_tensor_find(problem, units->output->role);
    ref_shape_of_problem(op, problem, &units->shape);
    units->count = ref_unit_count(units->output, &units->shape);
    units->width = ref_unit_width(units->output, &units->shape);
    units->followers = ref_followers(op, output, &units->shape);
    units->step = step_of(units);
}

int attn_unit_indices(const struct attn_units *units, int64_t unit, int64_t c,
                      int64_t at[ATTN_MAX_RANK])
{
    const int rank = ref_unit_place(units->output, &units->shape, unit, at);
    for (int axis = rank; axis-- > 0;)
        if (is_within(units, axis)) {
            const int64_t extent = ref_extent(&units->shape, units->output->shape[axis]);
            at[axis] = extent > 0 ? c % extent : 0; /* weights of no keys */
            c /= extent > 0 ? extent : 1;
        }
    return rank;
}

static int64_t offset_of(const struct attn_units *units, const int64_t *at)
{
    int64_t offset = 0;
    for (uint32_t axis = 0; axis < units->tensor->rank; axis++)
        offset += at[axis] * units->tensor->stride[axis];
    return offset;
}

int64_t attn_unit_offset(const struct attn_units *units, int64_t unit, int64_t c)
{
    int64_t at[ATTN_MAX_RANK];
    attn_unit_indices(units, unit, c, at);
    return offset_of(units, at);
}

int64_t attn_unit_base(const struct attn_units *units, int64_t unit)
{
    return attn_unit_offset(units, unit, 0);
}

int64_t attn_unit_spread(const struct attn_units *units, int64_t base, int64_t c)
{
    for (int axis = (int)units->tensor->rank; c > 0 && axis-- > 0;)
        if (is_within(units, axis)) {
            const int64_t extent = units->tensor->shape[axis];
            base += c % extent * units->tensor->stride[axis];
            c /= extent;
        }
    return base;
}

static double stored(const struct attn_units *units, int64_t base, int64_t c)
{
    return attn_dtype_load(units->tensor->dtype, units->tensor->data,
                           attn_unit_element(units, base, c));
}

double attn_unit_read(const struct attn_units *units, int64_t base, int64_t c)
{
    double unit[REF_COMPARABLE];
    if (!units->op->comparable || units->width > REF_COMPARABLE)
        return stored(units, base, c);
    for (int64_t n = 0; n < units->width; n++)
        unit[n] = stored(units, base, n);
    units->op->comparable(units->number, unit);
    return unit[c];
}

void attn_unit_name(const struct attn_units *units, const int64_t at[ATTN_MAX_RANK], char *text,
                    size_t size)
{
    const char *shape = units->output->shape;
    size_t n = (size_t)snprintf(text, size, "%s[", units->output->name);
    char column = 'c';
    for (int axis = 0; shape[axis] && n < size; axis++) {
        const char letter = strchr("bhgij", shape[axis]) ? shape[axis] : column++;
        n += (size_t)snprintf(text + n, size - n, "%s%c%lld", axis ? " " : "", letter,
                              (long long)at[axis]);
    }
    if (n < size)
        snprintf(text + n, size - n, "]");
}

void attn_units_in_order(const struct attn_units *units, const double *values, double *ordered)
{
    const char *shape = units->output->shape;
    int64_t at[ATTN_MAX_RANK];
    for (int64_t unit = 0; unit < units->count; unit++)
        for (int64_t c = 0; c < units->width; c++) {
            const int rank = attn_unit_indices(units, unit, c, at);
            int64_t place = 0;
            for (int axis = 0; axis < rank; axis++)
                place = place * ref_extent(&units->shape, shape[axis]) + at[axis];
            ordered[place] = values[unit * units->width + c];
        }
}
