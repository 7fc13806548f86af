/* SPDX-License-Identifier: Apache-2.0 */
/* false_clock.c - a device whose clock may be wrong. A run takes 50 microseconds; the clock says
 * the wall time divided by the option `by`. */
#include <string.h>
#include <time.h>

#include "base.h"

static double first, last;
static unsigned runs;
static double by = 1;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static int create(const struct attn_problem *problem, const struct attn_services *services,
                  void **plan, char *why, size_t size)
{
    by = strtod(attn_option_get(services, "by", "1"), NULL);
    return base_create(problem, services, plan, why, size);
}

static int enqueue(void *binding, char *why, size_t size)
{
    const double start = now();
    if (runs++ == 0)
        first = start;
    const int result = base_run(binding, why, size);
    while (now() < start + 50e3)
        continue;
    return result;
}

static int wait_all(void *binding, char *why, size_t size)
{
    (void)binding, (void)why, (void)size;
    last = (now() - first) / runs;
    runs = 0;
    return ATTN_OK;
}

static int run(void *binding, char *why, size_t size)
{
    const int result = enqueue(binding, why, size);
    return result == ATTN_OK ? wait_all(binding, why, size) : result;
}

static int time_device(void *binding, double *ns, char *why, size_t size)
{
    (void)binding, (void)why, (void)size;
    *ns = last / by;
    return ATTN_OK;
}

static int fetch(void *binding, char *why, size_t size)
{
    (void)binding, (void)why, (void)size;
    return ATTN_OK;
}

static const struct attn_option_spec options[] = {{.key = "by",
                                                   .type = ATTN_OPTION_CHOICE,
                                                   .choices = "1|10",
                                                   .default_value = "1",
                                                   .help = "how much too fast the clock is"}};
static const struct attn_backend backend = {
    .struct_size = sizeof(struct attn_backend),
    .name = "test",
    .description = "a test backend",
    .options = options,
    .n_options = 1,
    .supports = base_supports,
    .create = create,
    .numerics = base_numerics,
    .bind = base_bind,
    .run = run,
    .enqueue = enqueue,
    .wait = wait_all,
    .time_device = time_device,
    .fetch = fetch,
    .release = base_release,
    .destroy = base_destroy,
};
static const struct attn_backend *const table[] = {&backend};
const struct attn_plugin attn_plugin = {BASE_PLUGIN(table)};
