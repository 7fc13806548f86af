/* SPDX-License-Identifier: Apache-2.0 */
/* relations_mha.c - plain multi-head attention, and an option that breaks it in one way. Each fault
 * keeps within the bound on the case itself, and shows when the backend is compared with itself. */
#include <string.h>

#include "attnbench/problem.h"
#include "base.h"

#define WRONG 1.02F /* beyond every allowance on the sizes tried */

static char broken[32];           /* the option */
static struct attn_problem first; /* sizes of the first plan of the process */
/* Of the first run whose weights are few: the operands that the case itself has then. */
static float whole_x, whole_bias_k, whole_bias_v, whole_row[4096];

static int is(const char *name)
{
    return strcmp(broken, name) == 0;
}

static int supports(const struct attn_problem *problem, const struct attn_services *services,
                    char *why, size_t size)
{
    static const uint32_t optional[] = {ATTN_LSE, ATTN_BIAS, ATTN_X_K, ATTN_W_O, ATTN_B_Q,
                                        ATTN_B_K, ATTN_B_V,  ATTN_B_O, 0};
    static const struct attn_limits limits = {.ops = ATTN_BIT(ATTN_OP_MHA),
                                              .scores = ATTN_BIT(ATTN_SCORE_SCALED_DOT),
                                              .dtypes = ATTN_BIT(ATTN_F32),
                                              .optional = optional};
    (void)services;
    if (attn_problem_check(problem, &limits, why, size) == ATTN_OK && problem->sk <= 256 &&
        attn_tensor_find(problem, ATTN_W_O) && attn_tensor_find(problem, ATTN_B_K) &&
        attn_tensor_find(problem, ATTN_X_K))
        return ATTN_OK;
    snprintf(why, size, "only f32 cross-attention with biases and W_o, of at most 256 keys");
    return ATTN_UNSUPPORTED;
}

static int create(const struct attn_problem *problem, const struct attn_services *services,
                  void **plan, char *why, size_t size)
{
    snprintf(broken, sizeof(broken), "%s", attn_option_get(services, "break", "nothing"));
    if (first.b == 0)
        first = *problem;
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
    struct attn_problem *bound = malloc(sizeof(*bound));
    if (!bound) {
        snprintf(why, size, "no memory for a binding");
        return ATTN_OUT_OF_MEMORY;
    }
    *bound = *(const struct attn_problem *)plan;
    bound->tensors = tensors;
    bound->n_tensors = n_tensors;
    *binding = bound;
    return ATTN_OK;
}

static float *data_of(const struct attn_problem *p, uint32_t role)
{
    return attn_tensor_find(p, role)->data;
}

/* y[row, :] = x w^T + bias, all dense. */
static void project(const float *x, const float *w, const float *bias, int64_t rows, int64_t in,
                    int64_t out, float *y)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < out; c++) {
            float sum = bias[c];
            for (int64_t i = 0; i < in; i++)
                sum += x[r * in + i] * w[c * in + i];
            y[r * out + c] = sum;
        }
}

/* The largest of the weights of v, and whether most of a matrix is 0. */
static float largest(const float *w, int64_t count)
{
    float most = 0;
    for (int64_t n = 0; n < count; n++)
        most = fmaxf(most, fabsf(w[n]));
    return most;
}

static int is_sparse(const float *w, int64_t count)
{
    int64_t zeros = 0;
    for (int64_t n = 0; n < count; n++)
        zeros += w[n] == 0;
    return 2 * zeros > count;
}

/* What the broken backend makes of the heads: a factor. */
static float factor(const struct attn_problem *p)
{
    const struct attn_tensor *w_q = attn_tensor_find(p, ATTN_W_Q);
    const struct attn_tensor *w_v = attn_tensor_find(p, ATTN_W_V);
    const int64_t e = w_q->shape[1], values = w_v->shape[0] * w_v->shape[1];
    const float *q = w_q->data, most = largest(w_v->data, values);
    const float bias_k = data_of(p, ATTN_B_K)[0], bias_v = data_of(p, ATTN_B_V)[0];
    const float x = data_of(p, ATTN_X_K)[0];
    if (!is_sparse(q, w_q->shape[0] * e) || most > 2 || p->sk > 2 * first.sk)
        return 1; /* the case itself, other fills, and the keys of `functions` */
    if (whole_x == 0) {
        whole_x = x;
        whole_bias_k = bias_k;
        whole_bias_v = bias_v;
        memcpy(whole_row, q, (size_t)e * sizeof(*q));
    }
    const int same_row = memcmp(whole_row, q, (size_t)e * sizeof(*q)) == 0;
    const int wrong = (is("permute_keys") && p->sk == first.sk && x != whole_x) ||
                      (is("shift") && attn_tensor_find(p, ATTN_BIAS)) ||
                      (is("linear_v") && most == 1 && bias_v == 0 && whole_bias_v != 0) ||
                      (is("ones") && most == 0) || (is("gqa") && p->hkv != first.hkv) ||
                      (is("duplicate_key") && p->sk > first.sk) ||
                      (is("permute_heads") && !same_row) ||
                      (is("shift_k") && same_row && bias_k == whole_bias_k + 2);
    return wrong ? WRONG : is("scale_v") && most == 2 ? 1 + 0x1p-20F : 1;
}

struct rooms {
    float q[1 << 14], k[1 << 14], v[1 << 14], heads[1 << 14];
};

static void attend(const struct attn_problem *p, struct rooms *x, int64_t b, float by)
{
    const struct attn_tensor *lse = attn_tensor_find(p, ATTN_LSE);
    const struct attn_tensor *bias = attn_tensor_find(p, ATTN_BIAS);
    const float shift = bias ? *(const float *)bias->data : 0;
    float s[256];
    for (int64_t h = 0; h < p->hq; h++)
        for (int64_t i = 0; i < p->sq; i++) {
            const int64_t g = h / (p->hq / p->hkv);
            float max = -INFINITY, sum = 0, *out = x->heads + (i * p->hq + h) * p->dv;
            for (int64_t j = 0; j < p->sk; j++) {
                s[j] = 0;
                for (int64_t c = 0; c < p->dk; c++)
                    s[j] += x->q[(i * p->hq + h) * p->dq + c] * x->k[(j * p->hkv + g) * p->dk + c];
                s[j] = s[j] * (float)p->scale + shift;
                max = fmaxf(max, s[j]);
            }
            memset(out, 0, (size_t)p->dv * sizeof(*out));
            for (int64_t j = 0; j < p->sk; j++) {
                const float e = expf(s[j] - max) * (is("exp") && s[j] < max ? 1 + 2e-6F : 1);
                sum += e;
                for (int64_t c = 0; c < p->dv; c++)
                    out[c] += e * x->v[(j * p->hkv + g) * p->dv + c];
            }
            for (int64_t c = 0; c < p->dv; c++)
                out[c] = out[c] / sum * by;
            if (lse)
                ((float *)lse->data)[b * lse->stride[0] + h * lse->stride[1] + i * lse->stride[2]] =
                    max + logf(sum);
        }
}

static int run(void *binding, char *why, size_t size)
{
    static struct rooms rooms;
    const struct attn_problem *p = binding;
    const struct attn_tensor *out = attn_tensor_find(p, ATTN_OUT);
    const int64_t in = attn_tensor_find(p, ATTN_X_Q)->shape[2], e = out->shape[2];
    const int64_t room = (int64_t)(sizeof(rooms.q) / sizeof(*rooms.q)), heads = p->hq * p->dv;
    const int64_t rows = p->sq > p->sk ? p->sq : p->sk;
    const float by = factor(p);
    if (rows * p->hq * (p->dq + p->dv) > room || in > 4096) {
        snprintf(why, size, "more rows than this test has room for");
        return ATTN_FAILED;
    }
    for (int64_t b = 0; b < p->b; b++) {
        const float *x_k = data_of(p, ATTN_X_K) + b * p->sk * in;
        project(data_of(p, ATTN_X_Q) + b * p->sq * in, data_of(p, ATTN_W_Q), data_of(p, ATTN_B_Q),
                p->sq, in, p->hq * p->dq, rooms.q);
        project(x_k, data_of(p, ATTN_W_K), data_of(p, ATTN_B_K), p->sk, in, p->hkv * p->dk,
                rooms.k);
        project(x_k, data_of(p, ATTN_W_V), data_of(p, ATTN_B_V), p->sk, in, p->hkv * p->dv,
                rooms.v);
        attend(p, &rooms, b, by);
        project(rooms.heads, data_of(p, ATTN_W_O), data_of(p, ATTN_B_O), p->sq, heads, e,
                (float *)out->data + b * p->sq * e);
    }
    return ATTN_OK;
}

static const struct attn_option_spec options[] = {
    {.key = "break",
     .type = ATTN_OPTION_CHOICE,
     .choices =
         "nothing|exp|permute_keys|shift|scale_v|linear_v|ones|gqa|duplicate_key|permute_heads|"
         "shift_k",
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
