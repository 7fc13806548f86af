/* SPDX-License-Identifier: Apache-2.0 */
/* reserve.c - allocates without end and touches nothing, so that only a limit can refuse it. */
#include "base.h"

static int create(const struct attn_problem *problem, const struct attn_services *services,
                  void **plan, char *why, size_t size)
{
    (void)problem;
    (void)plan;
    while (services->alloc(services->context, (size_t)16 << 20, 64))
        continue;
    snprintf(why, size, "no memory for the plan");
    return ATTN_OUT_OF_MEMORY;
}

static const struct attn_backend backend = {BASE_BACKEND, .create = create, .run = base_run};
static const struct attn_backend *const table[] = {&backend};
const struct attn_plugin attn_plugin = {BASE_PLUGIN(table)};
