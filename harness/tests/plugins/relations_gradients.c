/* SPDX-License-Identifier: Apache-2.0 */
/* relations_gradients.c - gradients of attention in plain f32, and an option that breaks one
 * relation. Each fault stays within the bound on the case itself, and shows when the backend is
 * compared with itself. */
#include <string.h>

#include "attnbench/problem.h"
#include "attnbench/rows.h"
#include "base.h"

#define WRONG 1.01F /* beyond every allowance on the sizes tried */

static char broken[32];        /* the option */
static int64_t first_heads;    /* of keys, of the first run of the process; 0: none yet */
static float first_q, first_k; /* its first elements of q and k */

struct binding {
    struct attn_problem problem;
    struct attn_operands operands;
};

static int is(const char *name)
{
    return strcmp(broken, name) == 0;
}

static int supports(const struct attn_problem *problem, const struct attn_services *services,
                    char *why, size_t size)
{
    static const uint32_t optional[] = {ATTN_KEEP, 0};
    static const struct attn_limits limits = {.ops = ATTN_BIT(ATTN_OP_ATTENTION_BACKWARD),
                                              .scores = ATTN_BIT(ATTN_SCORE_SCALED_DOT),
                                              .dtypes = ATTN_BIT(ATTN_F32),
                                              .flags = ATTN_FLAG_CAUSAL | ATTN_FLAG_DROPOUT,
                                              .optional = optional};
    (void)services;
    return attn_problem_check(problem, &limits, why, size) == ATTN_OK ? ATTN_OK : ATTN_UNSUPPORTED;
}

static int create(const struct attn_problem *problem, const struct attn_services *services,
                  void **plan, char *why, size_t size)
{
    snprintf(broken, sizeof(broken), "%s", attn_option_get(services, "break", "nothing"));
    return base_create(problem, services, plan, why, size);
}

static void numerics(const void *plan, struct attn_numerics *n)
{
    base_numerics(plan, n);
    n->deterministic = 1;
}

static int bind(void *plan, const struct attn_tensor *tensors, uint32_t n_tensors, void **binding,
                char *why, size_t size)
{
    struct binding *b = calloc(1, sizeof(*b));
    if (!b) {
        snprintf(why, size, "no memory for a binding");
        return ATTN_OUT_OF_MEMORY;
    }
    b->problem = *(const struct attn_problem *)plan;
    attn_operands_set(&b->operands, tensors, n_tensors);
    *binding = b;
    return ATTN_OK;
}

static float *row(const struct attn_tensor *t, int64_t b, int64_t h, int64_t i)
{
    return (float *)t->data + b * t->stride[0] + h * t->stride[1] + i * t->stride[2];
}

static float dot(const float *x, const float *y, int64_t n)
{
    float sum = 0;
    for (int64_t c = 0; c < n; c++)
        sum += x[c] * y[c];
    return sum;
}

static void add(float *to, float by, const float *x, int64_t n)
{
    for (int64_t c = 0; c < n; c++)
        to[c] += by * x[c];
}

static int sees(const struct attn_problem *p, int64_t i, int64_t j)
{
    return !(p->flags & ATTN_FLAG_CAUSAL) || j <= i + p->off;
}

/* The weight of a key. `shift_k` makes it wrong for keys that are far from 0. */
static float weight(const struct attn_problem *p, const float *q, const float *k, float lse)
{
    float sum = 0;
    for (int64_t c = 0; c < p->dk; c++)
        sum += k[c];
    return expf(dot(q, k, p->dk) * (float)p->scale - lse) *
           (is("shift_k") && sum > 1.5F * (float)p->dk ? WRONG : 1);
}

/* The lse that is given; `split` computes its own. */
static float lse_of(const struct attn_problem *p, const struct attn_operands *o, int64_t b,
                    int64_t h, int64_t i)
{
    const float given = *((const float *)o->lse.data + b * o->lse.stride[0] + h * o->lse.stride[1] +
                          i * o->lse.stride[2]);
    double sum = 0;
    for (int64_t j = 0; j < p->sk; j++)
        sum += sees(p, i, j) ? (double)weight(p, row(&o->q, b, h, i),
                                              row(&o->k, b, h / (p->hq / p->hkv), j), given)
                             : 0;
    return is("split") ? given + (float)log(sum) : given;
}

static void run_row(const struct attn_problem *p, const struct attn_operands *o, int64_t b,
                    int64_t h, int64_t i)
{
    const int64_t g = h / (p->hq / p->hkv);
    const float *q = row(&o->q, b, h, i), *dout = row(&o->dout, b, h, i);
    const float lse = lse_of(p, o, b, h, i), delta = dot(dout, row(&o->out, b, h, i), p->dv);
    const float scale = (float)p->scale, more = 1 / (1 - (float)p->dropout_p);
    for (int64_t j = 0; j < p->sk && !(is("linear_dout") && dout[0] == 0); j++) {
        const float *k = row(&o->k, b, g, j), *v = row(&o->v, b, g, j);
        if (!sees(p, i, j))
            continue;
        const int kept = !(p->flags & ATTN_FLAG_DROPOUT) || (is("keep") && o->keep.dtype) ||
                         attn_dropout_keeps(p, &o->keep, b, h, i, j);
        const float by = !kept ? 0 : p->flags & ATTN_FLAG_DROPOUT ? more : 1;
        const float w = weight(p, q, k, lse), ds = w * (by * dot(dout, v, p->dv) - delta);
        add(row(&o->grad_q, b, h, i), scale * ds, k, p->dk);
        add(row(&o->grad_k, b, g, j), scale * ds, q, p->dk);
        add(row(&o->grad_v, b, g, j), w * by, dout, p->dv);
    }
}

/* The factor of a gradient that is broken. */
static float factor(const struct attn_problem *p, const struct attn_operands *o, uint32_t role)
{
    const int of_q = role == ATTN_GRAD_Q, of_k = role == ATTN_GRAD_K;
    const float future = row(&o->v, 0, 0, p->sk - 1)[0], past = row(&o->dout, 0, 0, 0)[0];
    const int wrong = (is("permute_queries") && of_q && row(&o->q, 0, 0, 0)[0] != first_q) ||
                      (is("permute_keys") && of_k && row(&o->k, 0, 0, 0)[0] != first_k) ||
                      (is("gqa") && of_k && p->hkv != first_heads);
    const int barely = (is("causal_prefix") && of_q && fabsf(future) > 20) ||
                       (is("causal_suffix") && of_k && fabsf(past) > 20);
    return wrong ? WRONG : barely ? 1 + 0x1p-22F : 1;
}

static void scale_all(const struct attn_tensor *t, float by)
{
    for (int64_t b = 0; b < t->shape[0]; b++)
        for (int64_t h = 0; h < t->shape[1]; h++)
            for (int64_t i = 0; i < t->shape[2]; i++)
                for (int64_t c = 0; c < t->shape[3]; c++)
                    row(t, b, h, i)[c] = by == 0 ? 0 : by * row(t, b, h, i)[c];
}

static int run(void *binding, char *why, size_t size)
{
    const struct binding *x = binding;
    const struct attn_problem *p = &x->problem;
    const struct attn_operands *o = &x->operands;
    const struct attn_tensor *gradients[] = {&o->grad_q, &o->grad_k, &o->grad_v};
    (void)why, (void)size;
    if (first_heads == 0) {
        first_heads = p->hkv;
        first_q = row(&o->q, 0, 0, 0)[0];
        first_k = row(&o->k, 0, 0, 0)[0];
    }
    for (int n = 0; n < 3; n++)
        scale_all(gradients[n], 0);
    for (int64_t b = 0; b < p->b; b++)
        for (int64_t h = 0; h < p->hq; h++)
            for (int64_t i = 0; i < p->sq; i++)
                run_row(p, o, b, h, i);
    for (int n = 0; n < 3; n++)
        scale_all(gradients[n], factor(p, o, gradients[n]->role));
    return ATTN_OK;
}

static const struct attn_option_spec options[] = {
    {.key = "break",
     .type = ATTN_OPTION_CHOICE,
     .choices = "nothing|permute_keys|permute_queries|gqa|split|keep|shift_k|linear_dout|"
                "causal_prefix|causal_suffix",
     .default_value = "nothing",
     .help = "what does not hold"},
};

static const struct attn_backend backend = {.struct_size = sizeof(struct attn_backend),
                                            .name = "test",
                                            .description = "holds, but for one relation",
                                            .options = options,
                                            .n_options = 1,
                                            .supports = supports,
                                            .create = create,
                                            .numerics = numerics,
                                            .bind = bind,
                                            .run = run,
                                            .release = base_release,
                                            .destroy = base_destroy};
static const struct attn_backend *const table[] = {&backend};
const struct attn_plugin attn_plugin = {BASE_PLUGIN(table)};
