/* SPDX-License-Identifier: Apache-2.0 */
/* services.c - services for whoever calls a backend's table in a test. */
#include "services.h"

#include <stdlib.h>
#include <string.h>

static void *service_alloc(void *context, size_t bytes, size_t alignment)
{
    struct test_memory *memory = context;
    size_t rounded = (bytes + alignment - 1) / alignment * alignment;
    void *made = aligned_alloc(alignment, rounded ? rounded : alignment);
    if (!made)
        return NULL;
    if (memory->is_nan)
        memset(made, TEST_NAN_BYTE, rounded);
    memory->bytes += bytes;
    memory->live++;
    return made;
}

static void service_free(void *context, void *memory)
{
    ((struct test_memory *)context)->live -= memory != NULL;
    free(memory);
}

static void service_log(void *context, const char *text)
{
    (void)context, (void)text;
}

struct test_memory test_memory = {.is_nan = 1};

const struct attn_services test_services = {
    .struct_size = sizeof(test_services),
    .threads = 2,
    .context = &test_memory,
    .alloc = service_alloc,
    .free = service_free,
    .log = service_log,
};

struct attn_services test_services_make(uint32_t threads, struct test_memory *memory)
{
    struct attn_services made = test_services;
    made.threads = threads;
    made.context = memory;
    return made;
}
