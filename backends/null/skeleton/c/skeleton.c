/* SPDX-License-Identifier: Apache-2.0 */
/* skeleton.c - a backend to start from: attention in f32, one row after the other, in plain C.
 *
 * It passes `attnbench verify` for what `limits` lists and refuses the rest. To make it yours, put
 * your kernel into `run`, list in `limits` what it does, and declare in `numerics` how it computes.
 * backend.h says what each slot owns and promises, problem.h and rows.h what their functions do. */
#include <math.h>

#include "attnbench/problem.h"

/* A plan: what `create` chose and allocated. It serves several bindings, one run at a time. */
struct plan {
    const struct attn_problem *problem;
    const struct attn_services *services;
    float *scores; /* [Sk] of one row */
};

/* A binding: a plan with its tensors. */
struct binding {
    struct plan *plan;
    struct attn_operands operands;
};

/* Roles taken beside those that every problem has. */
static const uint32_t optional[] = {ATTN_LSE, ATTN_MASK, ATTN_LEN, 0};

static const struct attn_limits limits = {
    .ops = ATTN_BIT(ATTN_OP_ATTENTION),
    .scores = ATTN_BIT(ATTN_SCORE_SCALED_DOT) | ATTN_BIT(ATTN_SCORE_DOT),
    .dtypes = ATTN_BIT(ATTN_F32),
    .flags = ATTN_FLAG_CAUSAL | ATTN_FLAG_WINDOW | ATTN_FLAG_OFF_BR | ATTN_FLAG_DETERMINISTIC,
    .optional = optional,
};

/* Is this problem within reach; if not, ATTN_UNSUPPORTED with one sentence in (why, size). */
static int supports(const struct attn_problem *problem, const struct attn_services *services,
                    char *why, size_t size)
{
    (void)services;
    if (attn_problem_check(problem, &limits, why, size) != ATTN_OK)
        return ATTN_UNSUPPORTED;
    if (problem->sk <= INT32_MAX) /* what your kernel or your library rules out beside the limits */
        return ATTN_OK;
    snprintf(why, size, "more than 2^31 - 1 keys are not supported");
    return ATTN_UNSUPPORTED;
}

/* Chooses a path and allocates all that `run` needs, through services; sees no data. */
static int create(const struct attn_problem *problem, const struct attn_services *services,
                  void **plan, char *why, size_t size)
{
    const size_t bytes = (size_t)problem->sk * sizeof(float) + 1; /* never 0 */
    struct plan *made = services->alloc(services->context, sizeof(*made), 64);
    float *scores = services->alloc(services->context, bytes, 64);
    if (made && scores) {
        *made = (struct plan){.problem = problem, .services = services, .scores = scores};
        *plan = made;
        return ATTN_OK;
    }
    if (made)
        services->free(services->context, made);
    if (scores)
        services->free(services->context, scores);
    snprintf(why, size, "no memory for %zu bytes of scores", bytes);
    return ATTN_OUT_OF_MEMORY;
}

/* How this plan computes: the error bound is built from this. expf and logf of glibc are within 1
 * ulp, of which twice is declared. */
static void numerics(const void *plan, struct attn_numerics *numerics)
{
    (void)plan;
    numerics->acc_type = ATTN_F32;
    numerics->denominator = 1;
    numerics->deterministic = 1;
    numerics->invariant = ATTN_INVARIANT_BATCH | ATTN_INVARIANT_THREADS;
    numerics->e_exp = 0x1p-22;
    numerics->e_log = 0x1p-22;
}

/* Attaches the tensors; may pack weights and score parameters, never q, k, v. */
static int bind(void *plan, const struct attn_tensor *tensors, uint32_t n_tensors, void **binding,
                char *why, size_t size)
{
    const struct attn_services *services = ((struct plan *)plan)->services;
    struct binding *made = services->alloc(services->context, sizeof(*made), 64);
    if (!made) {
        snprintf(why, size, "no memory for a binding of %zu bytes", sizeof(*made));
        return ATTN_OUT_OF_MEMORY;
    }
    made->plan = plan;
    attn_operands_set(&made->operands, tensors, n_tensors);
    *binding = made;
    return ATTN_OK;
}

static float dot(const float *x, int64_t x_step, const float *y, int64_t y_step, int64_t n)
{
    float sum = 0;
    for (int64_t c = 0; c < n; c++)
        sum += x[c * x_step] * y[c * y_step];
    return sum;
}

/* Scores of the keys, -infinity where one takes no part; returns the largest, or NaN where one is
 * NaN or +infinity. */
static float row_scores(const struct binding *binding, struct attn_keys keys, int64_t b, int64_t h,
                        int64_t i)
{
    const struct attn_problem *p = binding->plan->problem;
    const struct attn_operands *o = &binding->operands;
    const float *q = (const float *)o->q.data + attn_row_start(&o->q, b, h, i);
    const uint8_t *mask = attn_mask_row(&o->mask, b, h, i);
    float largest = -INFINITY;
    int broken = 0;
    for (int64_t j = keys.first; j < keys.end; j++) {
        const float *k =
            (const float *)o->k.data + attn_row_start(&o->k, b, h / (p->hq / p->hkv), j);
        float s = -INFINITY;
        if (!mask || mask[j * o->mask.stride[3]])
            s = (float)p->scale * dot(q, o->q.stride[3], k, o->k.stride[3], p->dk);
        broken |= !(s < INFINITY);
        largest = s > largest ? s : largest;
        binding->plan->scores[j] = s;
    }
    return broken ? NAN : largest;
}

/* out and lse of query i of head h. A key that takes no part is never multiplied: 0 * NaN is NaN.
 */
static void attend(const struct binding *binding, int64_t b, int64_t h, int64_t i)
{
    const struct attn_problem *p = binding->plan->problem;
    const struct attn_operands *o = &binding->operands;
    const struct attn_keys keys = attn_keys_seen(p, &o->len, b, i);
    const float largest = row_scores(binding, keys, b, h, i);
    float *out = (float *)o->out.data + attn_row_start(&o->out, b, h, i),
          *s = binding->plan->scores;
    float sum = isnan(largest) ? NAN : 0;
    for (int64_t d = 0; d < p->dv; d++)
        out[d * o->out.stride[3]] = 0;
    for (int64_t j = keys.first; j < keys.end; j++) {
        const float *v =
            (const float *)o->v.data + attn_row_start(&o->v, b, h / (p->hq / p->hkv), j);
        if (s[j] == -INFINITY)
            continue;
        const float weight = expf(s[j] - largest);
        sum += weight;
        for (int64_t d = 0; d < p->dv; d++)
            out[d * o->out.stride[3]] += weight * v[d * o->v.stride[3]];
    }
    for (int64_t d = 0; d < p->dv && sum != 0; d++) /* an empty row stays 0 */
        out[d * o->out.stride[3]] /= sum;
    if (o->lse.dtype)
        ((float *)o->lse.data)[attn_row_start(&o->lse, b, h, i)] = largest + logf(sum);
}

/* Computes the problem. The only slot that is timed; allocates nothing. */
static int run(void *binding, char *why, size_t size)
{
    const struct attn_problem *p = ((struct binding *)binding)->plan->problem;
    (void)why, (void)size;
    for (int64_t b = 0; b < p->b; b++)
        for (int64_t h = 0; h < p->hq; h++)
            for (int64_t i = 0; i < p->sq; i++)
                attend(binding, b, h, i);
    return ATTN_OK;
}

/* Frees a binding. */
static void release(void *binding)
{
    const struct attn_services *services = ((struct binding *)binding)->plan->services;
    services->free(services->context, binding);
}

/* Frees a plan. All its bindings have been released. */
static void destroy(void *plan)
{
    const struct attn_services *services = ((struct plan *)plan)->services;
    services->free(services->context, ((struct plan *)plan)->scores);
    services->free(services->context, plan);
}

static const struct attn_backend backend = {
    .struct_size = sizeof(struct attn_backend),
    .exactness = ATTN_EXACT,
    .name = "skeleton",
    .description = "attention in f32, one row after the other",
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
    .n_backends = sizeof(backends) / sizeof(backends[0]),
    .backends = backends,
};
