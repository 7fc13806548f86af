/* SPDX-License-Identifier: Apache-2.0 */
/* nan_rows.c - declares that a row without keys is NaN, as base_run computes it: 0/0. */
#include "base.h"

static void numerics(const void *plan, struct attn_numerics *to)
{
    base_numerics(plan, to);
    to->empty_row = ATTN_EMPTY_NAN;
}

static const struct attn_backend backend = {BASE_SLOTS,
                                            .struct_size = sizeof(struct attn_backend),
                                            .name = "nan_rows",
                                            .description = "NaN where no key is allowed",
                                            .create = base_create,
                                            .numerics = numerics,
                                            .run = base_run};
static const struct attn_backend *const table[] = {&backend};
const struct attn_plugin attn_plugin = {BASE_PLUGIN(table)};
