/* SPDX-License-Identifier: Apache-2.0 */
/* slowed.c - another plugin's backend with a known share of work on top: some heads are computed
 * twice in each run. The environment names it: ATTNBENCH_SLOWED=FILE or FILE:BACKEND. Plain
 * problems with as many key/value heads as query heads only. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attnbench/backend.h"

static const struct attn_backend *inner;

struct plan {
    void *whole, *part; /* plans of the other backend; part NULL: no work on top */
    int64_t heads;      /* of the part */
    struct attn_problem problem;
    struct attn_tensor tensors[ATTN_MAX_RANK];
};

struct binding {
    void *whole, *part;
    struct attn_tensor tensors[ATTN_MAX_RANK]; /* those of the part */
};

static int init(const struct attn_services *services, char *why, size_t size)
{
    char file[4096];
    const char *wanted = getenv("ATTNBENCH_SLOWED");
    if (!wanted) {
        snprintf(why, size, "ATTNBENCH_SLOWED names no plugin");
        return ATTN_NO_DEVICE;
    }
    snprintf(file, sizeof(file), "%s", wanted);
    char *name = strrchr(file, ':');
    if (name)
        *name++ = 0;
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    const struct attn_plugin *plugin = library ? dlsym(library, ATTN_PLUGIN_SYMBOL) : NULL;
    if (!plugin || (plugin->init && plugin->init(services, why, size) != ATTN_OK)) {
        snprintf(why, size, "%.200s cannot be loaded", file);
        return ATTN_NO_DEVICE;
    }
    for (uint32_t b = 0; b < plugin->n_backends && !inner; b++)
        if (!name || strcmp(plugin->backends[b]->name, name) == 0)
            inner = plugin->backends[b];
    if (inner)
        return ATTN_OK;
    snprintf(why, size, "%.200s has no such backend", file);
    return ATTN_NO_DEVICE;
}

/* Heads that are computed twice; -1: the share is no whole number of them. */
static int64_t heads_of(const struct attn_problem *problem, const struct attn_services *services)
{
    const int64_t permille = strtoll(attn_option_get(services, "permille", "0"), NULL, 10);
    const int64_t product = problem->hq * permille;
    return product % 1000 == 0 && product >= 0 && permille <= 1000 ? product / 1000 : -1;
}

static int supports(const struct attn_problem *problem, const struct attn_services *services,
                    char *why, size_t size)
{
    if (problem->op != ATTN_OP_ATTENTION || problem->flags != 0 || problem->hq != problem->hkv ||
        problem->n_tensors != 4 || problem->score > ATTN_SCORE_DOT) {
        snprintf(why, size, "only plain attention with as many key/value heads as query heads");
        return ATTN_UNSUPPORTED;
    }
    if (heads_of(problem, services) < 0) {
        snprintf(why, size, "the share is no whole number of the %lld heads",
                 (long long)problem->hq);
        return ATTN_UNSUPPORTED;
    }
    return inner->supports(problem, services, why, size);
}

/* The first heads of the tensors. */
static void cut(const struct attn_tensor *from, uint32_t n, int64_t heads, struct attn_tensor *to)
{
    for (uint32_t t = 0; t < n; t++) {
        to[t] = from[t];
        to[t].shape[1] = heads;
    }
}

static int create(const struct attn_problem *problem, const struct attn_services *services,
                  void **out, char *why, size_t size)
{
    struct plan *plan = calloc(1, sizeof(*plan));
    if (!plan)
        return ATTN_OUT_OF_MEMORY;
    plan->heads = heads_of(problem, services);
    int result = inner->create(problem, services, &plan->whole, why, size);
    if (result == ATTN_OK && plan->heads > 0) {
        plan->problem = *problem;
        plan->problem.hq = plan->problem.hkv = plan->heads;
        plan->problem.tensors = plan->tensors;
        cut(problem->tensors, problem->n_tensors, plan->heads, plan->tensors);
        result = inner->create(&plan->problem, services, &plan->part, why, size);
        if (result != ATTN_OK)
            inner->destroy(plan->whole);
    }
    if (result == ATTN_OK)
        *out = plan;
    else
        free(plan);
    return result;
}

static void numerics(const void *plan, struct attn_numerics *declared)
{
    inner->numerics(((const struct plan *)plan)->whole, declared);
}

static int bind(void *plan, const struct attn_tensor *tensors, uint32_t n, void **out, char *why,
                size_t size)
{
    const struct plan *p = plan;
    struct binding *binding = calloc(1, sizeof(*binding));
    if (!binding)
        return ATTN_OUT_OF_MEMORY;
    int result = inner->bind(p->whole, tensors, n, &binding->whole, why, size);
    if (result == ATTN_OK && p->part) {
        cut(tensors, n, p->heads, binding->tensors);
        result = inner->bind(p->part, binding->tensors, n, &binding->part, why, size);
        if (result != ATTN_OK)
            inner->release(binding->whole);
    }
    if (result == ATTN_OK)
        *out = binding;
    else
        free(binding);
    return result;
}

static int run(void *binding, char *why, size_t size)
{
    const struct binding *b = binding;
    const int result = inner->run(b->whole, why, size);
    return result == ATTN_OK && b->part ? inner->run(b->part, why, size) : result;
}

static void release(void *binding)
{
    struct binding *b = binding;
    if (b->part)
        inner->release(b->part);
    inner->release(b->whole);
    free(b);
}

static void destroy(void *plan)
{
    struct plan *p = plan;
    if (p->part)
        inner->destroy(p->part);
    inner->destroy(p->whole);
    free(p);
}

static const struct attn_option_spec options[] = {
    {.key = "permille",
     .type = ATTN_OPTION_INT,
     .default_value = "0",
     .help = "heads that are computed twice, of a thousand"}};
static const struct attn_backend backend = {.struct_size = offsetof(struct attn_backend, device),
                                            .name = "slowed",
                                            .description = "another backend with work on top",
                                            .options = options,
                                            .n_options = 1,
                                            .supports = supports,
                                            .create = create,
                                            .numerics = numerics,
                                            .bind = bind,
                                            .run = run,
                                            .release = release,
                                            .destroy = destroy};
static const struct attn_backend *const table[] = {&backend};
const struct attn_plugin attn_plugin = {.abi_version = ATTN_ABI_VERSION,
                                        .struct_size = sizeof(struct attn_plugin),
                                        .init = init,
                                        .n_backends = 1,
                                        .backends = table};
