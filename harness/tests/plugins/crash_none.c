/* SPDX-License-Identifier: Apache-2.0 */
/* crash_none.c - computes nothing, and crashes in create. */
#include "base.h"

static int create(const struct attn_problem *problem, const struct attn_services *services,
                  void **plan, char *why, size_t size)
{
    base_fault();
    return base_create(problem, services, plan, why, size);
}

static const struct attn_backend backend = {.struct_size = sizeof(struct attn_backend),
                                            .name = "none",
                                            .description = "computes nothing",
                                            .exactness = ATTN_NONE,
                                            .supports = base_supports,
                                            .create = create,
                                            .bind = base_bind,
                                            .run = base_run,
                                            .release = base_release,
                                            .destroy = base_destroy};
static const struct attn_backend *const table[] = {&backend};
const struct attn_plugin attn_plugin = {BASE_PLUGIN(table)};
