/* SPDX-License-Identifier: Apache-2.0 */
/* plugin.c - a backend for prefix_mean in f32. With wrong=N the means of query N and of those after
 * it divide by one value too many; with narrow=N all means whose reach is N or more do. */
#include <stdio.h>
#include <stdlib.h>

#include "op_prefix/prefix.h"

struct plan {
    struct attn_problem problem;
    int64_t wrong; /* the first query with a wrong mean */
};

struct binding {
    const struct plan *plan;
    const struct attn_tensor *v, *shift, *out, *count;
};

/* Are all operands those of the operator, in memory of the host? */
static int operands_known(const struct attn_problem *p)
{
    int known = 1;
    for (uint32_t t = 0; t < p->n_tensors; t++) {
        const struct attn_tensor *tensor = &p->tensors[t];
        known = known && tensor->dtype == ATTN_F32 && tensor->space == ATTN_HOST &&
                tensor->device == 0 &&
                (tensor->role == ATTN_V || tensor->role == ATTN_OUT ||
                 tensor->role == PREFIX_COUNT || tensor->role == PREFIX_SHIFT);
    }
    return known;
}

static int supports(const struct attn_problem *problem, const struct attn_services *services,
                    char *why, size_t size)
{
    (void)services;
    if (problem->op == PREFIX_OP && problem->dtype == ATTN_F32 && problem->flags == 0 &&
        problem->struct_size >= sizeof(*problem) && operands_known(problem))
        return ATTN_OK;
    snprintf(why, size, "only means of prefixes in f32");
    return ATTN_UNSUPPORTED;
}

static int create(const struct attn_problem *problem, const struct attn_services *services,
                  void **plan, char *why, size_t size)
{
    struct plan *made = malloc(sizeof(*made));
    if (!made) {
        snprintf(why, size, "no memory for a plan");
        return ATTN_OUT_OF_MEMORY;
    }
    const int64_t wrong = atoll(attn_option_get(services, "wrong", "0"));
    const int64_t narrow = atoll(attn_option_get(services, "narrow", "0"));
    *made = (struct plan){*problem, wrong > 0 ? wrong : INT64_MAX};
    if (narrow > 0 && problem->window_left >= narrow)
        made->wrong = 0;
    *plan = made;
    return ATTN_OK;
}

static void numerics(const void *plan, struct attn_numerics *numerics)
{
    (void)plan;
    numerics->acc_type = ATTN_F32;
    numerics->deterministic = 1;
    numerics->invariant = ATTN_INVARIANT_BATCH | ATTN_INVARIANT_THREADS;
}

static const struct attn_tensor *find(const struct attn_tensor *tensors, uint32_t n, uint32_t role)
{
    for (uint32_t t = 0; t < n; t++)
        if (tensors[t].role == role)
            return &tensors[t];
    return NULL;
}

static int attach(void *plan, const struct attn_tensor *tensors, uint32_t n_tensors, void **binding,
                  char *why, size_t size)
{
    struct binding *made = malloc(sizeof(*made));
    if (!made) {
        snprintf(why, size, "no memory for a binding");
        return ATTN_OUT_OF_MEMORY;
    }
    *made = (struct binding){.plan = plan,
                             .v = find(tensors, n_tensors, ATTN_V),
                             .shift = find(tensors, n_tensors, PREFIX_SHIFT),
                             .out = find(tensors, n_tensors, ATTN_OUT),
                             .count = find(tensors, n_tensors, PREFIX_COUNT)};
    *binding = made;
    return ATTN_OK;
}

static float *element(const struct attn_tensor *t, int64_t b, int64_t h, int64_t i, int64_t c)
{
    const int64_t last = t->rank > 3 ? c * t->stride[3] : 0;
    return (float *)t->data + b * t->stride[0] + h * t->stride[1] + i * t->stride[2] + last;
}

static void mean(const struct binding *b, int64_t batch, int64_t h, int64_t i)
{
    const struct attn_problem *p = &b->plan->problem;
    const int64_t g = h / (p->hq / p->hkv);
    int64_t end, begin = prefix_begin(p, i, &end);
    const int64_t n = end - begin + (i >= b->plan->wrong);
    if (b->count)
        *element(b->count, batch, h, i, 0) = (float)(end - begin);
    for (int64_t c = 0; c < p->dv; c++) {
        float sum = 0;
        for (int64_t j = begin; j < end; j++)
            sum += *element(b->v, batch, g, j, c);
        sum = end > begin ? (float)p->scale * (sum / (float)n) : 0;
        if (b->shift)
            sum +=
                ((const float *)b->shift->data)[h * b->shift->stride[0] + c * b->shift->stride[1]];
        *element(b->out, batch, h, i, c) = sum;
    }
}

static int run(void *binding, char *why, size_t size)
{
    const struct binding *b = binding;
    const struct attn_problem *p = &b->plan->problem;
    (void)why;
    (void)size;
    for (int64_t batch = 0; batch < p->b; batch++)
        for (int64_t h = 0; h < p->hq; h++)
            for (int64_t i = 0; i < p->sq; i++)
                mean(b, batch, h, i);
    return ATTN_OK;
}

static const struct attn_option_spec options[] = {
    {"wrong", ATTN_OPTION_INT, 0, NULL, "0", "the first query with a wrong mean; 0: none"},
    {"narrow", ATTN_OPTION_INT, 0, NULL, "0", "the least reach with wrong means; 0: none"}};

static const struct attn_backend backend = {
    .struct_size = sizeof(struct attn_backend),
    .name = "prefix",
    .description = "means of prefixes",
    .options = options,
    .n_options = 2,
    .supports = supports,
    .create = create,
    .numerics = numerics,
    .bind = attach,
    .run = run,
    .release = free,
    .destroy = free,
};

static const struct attn_backend *const table[] = {&backend};
const struct attn_plugin attn_plugin = {
    .abi_version = ATTN_ABI_VERSION,
    .struct_size = sizeof(struct attn_plugin),
    .n_backends = 1,
    .backends = table,
};
