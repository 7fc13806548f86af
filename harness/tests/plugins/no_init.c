/* SPDX-License-Identifier: Apache-2.0 */
/* no_init.c - its init fails. */
#include "base.h"

static int init(const struct attn_services *services, char *why, size_t size)
{
    (void)services;
    snprintf(why, size, "the library is not installed");
    return ATTN_NO_DEVICE;
}

static const struct attn_backend backend = {BASE_BACKEND, .create = base_create, .run = base_run};
static const struct attn_backend *const table[] = {&backend};
const struct attn_plugin attn_plugin = {BASE_PLUGIN(table), .init = init};
