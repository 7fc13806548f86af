/* SPDX-License-Identifier: Apache-2.0 */
/* hang.c - never returns from run, and ignores SIGTERM; prints its name. */
#include <signal.h>
#include <unistd.h>

#include "base.h"

static int run(void *binding, char *why, size_t size)
{
    (void)binding;
    (void)why;
    (void)size;
    signal(SIGTERM, SIG_IGN);
    base_tell_name();
    for (;;)
        pause();
    return ATTN_OK;
}

static const struct attn_backend backend = {BASE_BACKEND, .create = base_create, .run = run};
static const struct attn_backend *const table[] = {&backend};
const struct attn_plugin attn_plugin = {BASE_PLUGIN(table)};
