/* SPDX-License-Identifier: Apache-2.0 */
/* naive.c - the naive backend: plan, bindings, and the table of slots. */
#include <gnu/libc-version.h>
#include <stdio.h>

#include "naive.h"

struct plan {
    const struct attn_problem *problem;
    const struct attn_services *services;
    void *workspace;
};

struct binding {
    struct plan *plan;
    struct attn_operands operands;
};

/* All that there is. */
static const uint32_t optional[] = {ATTN_LSE,
                                    ATTN_WEIGHTS,
                                    ATTN_MASK,
                                    ATTN_BIAS,
                                    ATTN_LEN,
                                    ATTN_ALIBI,
                                    ATTN_SINK,
                                    ATTN_KEEP,
                                    ATTN_HEAD_MASK,
                                    ATTN_X_K,
                                    ATTN_X_V,
                                    ATTN_W_O,
                                    ATTN_B_Q,
                                    ATTN_B_K,
                                    ATTN_B_V,
                                    ATTN_B_O,
                                    ATTN_BONUS,
                                    ATTN_STATE_IN,
                                    ATTN_STATE_OUT,
                                    ATTN_REL_POS,
                                    ATTN_GATE,
                                    ATTN_GLOBAL,
                                    ATTN_DILATION,
                                    ATTN_Q_GLOBAL,
                                    ATTN_K_GLOBAL,
                                    ATTN_V_GLOBAL,
                                    ATTN_PROJ_F,
                                    ATTN_BUCKETS,
                                    ATTN_BUCKETS_OUT,
                                    ATTN_GRAD_BIAS,
                                    ATTN_GRAD_SINK,
                                    ATTN_GRAD_ALIBI,
                                    ATTN_GRAD_Q,
                                    ATTN_GRAD_K,
                                    ATTN_GRAD_V,
                                    ATTN_GRAD_LSE,
                                    0};

static const struct attn_limits limits = {
    .ops = ATTN_BIT(ATTN_OP_ATTENTION) | ATTN_BIT(ATTN_OP_MHA) | ATTN_BIT(ATTN_OP_WKV) |
           ATTN_BIT(ATTN_OP_LINEAR_DECAY) | ATTN_BIT(ATTN_OP_PERFORMER) |
           ATTN_BIT(ATTN_OP_CHUNKED) | ATTN_BIT(ATTN_OP_LINFORMER) | ATTN_BIT(ATTN_OP_NYSTROM) |
           ATTN_BIT(ATTN_OP_LSH) | ATTN_BIT(ATTN_OP_ATTENTION_BACKWARD),
    .scores = ATTN_BIT(ATTN_SCORE_SCALED_DOT) | ATTN_BIT(ATTN_SCORE_DOT) |
              ATTN_BIT(ATTN_SCORE_BILINEAR) | ATTN_BIT(ATTN_SCORE_GAUSSIAN) |
              ATTN_BIT(ATTN_SCORE_ADDITIVE) | ATTN_BIT(ATTN_SCORE_DISENTANGLED),
    .dtypes = ATTN_BIT(ATTN_F64) | ATTN_BIT(ATTN_F32) | ATTN_BIT(ATTN_F16) | ATTN_BIT(ATTN_BF16),
    .flags = ATTN_FLAG_CAUSAL | ATTN_FLAG_WINDOW | ATTN_FLAG_OFF_BR | ATTN_FLAG_SOFTCAP |
             ATTN_FLAG_DROPOUT | ATTN_FLAG_RESIDUAL | ATTN_FLAG_DETERMINISTIC | ATTN_FLAG_WEIGHT,
    .optional = optional,
};

static void version(char *text, size_t size)
{
    snprintf(text, size, "glibc %s (exp, tanh, log, erfc)", gnu_get_libc_version());
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
    size_t bytes =
        problem->dtype == ATTN_F64 ? attn_naive_bytes_f64(problem) : attn_naive_bytes_f32(problem);
    if (bytes == SIZE_MAX) {
        snprintf(why, size, "the workspace's size overflows");
        return ATTN_OUT_OF_MEMORY;
    }
    struct plan *made = services->alloc(services->context, sizeof(*made), 64);
    void *workspace = services->alloc(services->context, bytes, 64);
    if (!made || !workspace) {
        snprintf(why, size, "no memory for a workspace of %zu bytes", bytes);
        goto fail;
    }
    *made = (struct plan){problem, services, workspace};
    *plan = made;
    return ATTN_OK;

fail:
    if (workspace)
        services->free(services->context, workspace);
    if (made)
        services->free(services->context, made);
    return ATTN_OUT_OF_MEMORY;
}

/* glibc 2.36's manual, "Known Maximum Errors in Math Functions", x86_64: exp, expf, log, logf 1
 * ulp, tanh, tanhf 2 ulp, erfc, erfcf at most 6 ulp. An ulp is at most 2u relative; twice the
 * documented maximum is declared, because a later libm may differ. */
static void numerics(const void *plan, struct attn_numerics *numerics)
{
    const struct plan *p = plan;
    int is_f64 = p->problem->dtype == ATTN_F64;
    double u = is_f64 ? 0x1p-53 : 0x1p-24;
    uint32_t type = is_f64 ? ATTN_F64 : ATTN_F32;
    numerics->acc_type = type;
    numerics->score_type = type;
    numerics->p_type = type;
    numerics->proj_type = type;
    numerics->p_normalised = 1;
    numerics->denominator = 1;
    numerics->empty_row = ATTN_EMPTY_ZERO;
    numerics->deterministic = 1;
    numerics->invariant = ATTN_INVARIANT_BATCH | ATTN_INVARIANT_THREADS;
    numerics->e_exp = 4 * u;
    numerics->e_tanh = 8 * u;
    numerics->e_log = 4 * u;
    numerics->bwd_delta = p->problem->op == ATTN_OP_ATTENTION_BACKWARD;
    if (p->problem->weight_fn == ATTN_WEIGHT_SIGMOID) /* an exp, a sum and a quotient */
        numerics->e_f = 8 * u;
    if (p->problem->weight_fn == ATTN_WEIGHT_LAPLACE)
        numerics->e_f = 24 * u;
}

static int bind(void *plan, const struct attn_tensor *tensors, uint32_t n_tensors, void **binding,
                char *why, size_t size)
{
    struct plan *p = plan;
    struct binding *made = p->services->alloc(p->services->context, sizeof(*made), 64);
    if (!made) {
        snprintf(why, size, "no memory for a binding of %zu bytes", sizeof(*made));
        return ATTN_OUT_OF_MEMORY;
    }
    *made = (struct binding){.plan = p};
    attn_operands_set(&made->operands, tensors, n_tensors);
    *binding = made;
    return ATTN_OK;
}

static int run(void *binding, char *why, size_t size)
{
    (void)why, (void)size;
    struct binding *b = binding;
    if (b->plan->problem->dtype == ATTN_F64)
        attn_naive_run_f64(b->plan->problem, &b->operands, b->plan->workspace);
    else
        attn_naive_run_f32(b->plan->problem, &b->operands, b->plan->workspace);
    return ATTN_OK;
}

static void release(void *binding)
{
    const struct attn_services *services = ((struct binding *)binding)->plan->services;
    services->free(services->context, binding);
}

static const char *path_of(uint32_t op)
{
    switch (op) {
    case ATTN_OP_WKV:
    case ATTN_OP_LINEAR_DECAY:
        return "step by step";
    case ATTN_OP_CHUNKED:
        return "chunk by chunk";
    case ATTN_OP_ATTENTION_BACKWARD:
        return "row by row, delta from p";
    case ATTN_OP_PERFORMER:
        return "features of the keys, then a state";
    default:
        return "three passes per row";
    }
}

static void describe(const void *plan, char *text, size_t size)
{
    const struct plan *p = plan;
    snprintf(text, size, "%s, sums in %s, one thread", path_of(p->problem->op),
             p->problem->dtype == ATTN_F64 ? "f64" : "f32");
}

static void destroy(void *plan)
{
    struct plan *p = plan;
    const struct attn_services *services = p->services;
    services->free(services->context, p->workspace);
    services->free(services->context, p);
}

static const struct attn_backend backend = {
    .struct_size = sizeof(struct attn_backend),
    .exactness = ATTN_EXACT,
    .name = "naive",
    .description = "plain C, three passes per row, the whole operator",
    .version = version,
    .supports = supports,
    .create = create,
    .numerics = numerics,
    .bind = bind,
    .run = run,
    .release = release,
    .describe = describe,
    .destroy = destroy,
};

static const struct attn_backend *const backends[] = {&backend};

const struct attn_plugin attn_plugin = {
    .abi_version = ATTN_ABI_VERSION,
    .struct_size = sizeof(struct attn_plugin),
    .n_backends = sizeof(backends) / sizeof(backends[0]),
    .backends = backends,
};
