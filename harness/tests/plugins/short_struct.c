/* SPDX-License-Identifier: Apache-2.0 */
/* short_struct.c - its plugin structure is too short. */
#include "base.h"

static const struct attn_backend backend = {BASE_BACKEND, .create = base_create, .run = base_run};
static const struct attn_backend *const table[] = {&backend};
const struct attn_plugin attn_plugin = {
    .abi_version = ATTN_ABI_VERSION, .struct_size = 8, .n_backends = 1, .backends = table};
