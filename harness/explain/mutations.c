/* SPDX-License-Identifier: Apache-2.0 */
/* mutations.c - changes to a copy of a problem. */
#include "explain/mutations.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reference/dtype.h"

/* Copies larger than this are not made: the same mistake shows at a smaller size. */
static const double copy_most = 0x1p25, gather_most = 0x1p20; /* bytes, elements */

struct attn_tensor *attn_mutated(struct attn_mutation *m, uint32_t role)
{
    for (uint32_t t = 0; t < m->problem.n_tensors; t++)
        if (m->tensors[t].role == role)
            return &m->tensors[t];
    return NULL;
}

struct attn_tensor *attn_mutated_add(struct attn_mutation *m, const struct attn_tensor *tensor)
{
    m->tensors[m->problem.n_tensors] = *tensor;
    return &m->tensors[m->problem.n_tensors++];
}

bool attn_mutated_drop(struct attn_mutation *m, uint32_t role)
{
    struct attn_tensor *t = attn_mutated(m, role);
    if (t)
        *t = m->tensors[--m->problem.n_tensors];
    return t != NULL;
}

void *attn_mutated_room(struct attn_mutation *m, int64_t count, size_t size)
{
    if (m->n_copies == ATTN_MUTATION_COPIES || (double)count * (double)size > copy_most)
        return NULL;
    void *memory = calloc((size_t)count + 1, size);
    if (memory)
        m->copies[m->n_copies++] = memory;
    return memory;
}

bool attn_mutated_remake(struct attn_mutation *m, uint32_t role, double factor, double plus,
                         double most)
{
    struct attn_tensor *t = attn_mutated(m, role);
    if (!t)
        return false;
    struct attn_tensor from = *t;
    int64_t count = 1;
    for (uint32_t a = t->rank; a-- > 0;) {
        const bool one = from.stride[a] == 0;
        t->stride[a] = one ? 0 : count;
        count *= one ? 1 : from.shape[a];
    }
    if (from.dtype == ATTN_F16 || from.dtype == ATTN_BF16)
        t->dtype = ATTN_F32;
    t->data = attn_mutated_room(m, count, attn_dtype_size(t->dtype));
    for (int64_t n = 0; t->data && n < count; n++) {
        int64_t at = 0, rest = n;
        for (uint32_t a = t->rank; a-- > 0;)
            if (from.stride[a] != 0) {
                at += rest % from.shape[a] * from.stride[a];
                rest /= from.shape[a];
            }
        const double value = factor * attn_dtype_load(from.dtype, from.data, at) + plus;
        const bool bounded = role == ATTN_LEN;
        attn_dtype_store(t->dtype, t->data, n, bounded ? fmax(0, fmin(value, most)) : value);
    }
    return t->data != NULL;
}

bool attn_mutated_gather(struct attn_mutation *m, uint32_t role, const int64_t *shape,
                         void (*from)(const struct attn_mutation *m, double argument,
                                      int64_t at[ATTN_MAX_RANK]),
                         double argument)
{
    struct attn_tensor *t = attn_mutated(m, role), old = t ? *t : (struct attn_tensor){0};
    int64_t count = t ? 1 : 0;
    for (uint32_t a = old.rank; a-- > 0;) {
        t->shape[a] = shape[a];
        t->stride[a] = count;
        count *= shape[a];
    }
    const size_t size = attn_dtype_size(old.dtype);
    unsigned char *data =
        count && (double)count <= gather_most ? attn_mutated_room(m, count, size) : NULL;
    for (int64_t n = 0; data && n < count; n++) {
        int64_t at[ATTN_MAX_RANK], index = 0, rest = n;
        for (uint32_t a = old.rank; a-- > 0; rest /= shape[a])
            at[a] = rest % shape[a];
        from(m, argument, at);
        for (uint32_t a = 0; a < old.rank; a++)
            index += at[a] * old.stride[a];
        memcpy(data + (size_t)n * size, (unsigned char *)old.data + (size_t)index * size, size);
    }
    if (data)
        t->data = data;
    return data != NULL;
}

void attn_mutation_begin(struct attn_mutation *m, const struct attn_problem *problem)
{
    *m = (struct attn_mutation){.problem = *problem};
    memcpy(m->tensors, problem->tensors, problem->n_tensors * sizeof *m->tensors);
    m->problem.tensors = m->tensors;
}

void attn_mutation_free(struct attn_mutation *m)
{
    while (m->n_copies > 0)
        free(m->copies[--m->n_copies]);
}
