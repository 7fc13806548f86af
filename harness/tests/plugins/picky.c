/* SPDX-License-Identifier: Apache-2.0 */
/* picky.c - supports the problem, and then refuses its operands. */
#include "base.h"

static int bind(void *plan, const struct attn_tensor *tensors, uint32_t n, void **binding,
                char *why, size_t size)
{
    (void)plan, (void)tensors, (void)n, (void)binding;
    snprintf(why, size, "not these operands");
    return ATTN_UNSUPPORTED;
}

static const struct attn_backend backend = {
    .struct_size = offsetof(struct attn_backend, device),
    .name = "picky",
    .description = "a test backend",
    .supports = base_supports,
    .create = base_create,
    .numerics = base_numerics,
    .bind = bind,
    .run = base_run,
    .release = base_release,
    .destroy = base_destroy,
};
static const struct attn_backend *const table[] = {&backend};
const struct attn_plugin attn_plugin = {BASE_PLUGIN(table)};
