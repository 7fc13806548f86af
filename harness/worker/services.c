/* SPDX-License-Identifier: Apache-2.0 */
/* services.c - the counting allocator keeps its size in front of each block. */
#include "worker/services.h"

#include <stdio.h>
#include <stdlib.h>

struct block {
    void *base;
    size_t bytes;
};

static void *service_alloc(void *context, size_t bytes, size_t alignment)
{
    struct attn_service_state *state = context;
    size_t total;
    if (alignment < sizeof(void *) || (alignment & (alignment - 1)) != 0 ||
        __builtin_add_overflow(bytes, alignment + sizeof(struct block), &total))
        return NULL;
    char *base = malloc(total);
    if (!base)
        return NULL;
    const uintptr_t first = (uintptr_t)base + sizeof(struct block);
    const size_t skip = (alignment - first % alignment) % alignment;
    char *memory = base + sizeof(struct block) + skip;
    /* In front of an 8-byte aligned block there may be no aligned place for the structure. */
    const struct block block = {.base = base, .bytes = bytes};
    __builtin_memcpy(memory - sizeof(block), &block, sizeof(block));
    atomic_fetch_add(&state->live, bytes);
    return memory;
}

static void service_free(void *context, void *memory)
{
    struct attn_service_state *state = context;
    struct block block;
    if (!memory)
        return;
    __builtin_memcpy(&block, (char *)memory - sizeof(block), sizeof(block));
    atomic_fetch_sub(&state->live, block.bytes);
    free(block.base);
}

static void service_log(void *context, const char *text)
{
    (void)context;
    fprintf(stderr, "%s\n", text);
}

void attn_services_init(struct attn_services *services, struct attn_service_state *state,
                        uint32_t threads)
{
    *services = (struct attn_services){
        .struct_size = sizeof(*services),
        .threads = threads,
        .options = state->options,
        .context = state,
        .alloc = service_alloc,
        .free = service_free,
        .log = service_log,
    };
}
