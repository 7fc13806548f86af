/* SPDX-License-Identifier: Apache-2.0 */
/* skeleton.c - a backend to start from: plain attention in f32; it refuses everything else.
 *
 * Put your kernel into `run`, list in `limits` what it does, and declare in `numerics` how it
 * computes. backend.h says what each slot owns and promises, problem.h what its functions do. */
#include <math.h>

#include "attnbench/problem.h"

/* What it can do. attn_problem_check refuses the rest, what a later harness adds included. */
static const struct attn_limits limits = {
    .ops = ATTN_BIT(ATTN_OP_ATTENTION),
    .scores = ATTN_BIT(ATTN_SCORE_SCALED_DOT) | ATTN_BIT(ATTN_SCORE_DOT),
    .dtypes = ATTN_BIT(ATTN_F32),
};

struct plan {
    const struct attn_problem *problem;
    const struct attn_services *services; /* alloc counts memory as workspace */
};

struct binding {
    const struct plan *plan;
    struct attn_operands o;
};

static float dot(const float *x, int64_t x_step, const float *y, int64_t y_step, int64_t n)
{
    float sum = 0;
    for (int64_t c = 0; c < n; c++)
        sum += x[c * x_step] * y[c * y_step];
    return sum;
}

/* out of query i: the largest score first, then the weights. hq / hkv query heads share a key head.
 */
static void attend(const struct attn_problem *p, const struct attn_operands *o, int64_t b,
                   int64_t h, int64_t i)
{
    const int64_t g = h / (p->hq / p->hkv);
    const float *q = (const float *)o->q.data + attn_row_start(&o->q, b, h, i);
    float *out = (float *)o->out.data + attn_row_start(&o->out, b, h, i);
    float largest = -INFINITY, sum = 0;
    for (int64_t d = 0; d < p->dv; d++)
        out[d * o->out.stride[3]] = 0;
    for (int64_t pass = 0; pass < 2; pass++)
        for (int64_t j = 0; j < p->sk; j++) {
            const float *k = (const float *)o->k.data + attn_row_start(&o->k, b, g, j);
            const float *v = (const float *)o->v.data + attn_row_start(&o->v, b, g, j);
            const float s = (float)p->scale * dot(q, o->q.stride[3], k, o->k.stride[3], p->dk);
            largest = pass == 0 && s > largest ? s : largest;
            if (pass == 0 || s == -INFINITY)
                continue;
            const float weight = expf(s - largest);
            sum += weight;
            for (int64_t d = 0; d < p->dv; d++)
                out[d * o->out.stride[3]] += weight * v[d * o->v.stride[3]];
        }
    for (int64_t d = 0; d < p->dv && sum != 0; d++) /* a row without keys stays 0 */
        out[d * o->out.stride[3]] /= sum;
}

/* The only slot that is timed. Allocates nothing. */
static int run(void *binding, char *why, size_t size)
{
    const struct binding *made = binding;
    const struct attn_problem *p = made->plan->problem;
    (void)why, (void)size;
    for (int64_t b = 0; b < p->b; b++)
        for (int64_t h = 0; h < p->hq; h++)
            for (int64_t i = 0; i < p->sq; i++)
                attend(p, &made->o, b, h, i);
    return ATTN_OK;
}

/* How it computes: the error bound is built from this. expf of glibc is within 1 ulp. */
static void numerics(const void *plan, struct attn_numerics *numerics)
{
    (void)plan;
    numerics->acc_type = ATTN_F32;
    numerics->denominator = 1;
    numerics->deterministic = 1;
    numerics->e_exp = 0x1p-22;
}

static int supports(const struct attn_problem *problem, const struct attn_services *services,
                    char *why, size_t size)
{
    (void)services;
    return attn_problem_check(problem, &limits, why, size);
}

static int create(const struct attn_problem *problem, const struct attn_services *services,
                  void **plan, char *why, size_t size)
{
    struct plan *made = services->alloc(services->context, sizeof(*made), 64);
    if (!made) {
        snprintf(why, size, "no memory for a plan");
        return ATTN_OUT_OF_MEMORY;
    }
    *made = (struct plan){problem, services};
    *plan = made;
    return ATTN_OK;
}

static int bind(void *plan, const struct attn_tensor *tensors, uint32_t n_tensors, void **binding,
                char *why, size_t size)
{
    const struct plan *of = plan;
    struct binding *made = of->services->alloc(of->services->context, sizeof(*made), 64);
    if (!made) {
        snprintf(why, size, "no memory for a binding");
        return ATTN_OUT_OF_MEMORY;
    }
    made->plan = of;
    attn_operands_set(&made->o, tensors, n_tensors);
    *binding = made;
    return ATTN_OK;
}

static void release(void *binding)
{
    const struct attn_services *services = ((struct binding *)binding)->plan->services;
    services->free(services->context, binding);
}

static void destroy(void *plan)
{
    const struct attn_services *services = ((struct plan *)plan)->services;
    services->free(services->context, plan);
}

static const struct attn_backend backend = {
    .struct_size = sizeof(struct attn_backend),
    .exactness = ATTN_EXACT,
    .name = "skeleton",
    .description = "plain attention in f32, one row after the other",
    .supports = supports,
    .create = create,
    .numerics = numerics,
    .bind = bind,
    .run = run,
    .release = release,
    .destroy = destroy,
};

static const struct attn_backend *const backends[] = {&backend};

const struct attn_plugin attn_plugin = {
    .abi_version = ATTN_ABI_VERSION,
    .struct_size = sizeof(struct attn_plugin),
    .n_backends = 1,
    .backends = backends,
};
