/* SPDX-License-Identifier: Apache-2.0 */
/* shortcut.c - looks whether all values are zero, and then computes nothing: right, and faster than
 * any multiply-adds. */
#include <string.h>

#include "base.h"

static int run(void *binding, char *why, size_t size)
{
    const struct base_binding *b = binding;
    const int64_t values = b->problem.sk * b->problem.dv;
    float largest = 0;
    for (int64_t i = 0; i < values; i++)
        largest = fmaxf(largest, fabsf(b->v[i]));
    if (largest > 0)
        return base_run(binding, why, size);
    for (int64_t i = 0; i < b->problem.sq; i++)
        memset(b->out + i * b->out_row, 0, (size_t)b->problem.dv * sizeof(float));
    return ATTN_OK;
}

static const struct attn_backend backend = {BASE_BACKEND, .create = base_create, .run = run};
static const struct attn_backend *const table[] = {&backend};
const struct attn_plugin attn_plugin = {BASE_PLUGIN(table)};
