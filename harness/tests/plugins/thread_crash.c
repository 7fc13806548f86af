/* SPDX-License-Identifier: Apache-2.0 */
/* thread_crash.c - its own thread writes through a wild pointer. */
#include <pthread.h>

#include "base.h"

static void *crash(void *unused)
{
    base_fault();
    return unused;
}

static int run(void *binding, char *why, size_t size)
{
    (void)binding;
    pthread_t thread;
    if (pthread_create(&thread, NULL, crash, NULL) == 0)
        pthread_join(thread, NULL);
    return base_run(binding, why, size);
}

static const struct attn_backend backend = {BASE_BACKEND, .create = base_create, .run = run};
static const struct attn_backend *const table[] = {&backend};
const struct attn_plugin attn_plugin = {BASE_PLUGIN(table)};
