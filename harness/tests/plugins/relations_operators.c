/* SPDX-License-Identifier: Apache-2.0 */
/* relations_operators.c - linear_decay, linformer and attention in plain f32, and an option that
 * breaks one of them. Each fault stays within the bound on the case itself, and shows when the
 * backend is compared with itself. */
#include <string.h>

#include "attnbench/problem.h"
#include "base.h"

enum { KEYS = 1024, WIDTH = 64, ROWS = 64 };

static char broken[32]; /* the option */

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
    static const uint32_t optional[] = {ATTN_LSE,      ATTN_PROJ_F,    ATTN_BONUS,
                                        ATTN_STATE_IN, ATTN_STATE_OUT, 0};
    static const struct attn_limits limits = {.ops = ATTN_BIT(ATTN_OP_ATTENTION) |
                                                     ATTN_BIT(ATTN_OP_LINFORMER) |
                                                     ATTN_BIT(ATTN_OP_LINEAR_DECAY),
                                              .scores = ATTN_BIT(ATTN_SCORE_SCALED_DOT),
                                              .dtypes = ATTN_BIT(ATTN_F32),
                                              .optional = optional,
                                              .widest = WIDTH};
    (void)services;
    if (attn_problem_check(problem, &limits, why, size) != ATTN_OK)
        return ATTN_UNSUPPORTED;
    if (problem->sk <= KEYS)
        return ATTN_OK;
    snprintf(why, size, "more keys than this test has room for");
    return ATTN_UNSUPPORTED;
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
    n->e_log = 0x1p-23;
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

static float *at(const struct attn_tensor *t, int64_t b, int64_t h, int64_t i, int64_t c)
{
    return (float *)t->data + b * t->stride[0] + h * t->stride[1] + i * t->stride[2] +
           c * t->stride[3];
}

/* One head of linear_decay; a state beyond 8 is cut off when it is taken over. */
static void decay_head(const struct attn_problem *p, const struct attn_operands *o, int64_t b,
                       int64_t h)
{
    static float state[WIDTH * WIDTH];
    for (int64_t c = 0; c < p->dk; c++)
        for (int64_t d = 0; d < p->dv; d++) {
            float s = o->state_in.dtype ? *at(&o->state_in, b, h, c, d) : 0;
            state[c * p->dv + d] = is("chunks") ? fmaxf(-8, fminf(s, 8)) : s;
        }
    for (int64_t t = 0; t < p->sk; t++) {
        float out[WIDTH] = {0};
        for (int64_t c = 0; c < p->dk; c++) {
            const float q = *at(&o->q, b, h, t, c), k = *at(&o->k, b, h, t, c);
            const float by = expf(*at(&o->decay, b, h, t, c));
            const float *bonus =
                o->bonus.dtype
                    ? (const float *)o->bonus.data + h * o->bonus.stride[0] + c * o->bonus.stride[1]
                    : NULL;
            for (int64_t d = 0; d < p->dv; d++) {
                float *s = &state[c * p->dv + d];
                const float kv = k * *at(&o->v, b, h, t, d), faded = *s * by;
                out[d] += q * ((p->variant == ATTN_DECAY_INCLUSIVE ? faded : *s) +
                               (bonus ? *bonus * kv : kv));
                *s = faded + kv;
            }
        }
        for (int64_t d = 0; d < p->dv; d++)
            *at(&o->out, b, h, t, d) = (float)p->scale * out[d];
    }
    for (int64_t c = 0; o->state_out.dtype && c < p->dk; c++)
        for (int64_t d = 0; d < p->dv; d++)
            *at(&o->state_out, b, h, c, d) = state[c * p->dv + d];
}

/* Row l of the projected keys or values; a copy without a projection. */
static void project(const struct attn_problem *p, const struct attn_tensor *matrix,
                    const struct attn_tensor *from, int64_t b, int64_t g, int64_t l, int64_t width,
                    float *to)
{
    for (int64_t c = 0; c < width; c++) {
        to[c] = matrix->dtype ? 0 : *at(from, b, g, l, c);
        for (int64_t j = 0; matrix->dtype && j < p->sk; j++)
            to[c] += ((const float *)matrix->data)[g * matrix->stride[0] + l * matrix->stride[1] +
                                                   j * matrix->stride[2]] *
                     *at(from, b, g, j, c);
    }
}

/* One head of attention, or of linformer; rows beyond those there is room for are left out. */
static void attend_head(const struct attn_problem *p, const struct attn_operands *o, int64_t b,
                        int64_t h)
{
    static float k[KEYS * WIDTH], v[KEYS * WIDTH], s[KEYS];
    const int64_t g = h / (p->hq / p->hkv);
    const int linear = p->op == ATTN_OP_LINFORMER;
    const int64_t all = linear ? p->landmarks : p->sk;
    const int64_t rows = is("identity_projection") && linear && all > ROWS ? ROWS : all;
    for (int64_t l = 0; l < rows; l++) {
        project(p, &o->proj_e, &o->k, b, g, l, p->dk, k + l * p->dk);
        project(p, &o->proj_f, &o->v, b, g, l, p->dv, v + l * p->dv);
    }
    for (int64_t i = 0; i < p->sq; i++) {
        float max = -INFINITY, sum = 0, out[WIDTH] = {0};
        for (int64_t l = 0; l < rows; l++) {
            s[l] = 0;
            for (int64_t c = 0; c < p->dk; c++)
                s[l] += *at(&o->q, b, h, i, c) * k[l * p->dk + c];
            s[l] *= (float)p->scale;
            max = fmaxf(max, s[l]);
        }
        for (int64_t l = 0; l < rows; l++) {
            const float e = expf(s[l] - max);
            sum += e;
            for (int64_t d = 0; d < p->dv; d++)
                out[d] += e * v[l * p->dv + d];
        }
        for (int64_t d = 0; d < p->dv; d++)
            *at(&o->out, b, h, i, d) = rows > 0 ? out[d] / sum : 0;
        if (o->lse.dtype)
            ((float *)
                 o->lse.data)[b * o->lse.stride[0] + h * o->lse.stride[1] + i * o->lse.stride[2]] =
                max + logf(sum);
    }
}

static int run(void *binding, char *why, size_t size)
{
    const struct binding *x = binding;
    (void)why, (void)size;
    for (int64_t b = 0; b < x->problem.b; b++)
        for (int64_t h = 0; h < x->problem.hq; h++)
            if (x->problem.op == ATTN_OP_LINEAR_DECAY)
                decay_head(&x->problem, &x->operands, b, h);
            else
                attend_head(&x->problem, &x->operands, b, h);
    return ATTN_OK;
}

static const struct attn_option_spec options[] = {
    {.key = "break",
     .type = ATTN_OPTION_CHOICE,
     .choices = "nothing|chunks|identity_projection",
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
