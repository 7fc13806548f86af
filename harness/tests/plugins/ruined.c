/* SPDX-License-Identifier: Apache-2.0 */
/* ruined.c - fails at 8 queries, and then always in the same process, as after a fault on a device
 * that destroys its context. */
#include "base.h"

static int run(void *binding, char *why, size_t size)
{
    static int ruined;
    const struct base_binding *b = binding;
    ruined |= b->problem.sq == 8;
    if (!ruined)
        return base_run(binding, why, size);
    snprintf(why, size, "an illegal address was met");
    return ATTN_FAILED;
}

static const struct attn_backend backend = {BASE_BACKEND, .create = base_create, .run = run};
static const struct attn_backend *const table[] = {&backend};
const struct attn_plugin attn_plugin = {BASE_PLUGIN(table)};
