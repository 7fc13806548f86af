/* SPDX-License-Identifier: Apache-2.0 */
/* relation_compare.c - holds a relation against the results, element by element. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "run/relation.h"
#include "tensor/units.h"

static bool agrees(const struct attn_expectation *e)
{
    if (isnan(e->want) || isnan(e->got))
        return isnan(e->want) && isnan(e->got);
    return e->want == e->got || fabs(e->got - e->want) <= e->allowed;
}

static void describe(const struct attn_problem *p, const struct attn_place *at,
                     const struct attn_expectation *e, char *text, size_t size)
{
    struct attn_units units;
    char place[96];
    attn_units_of(p, at->output, &units);
    attn_unit_name(&units, at->at, place, sizeof place);
    snprintf(text, size, "%s: expected %.9g, got %.9g, allowed difference %.3g", place, e->want,
             e->got, e->allowed);
}

/* Checks one place of the results. False, with a sentence, if the relation does not hold there. */
static bool holds_at(const struct attn_relation *relation, struct attn_relation_work *work,
                     const struct attn_place *at, char *text, size_t size)
{
    struct attn_expectation e;
    if (!relation->expect(work, at, &e) || agrees(&e))
        return true;
    describe(&work->base->problem, at, &e, text, size);
    return false;
}

/* Row by row: its lse, then its part of out. */
static bool compare_rows(const struct attn_relation *relation, struct attn_relation_work *work,
                         char *text, size_t size)
{
    const struct attn_problem *p = &work->base->problem;
    const struct ref_op *op = ref_op_find(p->op);
    const int lse = ref_output_of(op, ATTN_LSE);
    const bool by_head = strchr(op->outputs[0].unit, 'h'); /* else out is visited at head 0 only */
    const int64_t width = ref_output_width(p, 0);
    const int64_t first = lse >= 0 && work->was.value[lse] ? -1 : 0;
    struct attn_place row = {0};
    for (row.b = 0; row.b < p->b; row.b++)
        for (row.h = 0; row.h < p->hq; row.h++)
            for (row.i = 0; row.i < p->sq; row.i++)
                for (row.c = first; row.c < (by_head || row.h == 0 ? width : 0); row.c++) {
                    const struct attn_place at = attn_place_of(op, row.c < 0 ? lse : 0, &row);
                    if (!holds_at(relation, work, &at, text, size))
                        return false;
                }
    return true;
}

/* All elements of an output. */
static bool compare_output(const struct attn_relation *relation, struct attn_relation_work *work,
                           int output, char *text, size_t size)
{
    const struct attn_tensor *tensor = work->was.tensor[output];
    const char *shape = ref_op_find(work->base->problem.op)->outputs[output].shape;
    const char *batch = strchr(shape, 'b'), *query = strchr(shape, 'i');
    struct attn_place at = {.output = output};
    int64_t count = 1;
    for (uint32_t axis = 0; axis < tensor->rank; axis++)
        count *= tensor->shape[axis];
    for (int64_t n = 0; n < count; n++) {
        at.b = batch ? at.at[batch - shape] : 0;
        at.i = query ? at.at[query - shape] : 0;
        if (!holds_at(relation, work, &at, text, size))
            return false;
        for (uint32_t axis = tensor->rank; axis-- > 0 && ++at.at[axis] == tensor->shape[axis];)
            at.at[axis] = 0;
    }
    return true;
}

bool attn_relation_holds(const struct attn_relation *relation, struct attn_relation_work *work,
                         char *text, size_t size)
{
    bool ok = true;
    if (ref_op_is(work->base->problem.op, REF_SOFTMAX))
        return compare_rows(relation, work, text, size);
    for (int o = 0; o < REF_OUTPUTS && ok; o++)
        ok = !work->was.value[o] || compare_output(relation, work, o, text, size);
    return ok;
}
