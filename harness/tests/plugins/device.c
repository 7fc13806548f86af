/* SPDX-License-Identifier: Apache-2.0 */
/* device.c - the slots of a device. It claims 12345 ns per run, and keeps its results until fetch.
 * Runs must go in turn over all live bindings. As launch time it reports the most runs that were
 * enqueued before a wait, and as copy rate the most bindings. */
#include <string.h>

#include "base.h"

static struct base_binding *pending;
static float *result;
static unsigned runs, most_runs, live, most_live;

static int bind(void *plan, const struct attn_tensor *tensors, uint32_t n_tensors, void **binding,
                char *why, size_t size)
{
    live++;
    most_live = live > most_live ? live : most_live;
    return base_bind(plan, tensors, n_tensors, binding, why, size);
}

static void release(void *binding)
{
    live--;
    base_release(binding);
}

static int enqueue(void *binding, char *why, size_t size)
{
    struct base_binding held = *(const struct base_binding *)binding;
    if (live > 1 && binding == pending) {
        snprintf(why, size, "twice the same of %u bindings", live);
        return ATTN_FAILED;
    }
    pending = binding;
    runs++;
    most_runs = runs > most_runs ? runs : most_runs;
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
    (void)binding;
    (void)why;
    (void)size;
    runs = 0;
    return ATTN_OK;
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

/* 256 bytes of operands more than it needs for itself, and a driver that counts from elsewhere. */
static void describe_device(struct attn_device *device)
{
    device->cache_bytes = 4096;
    device->allocated_bytes = most_live ? 1000 + 256 : 0;
    device->used_bytes = most_live ? 70000 : 50000;
    device->launch_ns = most_runs;
    device->copy_gbs = most_live;
    device->clock_mhz = 1500;
    memset(device->throttled, 'x', sizeof(device->throttled)); /* without an end */
}

static const struct attn_backend backend = {
    .struct_size = sizeof(struct attn_backend),
    .name = "test",
    .description = "a test backend",
    .supports = base_supports,
    .create = base_create,
    .numerics = base_numerics,
    .bind = bind,
    .run = enqueue,
    .enqueue = enqueue,
    .wait = wait_all,
    .time_device = time_device,
    .fetch = fetch,
    .release = release,
    .destroy = base_destroy,
    .device = describe_device,
};
static const struct attn_backend *const table[] = {&backend};
const struct attn_plugin attn_plugin = {BASE_PLUGIN(table)};
