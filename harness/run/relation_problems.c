/* SPDX-License-Identifier: Apache-2.0 */
/* relation_problems.c - makes the problems that a relation compares a case with. */
#include <string.h>

#include "run/relation.h"
#include "run/session.h"
#include "run/verify_one.h"
#include "tensor/operand.h"

struct making {
    const struct attn_relation *relation;
    const struct attn_relation_work *work;
    const struct attn_tensor *tensor;
    int part;
};

static double made_value(const void *context, uint64_t index)
{
    const struct making *m = context;
    int64_t at[ATTN_MAX_RANK] = {0}, rest = (int64_t)index;
    for (uint32_t axis = m->tensor->rank; axis-- > 0;) {
        const int64_t extent = m->tensor->stride[axis] == 0 ? 1 : m->tensor->shape[axis];
        at[axis] = rest % extent;
        rest /= extent;
    }
    return m->relation->value(m->work, m->part, m->tensor, at);
}

/* Is a made operand the case's own, element by element? */
static bool is_copied(const struct attn_relation *relation, const struct attn_tensor *own,
                      const struct attn_tensor *made)
{
    bool same = relation->changes != NULL && own->rank == made->rank;
    for (const uint32_t *role = relation->changes; same && *role; role++)
        same = *role != made->role;
    for (uint32_t axis = 0; same && axis < own->rank; axis++)
        same = own->shape[axis] == made->shape[axis] && own->stride[axis] == made->stride[axis];
    return same;
}

struct attn_instance *attn_relation_make(const struct attn_session *session,
                                         const struct attn_relation *relation,
                                         const struct attn_relation_work *work, int part)
{
    struct attn_case c;
    if (attn_case_copy(&c, &work->base->c) != 0)
        return NULL;
    if (relation->recast)
        relation->recast(work, part, &c);
    c.fill = ATTN_FILL_ZEROS; /* every input is written below */
    struct attn_instance *instance = attn_instance_blank(session, &c);
    attn_case_free(&c);
    for (uint32_t t = 0; instance && t < instance->problem.n_tensors; t++) {
        if (instance->operands[t].output)
            continue;
        const struct attn_tensor *own =
            attn_tensor_find(&work->base->problem, instance->tensors[t].role);
        if (own && is_copied(relation, own, &instance->tensors[t])) {
            memcpy(instance->tensors[t].data, own->data, attn_tensor_span(own));
            continue;
        }
        const struct making making = {relation, work, &instance->tensors[t], part};
        attn_operand_fill(&instance->tensors[t], session->settings.host_threads, made_value,
                          &making);
    }
    const struct ref_op *op = ref_op_find(work->base->problem.op);
    if (instance && relation->derived &&
        op->derive(&instance->problem, attn_fill_name(ATTN_FILL_NORMAL),
                   session->settings.host_threads) != ATTN_OK) {
        attn_instance_free(instance);
        return NULL;
    }
    return instance;
}
