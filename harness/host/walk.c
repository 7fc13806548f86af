/* SPDX-License-Identifier: Apache-2.0 */
/* walk.c - contiguous runs of a strided tensor. */
#include "host/walk.h"

static void insert_sorted(struct attn_walk *walk, size_t shape, size_t stride)
{
    int at = walk->rank++;
    for (; at > 0 && walk->stride[at - 1] < stride; at--) {
        walk->shape[at] = walk->shape[at - 1];
        walk->stride[at] = walk->stride[at - 1];
    }
    walk->shape[at] = shape;
    walk->stride[at] = stride;
}

void attn_walk_begin(struct attn_walk *walk, const struct attn_tensor *tensor, size_t element)
{
    *walk = (struct attn_walk){.run = element};
    for (uint32_t a = 0; a < tensor->rank; a++) {
        if (tensor->shape[a] <= 0)
            walk->done = true;
        else if (tensor->shape[a] > 1 && tensor->stride[a] > 0)
            insert_sorted(walk, (size_t)tensor->shape[a], (size_t)tensor->stride[a] * element);
    }
    while (walk->rank > 0 && walk->stride[walk->rank - 1] == walk->run) {
        walk->rank--;
        walk->run *= walk->shape[walk->rank];
    }
}

bool attn_walk_next(struct attn_walk *walk, size_t *offset)
{
    if (walk->done)
        return false;
    *offset = walk->offset;
    int axis = walk->rank - 1;
    for (; axis >= 0; axis--) {
        walk->offset += walk->stride[axis];
        if (++walk->counter[axis] < walk->shape[axis])
            return true;
        walk->offset -= walk->stride[axis] * walk->shape[axis];
        walk->counter[axis] = 0;
    }
    walk->done = true;
    return true;
}
