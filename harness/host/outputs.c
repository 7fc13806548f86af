/* SPDX-License-Identifier: Apache-2.0 */
/* outputs.c - the elements of outputs, and not the bytes between them. */
#include "host/outputs.h"

#include <string.h>

#include "host/walk.h"
#include "reference/dtype.h"

void attn_outputs_copy(struct attn_instance *to, const struct attn_instance *from)
{
    for (uint32_t t = 0; t < to->problem.n_tensors; t++) {
        if (!to->operands[t].output)
            continue;
        unsigned char *data = to->tensors[t].data;
        const unsigned char *source = from->tensors[t].data;
        struct attn_walk walk;
        size_t offset;
        attn_walk_begin(&walk, &to->tensors[t], attn_dtype_size(to->tensors[t].dtype));
        while (attn_walk_next(&walk, &offset))
            memcpy(data + offset, source + offset, walk.run);
    }
}

void attn_outputs_swap(struct attn_instance *a, struct attn_instance *b)
{
    for (uint32_t t = 0; t < a->problem.n_tensors; t++) {
        if (!a->operands[t].output)
            continue;
        unsigned char *x = a->tensors[t].data, *y = b->tensors[t].data;
        struct attn_walk walk;
        size_t offset;
        attn_walk_begin(&walk, &a->tensors[t], attn_dtype_size(a->tensors[t].dtype));
        while (attn_walk_next(&walk, &offset))
            for (size_t i = offset; i < offset + walk.run; i++) {
                const unsigned char byte = x[i];
                x[i] = y[i];
                y[i] = byte;
            }
    }
}
