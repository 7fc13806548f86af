/* SPDX-License-Identifier: Apache-2.0 */
/* fork.c - leaves a sleeping child behind; prints its process number. */
#include <unistd.h>

#include "base.h"

static int run(void *binding, char *why, size_t size)
{
    (void)binding;
    const pid_t child = fork();
    if (child == 0) {
        for (;;)
            pause();
    }
    printf("pid %ld\n", (long)child);
    fflush(stdout);
    return base_run(binding, why, size);
}

static const struct attn_backend backend = {BASE_BACKEND, .create = base_create, .run = run};
static const struct attn_backend *const table[] = {&backend};
const struct attn_plugin attn_plugin = {BASE_PLUGIN(table)};
