/* SPDX-License-Identifier: Apache-2.0 */
/* hog.c - allocates without end. */
#include <string.h>

#include "base.h"

static int run(void *binding, char *why, size_t size)
{
    (void)binding;
    for (;;) {
        void *memory = malloc((size_t)16 << 20);
        if (!memory) {
            snprintf(why, size, "no more memory");
            return ATTN_OUT_OF_MEMORY;
        }
        memset(memory, 1, (size_t)16 << 20);
    }
}

static const struct attn_backend backend = {BASE_BACKEND, .create = base_create, .run = run};
static const struct attn_backend *const table[] = {&backend};
const struct attn_plugin attn_plugin = {BASE_PLUGIN(table)};
