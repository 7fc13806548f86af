/* SPDX-License-Identifier: Apache-2.0 */
/* wrong_version.c - was built for another version of the ABI. */
#include "base.h"

static const struct attn_backend backend = {BASE_BACKEND, .create = base_create, .run = base_run};
static const struct attn_backend *const table[] = {&backend};
const struct attn_plugin attn_plugin = {.abi_version = ATTN_ABI_VERSION + 1,
                                        .struct_size = sizeof(struct attn_plugin),
                                        .n_backends = 1,
                                        .backends = table};
