/* SPDX-License-Identifier: Apache-2.0 */
/* slow.c - sleeps for more than a second in each run. Its table ends before the slot `device`; what
 * is in memory there must not be called. */
#include <time.h>

#include "base.h"

static int run(void *binding, char *why, size_t size)
{
    nanosleep(&(struct timespec){.tv_sec = 1, .tv_nsec = 50000000}, NULL);
    return base_run(binding, why, size);
}

static void beyond(struct attn_device *device)
{
    (void)device;
    base_fault();
}

static const struct attn_backend backend = {BASE_BACKEND, .create = base_create, .run = run,
                                            .device = beyond};
static const struct attn_backend *const table[] = {&backend};
const struct attn_plugin attn_plugin = {BASE_PLUGIN(table)};
