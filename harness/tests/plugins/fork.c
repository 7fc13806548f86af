/* SPDX-License-Identifier: Apache-2.0 */
/* fork.c - leaves a sleeping child behind, in a session of its own; prints its name. */
#include <unistd.h>

#include "base.h"

static int run(void *binding, char *why, size_t size)
{
    (void)binding;
    int ready[2];
    char byte;
    if (pipe(ready) != 0)
        return ATTN_FAILED;
    const pid_t child = fork();
    if (child == 0) {
        setsid();
        base_tell_name();
        close(ready[0]);
        close(ready[1]);
        for (;;)
            pause();
    }
    close(ready[1]);
    (void)!read(ready[0], &byte, 1);
    close(ready[0]);
    return base_run(binding, why, size);
}

static const struct attn_backend backend = {BASE_BACKEND, .create = base_create, .run = run};
static const struct attn_backend *const table[] = {&backend};
const struct attn_plugin attn_plugin = {BASE_PLUGIN(table)};
