/* SPDX-License-Identifier: Apache-2.0 */
/* crash_load.c - writes through a wild pointer when it is opened. */
#include "base.h"

__attribute__((constructor)) static void on_load(void)
{
    base_fault();
}

static const struct attn_backend backend = {BASE_BACKEND, .create = base_create, .run = base_run};
static const struct attn_backend *const table[] = {&backend};
const struct attn_plugin attn_plugin = {BASE_PLUGIN(table)};
