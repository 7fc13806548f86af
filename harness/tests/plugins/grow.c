/* SPDX-License-Identifier: Apache-2.0 */
/* grow.c - touches 64 MiB in create, and 32 MiB more in run for a moment. */
#include <string.h>

#include "base.h"

#define MIB ((size_t)1 << 20)

static int create(const struct attn_problem *problem, const struct attn_services *services,
                  void **plan, char *why, size_t size)
{
    void *memory = services->alloc(services->context, 64 * MIB, 64);
    if (!memory) {
        snprintf(why, size, "no memory for a plan");
        return ATTN_OUT_OF_MEMORY;
    }
    memset(memory, 1, 64 * MIB);
    return base_create(problem, services, plan, why, size);
}

static int run(void *binding, char *why, size_t size)
{
    volatile char *memory = malloc(32 * MIB);
    if (!memory) {
        snprintf(why, size, "no memory in run");
        return ATTN_OUT_OF_MEMORY;
    }
    for (size_t at = 0; at < 32 * MIB; at += 4096)
        memory[at] = 1;
    free((void *)(uintptr_t)memory);
    return base_run(binding, why, size);
}

static const struct attn_backend backend = {BASE_BACKEND, .create = create, .run = run};
static const struct attn_backend *const table[] = {&backend};
const struct attn_plugin attn_plugin = {BASE_PLUGIN(table)};
