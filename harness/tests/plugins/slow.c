/* SPDX-License-Identifier: Apache-2.0 */
/* slow.c - sleeps for more than a second in each run, with when=large only if there are many
 * queries, with when=decode only if there is one, with when=first only in the first of a process.
 * Its table ends before the slot `device`; what is in memory there must not be called. */
#include <time.h>

#include "base.h"

static char when; /* first letter of the option */
static long runs;

static int create(const struct attn_problem *problem, const struct attn_services *services,
                  void **plan, char *why, size_t size)
{
    when = *attn_option_get(services, "when", "always");
    return base_create(problem, services, plan, why, size);
}

static int run(void *binding, char *why, size_t size)
{
    const struct base_binding *b = binding;
    if (when == 'a' || (when == 'l' && b->problem.sq > 64) || (when == 'd' && b->problem.sq == 1) ||
        (when == 'f' && runs++ == 0))
        nanosleep(&(struct timespec){.tv_sec = 1, .tv_nsec = 50000000}, NULL);
    return base_run(binding, why, size);
}

static void beyond(struct attn_device *device)
{
    (void)device;
    base_fault();
}

static const struct attn_option_spec options[] = {{.key = "when",
                                                   .type = ATTN_OPTION_CHOICE,
                                                   .choices = "always|large|decode|first",
                                                   .default_value = "always",
                                                   .help = "which runs are slow"}};
static const struct attn_backend backend = {BASE_BACKEND,       .create = create, .run = run,
                                            .options = options, .n_options = 1,   .device = beyond};
static const struct attn_backend *const table[] = {&backend};
const struct attn_plugin attn_plugin = {BASE_PLUGIN(table)};
