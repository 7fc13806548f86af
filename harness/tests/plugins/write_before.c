/* SPDX-License-Identifier: Apache-2.0 */
/* write_before.c - writes one element before the start of out. */
#include "base.h"

static int run(void *binding, char *why, size_t size)
{
    struct base_binding *b = binding;
    volatile float *out = b->out;
    out[-1] = 1;
    return base_run(binding, why, size);
}

static const struct attn_backend backend = {BASE_BACKEND, .create = base_create, .run = run};
static const struct attn_backend *const table[] = {&backend};
const struct attn_plugin attn_plugin = {BASE_PLUGIN(table)};
