/* SPDX-License-Identifier: Apache-2.0 */
/* relations.c - plain attention with most features, and an option that breaks it in one way. Each
 * fault stays within the bound on the case itself, and shows when the backend is compared with
 * itself. */
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "attnbench/problem.h"
#include "base.h"

#define WRONG 1.01F /* beyond every allowance on the sizes tried */

static char broken[32];                 /* the option */
static uint32_t threads;                /* that the host offers */
static struct attn_problem first;       /* sizes of the first plan of the process */
static float first_q, first_k, first_v; /* and its first elements of q, k and v */
static int runs;                        /* of the plan */

static void *volatile lost; /* what was allocated last, and is not freed */

static int is(const char *name)
{
    return strcmp(broken, name) == 0;
}

static int supports(const struct attn_problem *problem, const struct attn_services *services,
                    char *why, size_t size)
{
    static const uint32_t optional[] = {ATTN_LSE, ATTN_BIAS, ATTN_LEN, ATTN_MASK, 0};
    static const struct attn_limits limits = {
        .ops = ATTN_BIT(ATTN_OP_ATTENTION),
        .scores = ATTN_BIT(ATTN_SCORE_SCALED_DOT) | ATTN_BIT(ATTN_SCORE_BILINEAR) |
                  ATTN_BIT(ATTN_SCORE_GAUSSIAN) | ATTN_BIT(ATTN_SCORE_ADDITIVE),
        .dtypes = ATTN_BIT(ATTN_F32),
        .flags = ATTN_FLAG_CAUSAL | ATTN_FLAG_DROPOUT | ATTN_FLAG_SOFTCAP | ATTN_FLAG_WEIGHT,
        .optional = optional};
    (void)services;
    if (attn_problem_check(problem, &limits, why, size) == ATTN_OK &&
        problem->weight_fn != ATTN_WEIGHT_LAPLACE)
        return ATTN_OK;
    snprintf(why, size,
             "only f32 attention, causal, with softcap, lengths, mask, bias, dropout, "
             "sigmoid and relu2");
    return ATTN_UNSUPPORTED;
}

static void *sleep_for_ever(void *argument)
{
    for (;;)
        pause();
    return argument;
}

static int create(const struct attn_problem *problem, const struct attn_services *services,
                  void **plan, char *why, size_t size)
{
    pthread_t thread;
    snprintf(broken, sizeof(broken), "%s", attn_option_get(services, "break", "nothing"));
    threads = services->threads;
    runs = 0;
    if (first.b == 0)
        first = *problem;
    if (is("leak_descriptor") && open("/dev/null", O_RDONLY | O_CLOEXEC) < 0)
        return ATTN_FAILED;
    if (is("leak_mapping") &&
        mmap(NULL, 1 << 24, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED)
        return ATTN_FAILED;
    if (is("grow_plan"))
        lost = calloc(1, 40000);
    if (is("leak_thread") && pthread_create(&thread, NULL, sleep_for_ever, NULL) != 0)
        return ATTN_FAILED;
    return base_create(problem, services, plan, why, size);
}

static void numerics(const void *plan, struct attn_numerics *n)
{
    base_numerics(plan, n);
    n->deterministic = 1;
    n->e_log = 0x1p-23;
    n->e_tanh = 0x1p-22;
    n->e_f = 0x1p-20;
    if (is("batch_bits"))
        n->invariant = ATTN_INVARIANT_BATCH;
    if (is("threads_bits"))
        n->invariant = ATTN_INVARIANT_THREADS;
}

static const float *row(const struct attn_tensor *t, int64_t b, int64_t h, int64_t i)
{
    return (const float *)t->data + b * t->stride[0] + h * t->stride[1] + i * t->stride[2];
}

static uint32_t multiply(uint32_t a, uint32_t b, uint32_t *low)
{
    const uint64_t product = (uint64_t)a * b;
    *low = (uint32_t)product;
    return (uint32_t)(product >> 32);
}

/* Philox4x32-10, as backend.h says. */
static int keeps(const struct attn_problem *p, uint64_t index)
{
    uint32_t x[4] = {(uint32_t)index, (uint32_t)(index >> 32), 0, 0};
    uint32_t key[2] = {(uint32_t)p->dropout_seed, (uint32_t)(p->dropout_seed >> 32)};
    for (int round = 0; round < 10; round++) {
        uint32_t low[2];
        const uint32_t high[] = {multiply(0xD2511F53, x[0], &low[0]),
                                 multiply(0xCD9E8D57, x[2], &low[1])};
        x[0] = high[1] ^ x[1] ^ key[0];
        x[1] = low[1];
        x[2] = high[0] ^ x[3] ^ key[1];
        x[3] = low[0];
        key[0] += 0x9E3779B9;
        key[1] += 0xBB67AE85;
    }
    return (x[0] >> 8) * 0x1p-24 >= p->dropout_p;
}

/* Row r of a score parameter of head h; both may be shared by all heads. */
static const float *parameter(const struct attn_problem *p, uint32_t role, int64_t h, int64_t r)
{
    const struct attn_tensor *t = attn_tensor_find(p, role);
    return (const float *)t->data + h * t->stride[0] + r * t->stride[1];
}

static float dot(const float *x, const float *y, int64_t n)
{
    float sum = 0;
    for (int64_t c = 0; c < n; c++)
        sum += x[c] * y[c];
    return sum;
}

static float raw_score(const struct attn_problem *p, int64_t h, const float *q, const float *k)
{
    float sum = 0;
    if (p->score == ATTN_SCORE_BILINEAR)
        for (int64_t c = 0; c < p->dq; c++)
            sum += q[c] * dot(parameter(p, ATTN_SCORE_M, h, c), k, p->dk);
    else if (p->score == ATTN_SCORE_GAUSSIAN)
        for (int64_t c = 0; c < p->dk; c++)
            sum -= 0.5F * (q[c] - k[c]) * (q[c] - k[c]);
    else if (p->score == ATTN_SCORE_ADDITIVE)
        for (int64_t u = 0; u < p->dh; u++)
            sum += *parameter(p, ATTN_SCORE_WV, h, u) *
                   tanhf(dot(parameter(p, ATTN_SCORE_WQ, h, u), q, p->dq) +
                         dot(parameter(p, ATTN_SCORE_WK, h, u), k, p->dk)) *
                   (is("tanh") ? 1 + 5e-6F : 1);
    else
        sum = dot(q, k, p->dk);
    return sum;
}

/* A row's scores, -inf where a key may not be seen. Returns the largest. */
static float score_row(const struct attn_problem *p, int64_t b, int64_t h, int64_t i, float *s)
{
    const struct attn_tensor *bias = attn_tensor_find(p, ATTN_BIAS);
    const struct attn_tensor *len = attn_tensor_find(p, ATTN_LEN);
    const struct attn_tensor *mask = attn_tensor_find(p, ATTN_MASK);
    const float *q = row(attn_tensor_find(p, ATTN_Q), b, h, i);
    const int64_t valid = len ? ((const int32_t *)len->data)[b] : p->sk;
    float max = -INFINITY;
    for (int64_t j = 0; j < p->sk; j++) {
        const float *k = row(attn_tensor_find(p, ATTN_K), b, h / (p->hq / p->hkv), j);
        s[j] = raw_score(p, h, q, k) * (float)p->scale;
        if (p->flags & ATTN_FLAG_SOFTCAP)
            s[j] =
                (float)p->softcap * tanhf(s[j] / (float)p->softcap) * (is("tanh") ? 1 + 2e-6F : 1);
        if (bias)
            s[j] += row(bias, b, h, i)[j * bias->stride[3]];
        const int seen =
            !mask || ((const uint8_t *)mask->data)[b * mask->stride[0] + h * mask->stride[1] +
                                                   i * mask->stride[2] + j * mask->stride[3]];
        if (!seen || j >= valid || (p->flags & ATTN_FLAG_CAUSAL && j > i + p->off))
            s[j] = -INFINITY;
        max = fmaxf(max, s[j]);
    }
    return max;
}

/* The weight of a score; with a softmax before it is divided. */
static float weight(const struct attn_problem *p, float s, float max)
{
    if (p->weight_fn == ATTN_WEIGHT_RELU2)
        return s > 0 ? s * s : 0;
    if (p->weight_fn == ATTN_WEIGHT_SIGMOID)
        return 1 / (1 + expf(-s));
    return expf(s - max) * (is("exp") && s < max ? 1 + 2e-6F : 1);
}

/* What the broken backend makes of a row: a factor. */
static float factor(const struct attn_problem *p, int64_t b, int64_t h)
{
    const struct attn_tensor *k = attn_tensor_find(p, ATTN_K), *v = attn_tensor_find(p, ATTN_V);
    const float *v0 = row(v, b, h / (p->hq / p->hkv), 0);
    const float *last = row(k, b, h / (p->hq / p->hkv), p->sk - 1);
    const int wrong =
        (is("permute_queries") && row(attn_tensor_find(p, ATTN_Q), 0, 0, 0)[0] != first_q) ||
        (is("permute_keys") && row(k, 0, 0, 0)[0] != first_k) ||
        (is("shift") && attn_tensor_find(p, ATTN_BIAS)) ||
        (is("linear_v") && p->sk > 1 && v0[v->stride[2]] == 0 && v0[0] != 0) ||
        (is("gqa") && p->hkv != first.hkv) || (is("batch") && p->b != first.b) ||
        (is("duplicate_key") && p->sk > first.sk) || (is("threads") && threads > 1) ||
        (is("ones") && v0[0] == 1 && v0[1] == 1) ||
        (is("no_denominator") && p->flags & ATTN_FLAG_WEIGHT && p->sk % 8 == 0);
    const int barely = (is("scale_v") && v0[0] == -first_v && first_v != 0) ||
                       (is("rerun") && runs > 2) || (is("batch_bits") && p->b != first.b) ||
                       (is("threads_bits") && threads > 1);
    if (is("causal_prefix"))
        return 1 / (1 + 2e-7F * fabsf(last[0]));
    return wrong ? WRONG : barely ? 1 + 0x1p-22F : 1;
}

static void attend_row(const struct attn_problem *p, int64_t b, int64_t h, int64_t i, float *s,
                       float by)
{
    const struct attn_tensor *v = attn_tensor_find(p, ATTN_V);
    const struct attn_tensor *lse = attn_tensor_find(p, ATTN_LSE);
    float *out = (float *)(uintptr_t)row(attn_tensor_find(p, ATTN_OUT), b, h, i);
    const int64_t index = ((b * p->hq + h) * p->sq + i) * p->sk;
    const float max = score_row(p, b, h, i, s), scale = (float)(1 / (1 - p->dropout_p));
    const int counted = p->sk > 0 && row(attn_tensor_find(p, ATTN_K), 0, 0, 0)[0] == 0;
    float sum = 0;
    for (int64_t c = 0; c < p->dv; c++)
        out[c] = 0;
    for (int64_t j = 0; j < p->sk && max > -INFINITY; j++) {
        if (s[j] == -INFINITY)
            continue;
        const float e = weight(p, s[j], max);
        sum += e;
        if (p->flags & ATTN_FLAG_DROPOUT &&
            (!keeps(p, (uint64_t)(index + j)) || (is("keep") && counted && j == 7)))
            continue;
        const float *value = row(v, b, h / (p->hq / p->hkv), j);
        for (int64_t c = 0; c < p->dv; c++)
            out[c] += e * scale * value[c];
    }
    for (int64_t c = 0; c < p->dv && sum > 0; c++)
        out[c] = out[c] / (p->flags & ATTN_FLAG_WEIGHT ? 1 : sum) * by;
    if (lse)
        ((float *)lse->data)[b * lse->stride[0] + h * lse->stride[1] + i * lse->stride[2]] =
            max + logf(sum) * (is("log") ? 1 + 9e-7F : 1) +
            (is("split") && p->sk < first.sk ? 0.01F * (float)(i % 2) : 0);
}

static int run(void *binding, char *why, size_t size)
{
    static float scores[4096];
    const struct base_binding *base = binding;
    const struct attn_problem *p = &base->problem;
    if (p->sk > 4096) {
        snprintf(why, size, "more keys than this test has room for");
        return ATTN_FAILED;
    }
    runs++;
    if (is("grow_run"))
        lost = calloc(1, 256);
    if (first_k == 0 && p->sk > 0) {
        first_q = base->q[0];
        first_k = base->k[0];
        first_v = base->v[0];
    }
    for (int64_t b = 0; b < p->b; b++)
        for (int64_t h = 0; h < p->hq; h++) {
            const float by = p->sk > 0 ? factor(p, b, h) : 1;
            for (int64_t i = 0; i < p->sq; i++)
                attend_row(p, b, h, i, scores, by);
        }
    return ATTN_OK;
}

static const struct attn_option_spec options[] = {
    {.key = "break",
     .type = ATTN_OPTION_CHOICE,
     .choices =
         "nothing|permute_keys|permute_queries|shift|scale_v|linear_v|ones|causal_prefix|gqa|batch|"
         "batch_bits|split|duplicate_key|keep|threads|threads_bits|rerun|leak_thread|"
         "leak_descriptor|leak_mapping|grow_plan|grow_run|exp|tanh|log|no_denominator",
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
                                            .bind = base_bind,
                                            .run = run,
                                            .release = base_release,
                                            .destroy = base_destroy};
static const struct attn_backend *const table[] = {&backend};
const struct attn_plugin attn_plugin = {BASE_PLUGIN(table)};
