/* SPDX-License-Identifier: Apache-2.0 */
/* flood.c - prints 200 MB. */
#include <string.h>

#include "base.h"

static int run(void *binding, char *why, size_t size)
{
    (void)binding;
    static char text[1 << 20];
    memset(text, 'x', sizeof(text));
    for (int i = 0; i < 200; i++)
        fwrite(text, 1, sizeof(text), stdout);
    fflush(stdout);
    return base_run(binding, why, size);
}

static const struct attn_backend backend = {BASE_BACKEND, .create = base_create, .run = run};
static const struct attn_backend *const table[] = {&backend};
const struct attn_plugin attn_plugin = {BASE_PLUGIN(table)};
