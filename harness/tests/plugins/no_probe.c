/* SPDX-License-Identifier: Apache-2.0 */
/* no_probe.c - cannot run on this machine. */
#include "base.h"

static int probe(const struct attn_services *services, char *why, size_t size)
{
    (void)services;
    snprintf(why, size, "no such device");
    return ATTN_NO_DEVICE;
}

static const struct attn_backend backend = {BASE_BACKEND, .create = base_create, .run = base_run,
                                            .probe = probe};
static const struct attn_backend *const table[] = {&backend};
const struct attn_plugin attn_plugin = {BASE_PLUGIN(table)};
