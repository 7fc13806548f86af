/* SPDX-License-Identifier: Apache-2.0 */
/* credulous.c - accepts one kind of thing that it does not know; the option says which. */
#include "base.h"

enum { FLAG, OP, SCORE, DTYPE, ROLE, STRUCT_SIZE, TENSOR_TYPE, SPACE, DEVICE };

/* Makes a copy of a problem one that `base` accepts, in the one respect that is not looked at. */
static void overlook(int what, struct attn_problem *p, struct attn_tensor *tensors)
{
    if (what == FLAG)
        p->flags = 0;
    else if (what == OP)
        p->op = ATTN_OP_ATTENTION;
    else if (what == SCORE)
        p->score = ATTN_SCORE_SCALED_DOT;
    else if (what == STRUCT_SIZE)
        p->struct_size = sizeof(*p);
    else if (what == ROLE)
        p->n_tensors = p->n_tensors > 4 ? 4 : p->n_tensors;
    for (uint32_t t = 0; t < p->n_tensors; t++) {
        if (what == TENSOR_TYPE || what == DTYPE)
            tensors[t].dtype = what == DTYPE && tensors[t].dtype != p->dtype ? 0 : ATTN_F32;
        else if (what == SPACE)
            tensors[t].space = ATTN_HOST;
        else if (what == DEVICE)
            tensors[t].device = 0;
    }
    if (what == DTYPE)
        p->dtype = ATTN_F32;
}

static int supports(const struct attn_problem *problem, const struct attn_services *services,
                    char *why, size_t size)
{
    struct attn_tensor tensors[64];
    struct attn_problem copy = *problem;
    for (uint32_t t = 0; t < problem->n_tensors; t++)
        tensors[t] = problem->tensors[t];
    copy.tensors = tensors;
    overlook(atoi(attn_option_get(services, "accepts", "0")), &copy, tensors);
    return base_supports(&copy, services, why, size);
}

static const struct attn_option_spec options[] = {{.key = "accepts",
                                                   .type = ATTN_OPTION_INT,
                                                   .default_value = "0",
                                                   .help = "what is not looked at"}};
static const struct attn_backend backend = {.struct_size = offsetof(struct attn_backend, device),
                                            .name = "test",
                                            .description = "a test backend",
                                            .options = options,
                                            .n_options = 1,
                                            .supports = supports,
                                            .create = base_create,
                                            .numerics = base_numerics,
                                            .bind = base_bind,
                                            .run = base_run,
                                            .release = base_release,
                                            .destroy = base_destroy};
static const struct attn_backend *const table[] = {&backend};
const struct attn_plugin attn_plugin = {BASE_PLUGIN(table)};
