/* SPDX-License-Identifier: Apache-2.0 */
/* rare.c - computes the right answer for one query, about one random case in 5,000;
 * ATTNBENCH_TEST_QUERIES=N: for N. */
#include <stdlib.h>

#include "base.h"

static int supports(const struct attn_problem *problem, const struct attn_services *services,
                    char *why, size_t size)
{
    const char *queries = getenv("ATTNBENCH_TEST_QUERIES");
    if (problem->sq == (queries ? atoi(queries) : 1))
        return base_supports(problem, services, why, size);
    snprintf(why, size, "only %s queries", queries ? queries : "1");
    return ATTN_UNSUPPORTED;
}

static const struct attn_backend backend = {.struct_size = offsetof(struct attn_backend, device),
                                            .name = "rare",
                                            .description = "a test backend",
                                            .supports = supports,
                                            .create = base_create,
                                            .numerics = base_numerics,
                                            .bind = base_bind,
                                            .run = base_run,
                                            .release = base_release,
                                            .destroy = base_destroy};
static const struct attn_backend *const table[] = {&backend};
const struct attn_plugin attn_plugin = {BASE_PLUGIN(table)};
