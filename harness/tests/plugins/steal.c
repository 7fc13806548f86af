/* SPDX-License-Identifier: Apache-2.0 */
/* steal.c - takes the fault handlers away in create, then crashes in run. */
#include <signal.h>

#include "base.h"

static int create(const struct attn_problem *problem, const struct attn_services *services,
                  void **plan, char *why, size_t size)
{
    signal(SIGSEGV, SIG_DFL);
    return base_create(problem, services, plan, why, size);
}

static int run(void *binding, char *why, size_t size)
{
    base_fault();
    return base_run(binding, why, size);
}

static const struct attn_backend backend = {BASE_BACKEND, .create = create, .run = run};
static const struct attn_backend *const table[] = {&backend};
const struct attn_plugin attn_plugin = {BASE_PLUGIN(table)};
