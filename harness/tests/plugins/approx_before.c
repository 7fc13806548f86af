/* SPDX-License-Identifier: Apache-2.0 */
/* approx_before.c - declares itself approximate, and reads one element before the start of v. */
#include "base.h"

static int run(void *binding, char *why, size_t size)
{
    struct base_binding *b = binding;
    const volatile float *v = b->v;
    (void)v[-1];
    return base_run(binding, why, size);
}

static const struct attn_backend backend = {BASE_BACKEND, .exactness = ATTN_APPROXIMATE,
                                            .create = base_create, .run = run};
static const struct attn_backend *const table[] = {&backend};
const struct attn_plugin attn_plugin = {BASE_PLUGIN(table)};
