/* SPDX-License-Identifier: Apache-2.0 */
/* drops_tail.c - leaves out the last key if one key is left after tiles of 16. */
#include "base.h"

static int run(void *binding, char *why, size_t size)
{
    (void)why;
    (void)size;
    struct base_binding b = *(struct base_binding *)binding;
    if (b.problem.sk > 16 && b.problem.sk % 16 == 1)
        b.problem.sk--;
    base_attend(&b, 1);
    return ATTN_OK;
}

static const struct attn_backend backend = {BASE_BACKEND, .create = base_create, .run = run};
static const struct attn_backend *const table[] = {&backend};
const struct attn_plugin attn_plugin = {BASE_PLUGIN(table)};
