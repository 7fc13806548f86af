/* SPDX-License-Identifier: Apache-2.0 */
/* bad_name.c - its backend has a name that a command line cannot give. */
#include "base.h"

static const struct attn_backend backend = {BASE_SLOTS,
                                            .struct_size = sizeof(struct attn_backend),
                                            .name = "Bad Name",
                                            .description = "a test backend",
                                            .create = base_create,
                                            .numerics = base_numerics,
                                            .run = base_run};
static const struct attn_backend *const table[] = {&backend};
const struct attn_plugin attn_plugin = {BASE_PLUGIN(table)};
