/* SPDX-License-Identifier: Apache-2.0 */
/* plugin.c - the backend op_mutant: plans, bindings and the table of slots. */
#include <stdio.h>
#include <string.h>

#include "op_mutant.h"

enum op_mutant_bug op_mutant_planted;

static const struct op_mutant *const operators[] = {
    &op_mutant_wkv,     &op_mutant_linear_decay, &op_mutant_places,  &op_mutant_performer,
    &op_mutant_weights, &op_mutant_longformer,   &op_mutant_chunked, &op_mutant_linformer,
    &op_mutant_nystrom, &op_mutant_lsh,          &op_mutant_backward};

struct plan {
    const struct attn_problem *problem;
    const struct attn_services *services;
    const struct op_mutant *mutant;
    float *memory;
};

struct binding {
    struct plan *plan;
    struct attn_operands operands;
};

static const char *const names[] = {"none",
#define BUG(name, types, cases, text) #name,
                                    OP_MUTANT_BUGS
#undef BUG
#define RIGHT(name, cases, text) #name,
                                        OP_MUTANT_RIGHT
#undef RIGHT
};

static const struct attn_option_spec options[] = {{
    .key = "bug",
    .type = ATTN_OPTION_CHOICE,
#define BUG(name, types, cases, text) "|" #name
#define RIGHT(name, cases, text)      "|" #name
    .choices = "none" OP_MUTANT_BUGS OP_MUTANT_RIGHT,
#undef RIGHT
#undef BUG
    .default_value = "none",
    .help = "what is wrong with it",
}};

static const uint32_t optional[] = {
    ATTN_BONUS,    ATTN_STATE_IN, ATTN_STATE_OUT, ATTN_BIAS,    ATTN_LEN,         ATTN_REL_POS,
    ATTN_KEEP,     ATTN_GATE,     ATTN_LSE,       ATTN_GLOBAL,  ATTN_DILATION,    ATTN_Q_GLOBAL,
    ATTN_K_GLOBAL, ATTN_V_GLOBAL, ATTN_PROJ_F,    ATTN_BUCKETS, ATTN_BUCKETS_OUT, 0};

static const struct attn_limits limits = {
    .ops = ATTN_BIT(ATTN_OP_WKV) | ATTN_BIT(ATTN_OP_LINEAR_DECAY) | ATTN_BIT(ATTN_OP_ATTENTION) |
           ATTN_BIT(ATTN_OP_PERFORMER) | ATTN_BIT(ATTN_OP_CHUNKED) | ATTN_BIT(ATTN_OP_LINFORMER) |
           ATTN_BIT(ATTN_OP_NYSTROM) | ATTN_BIT(ATTN_OP_LSH),
    .scores = ATTN_BIT(ATTN_SCORE_SCALED_DOT) | ATTN_BIT(ATTN_SCORE_DISENTANGLED),
    .dtypes = ATTN_BIT(ATTN_F32) | ATTN_BIT(ATTN_F16) | ATTN_BIT(ATTN_BF16),
    .flags = ATTN_FLAG_CAUSAL | ATTN_FLAG_DETERMINISTIC | ATTN_FLAG_OFF_BR | ATTN_FLAG_DROPOUT |
             ATTN_FLAG_WEIGHT | ATTN_FLAG_WINDOW,
    .optional = optional,
    .no_dtype = "sums are f32",
};

float op_mutant_get(const struct attn_tensor *tensor, int64_t at)
{
    if (tensor->dtype == ATTN_F32)
        return ((const float *)tensor->data)[at];
    const uint16_t bits = ((const uint16_t *)tensor->data)[at];
    return tensor->dtype == ATTN_F16 ? attn_f32_of_f16(bits) : attn_f32_of_bf16(bits);
}

void op_mutant_put(const struct attn_tensor *tensor, int64_t at, float value)
{
    if (tensor->dtype == ATTN_F32)
        ((float *)tensor->data)[at] = value;
    else
        ((uint16_t *)tensor->data)[at] =
            tensor->dtype == ATTN_F16 ? attn_f16_of_f32(value) : attn_bf16_of_f32(value);
}

float op_mutant_bf16(float x)
{
    return attn_f32_of_bf16(attn_bf16_of_f32(x));
}

static int accepts(const struct op_mutant *mutant, const struct attn_problem *problem, char *why,
                   size_t size)
{
    struct attn_limits own = limits;
    own.ops = ATTN_BIT(mutant->op);
    own.scores = ATTN_BIT(mutant->score ? mutant->score : ATTN_SCORE_SCALED_DOT);
    if (mutant->takes) {
        own.optional = mutant->takes;
        own.flags = mutant->flags | ATTN_FLAG_DETERMINISTIC;
    }
    return attn_problem_check(problem, &own, why, size);
}

/* The first operator that takes the problem; NULL with the last reason: none does. */
static const struct op_mutant *mutant_of(const struct attn_problem *problem, char *why, size_t size)
{
    snprintf(why, size, "this operator is not implemented");
    for (size_t n = 0; n < sizeof(operators) / sizeof(operators[0]); n++)
        if (operators[n]->op == problem->op && accepts(operators[n], problem, why, size) == ATTN_OK)
            return operators[n];
    return NULL;
}

static int supports(const struct attn_problem *problem, const struct attn_services *services,
                    char *why, size_t size)
{
    (void)services;
    return mutant_of(problem, why, size) ? ATTN_OK : ATTN_UNSUPPORTED;
}

static int create(const struct attn_problem *problem, const struct attn_services *services,
                  void **out, char *why, size_t size)
{
    const char *wanted = attn_option_get(services, "bug", "none");
    struct plan *plan = services->alloc(services->context, sizeof(*plan), 64);
    for (size_t n = 0; n < sizeof(names) / sizeof(names[0]); n++)
        if (strcmp(names[n], wanted) == 0)
            op_mutant_planted = (enum op_mutant_bug)n;
    if (!plan)
        goto refused;
    *plan = (struct plan){
        .problem = problem, .services = services, .mutant = mutant_of(problem, why, size)};
    const size_t bytes = (size_t)plan->mutant->floats(problem) * sizeof(float);
    plan->memory = services->alloc(services->context, bytes, 64);
    if (plan->memory) {
        *out = plan;
        return ATTN_OK;
    }
    services->free(services->context, plan);
refused:
    snprintf(why, size, "no memory for a plan");
    return ATTN_OUT_OF_MEMORY;
}

/* The truth about bug=none. exp and log are glibc's: 1 ulp by its manual, tanh 2, erfc at
 * most 6; twice that is declared. lsh merges its rounds by their lse. */
static void numerics(const void *opaque, struct attn_numerics *numerics)
{
    const struct plan *plan = opaque;
    numerics->acc_type = ATTN_F32;
    numerics->splits = plan->problem->op == ATTN_OP_LSH ? plan->problem->rounds : 0;
    numerics->deterministic = 1;
    numerics->proj_type = ATTN_F32;
    numerics->e_exp = numerics->e_log = 4 * 0x1p-24;
    if (plan->problem->op == ATTN_OP_LINEAR_DECAY && op_mutant_in_chunks())
        numerics->decay_chunk = OP_MUTANT_CHUNK;
    if (bug(decay_in_chunks_f16))
        numerics->state_type = ATTN_F16;
    numerics->e_tanh = 8 * 0x1p-24;
    if (plan->problem->weight_fn == ATTN_WEIGHT_SIGMOID)
        numerics->e_f = 8 * 0x1p-24;
    if (plan->problem->weight_fn == ATTN_WEIGHT_LAPLACE)
        numerics->e_f = 24 * 0x1p-24;
}

static int bind(void *opaque, const struct attn_tensor *tensors, uint32_t n_tensors, void **out,
                char *why, size_t size)
{
    struct plan *plan = opaque;
    struct binding *made = plan->services->alloc(plan->services->context, sizeof(*made), 64);
    if (!made) {
        snprintf(why, size, "no memory for a binding");
        return ATTN_OUT_OF_MEMORY;
    }
    made->plan = plan;
    attn_operands_set(&made->operands, tensors, n_tensors);
    *out = made;
    return ATTN_OK;
}

/* NOLINTNEXTLINE(readability-non-const-parameter): the table fixes the type */
static int run(void *opaque, char *why, size_t size)
{
    const struct binding *b = opaque;
    (void)why, (void)size;
    b->plan->mutant->run(b->plan->problem, &b->operands, b->plan->memory);
    return ATTN_OK;
}

static void release(void *binding)
{
    const struct attn_services *services = ((struct binding *)binding)->plan->services;
    services->free(services->context, binding);
}

static void destroy(void *opaque)
{
    struct plan *plan = opaque;
    const struct attn_services *services = plan->services;
    services->free(services->context, plan->memory);
    services->free(services->context, plan);
}

static const struct attn_backend backend = {
    .struct_size = sizeof(struct attn_backend),
    .exactness = ATTN_EXACT,
    .name = "op_mutant",
    .description = "operators with one bug of choice, for the tests of the verifier",
    .options = options,
    .n_options = sizeof(options) / sizeof(options[0]),
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
