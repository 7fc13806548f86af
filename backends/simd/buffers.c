/* SPDX-License-Identifier: Apache-2.0 */
/* buffers.c - see buffers.h */
#include "buffers.h"

#include <stdio.h>

#include "flash.h"

void *attn_take_memory(const struct attn_services *services, size_t bytes, const char *what,
                       char *why, size_t size)
{
    void *made = services->alloc(services->context, bytes, 64);
    if (!made)
        snprintf(why, size, "no memory for %s", what);
    return made;
}

float *attn_take_floats(const struct attn_services *services, int64_t floats, const char *what,
                        char *why, size_t size)
{
    if (floats >= 0 && floats <= INT64_MAX / (int64_t)sizeof(float))
        return attn_take_memory(services, (size_t)floats * sizeof(float), what, why, size);
    snprintf(why, size, "no memory for %s", what);
    return NULL;
}

struct attn_tensor attn_buffer(uint32_t role, int64_t b, int64_t h, int64_t rows, int64_t width,
                               int64_t unit)
{
    const int64_t row = attn_round_up(width, unit) + 16;
    return (struct attn_tensor){.role = role,
                                .dtype = ATTN_F32,
                                .rank = 4,
                                .shape = {b, h, rows, width},
                                .stride = {h * rows * row, rows * row, row, 1}};
}

int64_t attn_buffers_place(struct attn_tensor *buffers, int count, int64_t used, float *base)
{
    for (int n = 0; used >= 0 && n < count; n++) {
        int64_t floats;
        if (base)
            buffers[n].data = base + used;
        if (__builtin_mul_overflow(buffers[n].shape[0], buffers[n].stride[0], &floats))
            return -1;
        if (buffers[n].dtype != ATTN_F32)
            floats = attn_round_up(floats / 2, 16); /* elements of 16 bits; whole cache lines */
        if (__builtin_add_overflow(used, floats, &used))
            return -1;
    }
    return used;
}

void *attn_array_place(void *base, int64_t *used, int64_t a, int64_t b, int64_t unit)
{
    void *piece = base ? (char *)base + *used : NULL;
    int64_t bytes;
    if (*used < 0 || __builtin_mul_overflow(a, b, &bytes) ||
        __builtin_mul_overflow(bytes, unit, &bytes) || __builtin_add_overflow(bytes, 63, &bytes) ||
        __builtin_add_overflow(*used, bytes / 64 * 64, used))
        *used = -1;
    return piece;
}
