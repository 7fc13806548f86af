/* SPDX-License-Identifier: Apache-2.0 */
/* crash_none.c - computes nothing, and crashes in create. */
#include "base.h"

static int create(const struct attn_problem *problem, const struct attn_services *services,
                  void **plan, char *why, size_t size)
{
    base_fault();
    return base_create(problem, services, plan, why, size);
}

static const struct attn_backend backend = {BASE_SLOTS,
                                            .struct_size = sizeof(struct attn_backend),
                                            .name = "none",
                                            .description = "computes nothing",
                                            .exactness = ATTN_NONE,
                                            .create = create,
                                            .run = base_run};
static const struct attn_backend *const table[] = {&backend};
const struct attn_plugin attn_plugin = {BASE_PLUGIN(table)};
