/* SPDX-License-Identifier: Apache-2.0 */
/* fragile.c - writes through a wild pointer in supports when it meets a bilinear score. */
#include "base.h"

static int supports(const struct attn_problem *problem, const struct attn_services *services,
                    char *why, size_t size)
{
    if (problem->score == ATTN_SCORE_BILINEAR)
        base_fault();
    return base_supports(problem, services, why, size);
}

static const struct attn_backend backend = {.struct_size = sizeof(struct attn_backend),
                                            .name = "fragile",
                                            .description = "crashes when asked",
                                            .supports = supports,
                                            .create = base_create,
                                            .numerics = base_numerics,
                                            .bind = base_bind,
                                            .run = base_run,
                                            .release = base_release,
                                            .destroy = base_destroy};
static const struct attn_backend *const table[] = {&backend};
const struct attn_plugin attn_plugin = {BASE_PLUGIN(table)};
