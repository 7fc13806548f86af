/* SPDX-License-Identifier: Apache-2.0 */
/* read_past.c - reads one key element past the end. */
#include "base.h"

static int run(void *binding, char *why, size_t size)
{
    struct base_binding *b = binding;
    const volatile float *k = b->k;
    (void)k[b->problem.sk * b->problem.dk];
    return base_run(binding, why, size);
}

static const struct attn_backend backend = {BASE_BACKEND, .create = base_create, .run = run};
static const struct attn_backend *const table[] = {&backend};
const struct attn_plugin attn_plugin = {BASE_PLUGIN(table)};
