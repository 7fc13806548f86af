/* SPDX-License-Identifier: Apache-2.0 */
/* mistaken.c - wraps another plugin's first backend (ATTNBENCH_TEST_PLUGIN names the file) and
 * tells it that causal masks are top-left. With ATTNBENCH_TEST_RIGHT set, it passes masks
 * unchanged. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "attnbench/backend.h"

static const struct attn_backend *right;

static int create(const struct attn_problem *problem, const struct attn_services *services,
                  void **plan, char *why, size_t size)
{
    static struct attn_problem told; /* must live as long as the plan, of which there is one */
    told = *problem;
    if ((told.flags & ATTN_FLAG_CAUSAL) && !getenv("ATTNBENCH_TEST_RIGHT")) {
        told.flags &= ~(uint64_t)ATTN_FLAG_OFF_BR;
        told.off = 0;
    }
    return right->create(&told, services, plan, why, size);
}

static struct attn_backend backend = {.name = "mistaken"};
static const struct attn_backend *const table[] = {&backend};

static void __attribute__((constructor)) load(void)
{
    const char *path = getenv("ATTNBENCH_TEST_PLUGIN");
    void *library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    const struct attn_plugin *plugin = library ? dlsym(library, ATTN_PLUGIN_SYMBOL) : NULL;
    if (!plugin)
        return;
    right = plugin->backends[0];
    backend = *right;
    backend.name = "mistaken";
    backend.create = create;
}

const struct attn_plugin attn_plugin = {.abi_version = ATTN_ABI_VERSION,
                                        .struct_size = sizeof(struct attn_plugin),
                                        .n_backends = 1,
                                        .backends = table};
