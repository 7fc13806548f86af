/* SPDX-License-Identifier: Apache-2.0 */
/* approx_before.c - declares itself approximate, and reads one element before the start of v; with
 * reads=inside it does not, and is right. */
#include "base.h"

static int inside;

static int create(const struct attn_problem *problem, const struct attn_services *services,
                  void **plan, char *why, size_t size)
{
    inside = *attn_option_get(services, "reads", "before") == 'i';
    return base_create(problem, services, plan, why, size);
}

static int run(void *binding, char *why, size_t size)
{
    struct base_binding *b = binding;
    const volatile float *v = b->v;
    if (!inside)
        (void)v[-1];
    return base_run(binding, why, size);
}

static const struct attn_option_spec options[] = {{.key = "reads",
                                                   .type = ATTN_OPTION_CHOICE,
                                                   .choices = "before|inside",
                                                   .default_value = "before",
                                                   .help = "where it reads v"}};
static const struct attn_backend backend = {BASE_BACKEND,       .exactness = ATTN_APPROXIMATE,
                                            .create = create,   .run = run,
                                            .options = options, .n_options = 1};
static const struct attn_backend *const table[] = {&backend};
const struct attn_plugin attn_plugin = {BASE_PLUGIN(table)};
