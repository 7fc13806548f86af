/* SPDX-License-Identifier: Apache-2.0 */
/* stale.c - computes once, and then always returns that result. */
#include <string.h>

#include "base.h"

static int run(void *binding, char *why, size_t size)
{
    static float kept[4096];
    static int64_t n_kept;
    const struct base_binding *b = binding;
    const int64_t n = b->out_elements < 4096 ? b->out_elements : 4096;
    int result = ATTN_OK;
    if (n_kept != n) {
        result = base_run(binding, why, size);
        memcpy(kept, b->out, (size_t)n * sizeof(*kept));
        n_kept = n;
    }
    memcpy(b->out, kept, (size_t)n * sizeof(*kept));
    return result;
}

static const struct attn_backend backend = {BASE_BACKEND, .create = base_create, .run = run};
static const struct attn_backend *const table[] = {&backend};
const struct attn_plugin attn_plugin = {BASE_PLUGIN(table)};
