/* SPDX-License-Identifier: Apache-2.0 */
/* null.c - the smallest plugin: takes every problem and computes nothing.
 *
 * It measures what the harness itself costs. backend.h says what each slot owns and promises; a
 * backend to start from is in skeleton/. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "attnbench/backend.h"

struct plan {
    const struct attn_problem *problem;
    const struct attn_services *services;
};

struct binding {
    struct plan *plan;
};

static int supports(const struct attn_problem *problem, const struct attn_services *services,
                    char *why, size_t size)
{
    (void)problem, (void)services, (void)why, (void)size;
    return ATTN_OK;
}

static int create(const struct attn_problem *problem, const struct attn_services *services,
                  void **plan, char *why, size_t size)
{
    struct plan *made = services->alloc(services->context, sizeof(*made), 64);
    if (!made) {
        snprintf(why, size, "no memory for a plan of %zu bytes", sizeof(*made));
        return ATTN_OUT_OF_MEMORY;
    }
    *made = (struct plan){.problem = problem, .services = services};
    *plan = made;
    return ATTN_OK;
}

static int bind(void *plan, const struct attn_tensor *tensors, uint32_t n_tensors, void **binding,
                char *why, size_t size)
{
    (void)tensors, (void)n_tensors;
    const struct attn_services *services = ((struct plan *)plan)->services;
    struct binding *made = services->alloc(services->context, sizeof(*made), 64);
    if (!made) {
        snprintf(why, size, "no memory for a binding of %zu bytes", sizeof(*made));
        return ATTN_OUT_OF_MEMORY;
    }
    *made = (struct binding){.plan = plan};
    *binding = made;
    return ATTN_OK;
}

static int run(void *binding, char *why, size_t size)
{
    (void)binding, (void)why, (void)size;
    return ATTN_OK;
}

static void release(void *binding)
{
    const struct attn_services *services = ((struct binding *)binding)->plan->services;
    services->free(services->context, binding);
}

static void destroy(void *plan)
{
    const struct attn_services *services = ((struct plan *)plan)->services;
    services->free(services->context, plan);
}

static const struct attn_backend backend = {
    .struct_size = sizeof(struct attn_backend),
    .exactness = ATTN_NONE,
    .name = "null",
    .description = "computes nothing: the harness's own cost",
    .supports = supports,
    .create = create,
    .bind = bind,
    .run = run,
    .release = release,
    .destroy = destroy,
};

static const struct attn_backend *const backends[] = {&backend};

const struct attn_plugin attn_plugin = {
    .abi_version = ATTN_ABI_VERSION,
    .struct_size = sizeof(struct attn_plugin),
    .n_backends = sizeof(backends) / sizeof(backends[0]),
    .backends = backends,
};
