/* SPDX-License-Identifier: Apache-2.0 */
/* late.c - right in its first 600 runs, then wrong. Only a timing makes that many runs. */
#include "base.h"

static int run(void *binding, char *why, size_t size)
{
    static int runs;
    const int result = base_run(binding, why, size);
    if (++runs > 600)
        ((struct base_binding *)binding)->out[0] += 1;
    return result;
}

static const struct attn_backend backend = {BASE_BACKEND, .create = base_create, .run = run};
static const struct attn_backend *const table[] = {&backend};
const struct attn_plugin attn_plugin = {BASE_PLUGIN(table)};
