/* SPDX-License-Identifier: Apache-2.0 */
/* bad_numerics.c - declares an accumulation type that does not exist. */
#include "base.h"

static void numerics(const void *plan, struct attn_numerics *n)
{
    (void)plan;
    n->acc_type = 99;
}

static const struct attn_backend backend = {BASE_SLOTS,
                                            .struct_size = sizeof(struct attn_backend),
                                            .name = "test",
                                            .description = "a test backend",
                                            .create = base_create,
                                            .numerics = numerics,
                                            .run = base_run};
static const struct attn_backend *const table[] = {&backend};
const struct attn_plugin attn_plugin = {BASE_PLUGIN(table)};
