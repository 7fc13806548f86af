/* SPDX-License-Identifier: Apache-2.0 */
/* bad_name.c - its backend has a name that a command line cannot give. */
#include "base.h"

static const struct attn_backend backend = {.struct_size = sizeof(struct attn_backend),
                                            .name = "Bad Name",
                                            .description = "a test backend",
                                            .supports = base_supports,
                                            .create = base_create,
                                            .numerics = base_numerics,
                                            .bind = base_bind,
                                            .run = base_run,
                                            .release = base_release,
                                            .destroy = base_destroy};
static const struct attn_backend *const table[] = {&backend};
const struct attn_plugin attn_plugin = {BASE_PLUGIN(table)};
