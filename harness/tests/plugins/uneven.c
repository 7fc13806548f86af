/* SPDX-License-Identifier: Apache-2.0 */
/* uneven.c - right, and always as fast: a run takes 60 us of processor time. With the option
 * first=N the first N of a process take 90 us. */
#include <stdlib.h>
#include <time.h>

#include "base.h"

static long runs, first;

static double own_time(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int create(const struct attn_problem *problem, const struct attn_services *services,
                  void **plan, char *why, size_t size)
{
    first = strtol(attn_option_get(services, "first", "0"), NULL, 10);
    return base_create(problem, services, plan, why, size);
}

static int run(void *binding, char *why, size_t size)
{
    const double start = own_time(), takes = runs++ < first ? 90e-6 : 60e-6;
    const int result = base_run(binding, why, size);
    while (own_time() < start + takes)
        continue;
    return result;
}

static const struct attn_option_spec options[] = {{.key = "first",
                                                   .type = ATTN_OPTION_INT,
                                                   .default_value = "0",
                                                   .help = "runs of a process that take longer"}};
static const struct attn_backend backend = {BASE_BACKEND, .create = create, .run = run,
                                            .options = options, .n_options = 1};
static const struct attn_backend *const table[] = {&backend};
const struct attn_plugin attn_plugin = {BASE_PLUGIN(table)};
