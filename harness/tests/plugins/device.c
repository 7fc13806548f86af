/* SPDX-License-Identifier: Apache-2.0 */
/* device.c - the slots of a device: it claims 12345 ns a run, and holds its results until fetch. */
#include <string.h>

#include "base.h"

static struct base_binding *pending;
static float *result;

static int enqueue(void *binding, char *why, size_t size)
{
    struct base_binding held = *(const struct base_binding *)binding;
    pending = binding;
    result = realloc(result, (size_t)held.out_elements * sizeof(*result));
    if (!result) {
        snprintf(why, size, "no memory for the result");
        return ATTN_OUT_OF_MEMORY;
    }
    held.out = result;
    held.out_row = held.problem.dv;
    return base_run(&held, why, size);
}

static int wait_all(void *binding, char *why, size_t size)
{
    (void)why;
    (void)size;
    return binding == pending ? ATTN_OK : ATTN_FAILED;
}

static int time_device(void *binding, double *ns, char *why, size_t size)
{
    (void)binding;
    (void)why;
    (void)size;
    *ns = 12345;
    return ATTN_OK;
}

static int fetch(void *binding, char *why, size_t size)
{
    struct base_binding *b = binding;
    (void)why;
    (void)size;
    memcpy(b->out, result, (size_t)b->out_elements * sizeof(*result));
    return ATTN_OK;
}

static const struct attn_backend backend = {
    BASE_BACKEND,     .create = base_create,      .run = enqueue, .enqueue = enqueue,
    .wait = wait_all, .time_device = time_device, .fetch = fetch};
static const struct attn_backend *const table[] = {&backend};
const struct attn_plugin attn_plugin = {BASE_PLUGIN(table)};
