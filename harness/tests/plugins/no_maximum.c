/* SPDX-License-Identifier: Apache-2.0 */
/* no_maximum.c - takes exp of scores as they are: right for random inputs, Inf for large ones. */
#include "base.h"

static int run(void *binding, char *why, size_t size)
{
    (void)why;
    (void)size;
    base_attend(binding, 0);
    return ATTN_OK;
}

static const struct attn_backend backend = {BASE_BACKEND, .create = base_create, .run = run};
static const struct attn_backend *const table[] = {&backend};
const struct attn_plugin attn_plugin = {BASE_PLUGIN(table)};
