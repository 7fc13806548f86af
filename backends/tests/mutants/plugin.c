/* SPDX-License-Identifier: Apache-2.0 */
/* plugin.c - the mutant backend: plans, bindings and the table of slots. */
#include <stdio.h>
#include <string.h>

#include "mutant.h"

enum mutant_bug mutant_planted;

/* Pieces of workspace of a plan: scratch of each thread, partial results, heads. */
enum { PIECES = 5 * MOST_THREADS + 5 };

struct plan {
    const struct attn_problem *problem;
    const struct attn_services *services;
    struct mutant_job job; /* without operands */
    void *pieces[PIECES];
    int n_pieces;
};

struct binding {
    struct plan *plan;
    struct mutant_job job;
};

static const char *const names[] = {"none",
#define BUG(name, class, types, cases, text) #name,
                                    MUTANT_BUGS
#undef BUG
};

static const struct attn_option_spec options[] = {{
    .key = "bug",
    .type = ATTN_OPTION_CHOICE,
#define BUG(name, class, types, cases, text) "|" #name
    .choices = "none" MUTANT_BUGS,
#undef BUG
    .default_value = "none",
    .help = "what is wrong with it",
}};

static const uint32_t optional[] = {
    ATTN_LSE,  ATTN_WEIGHTS, ATTN_MASK,      ATTN_BIAS, ATTN_LEN, ATTN_ALIBI,
    ATTN_SINK, ATTN_KEEP,    ATTN_HEAD_MASK, ATTN_X_K,  ATTN_X_V, ATTN_W_O,
    ATTN_B_Q,  ATTN_B_K,     ATTN_B_V,       ATTN_B_O,  0};

static const struct attn_limits limits = {
    .ops = ATTN_BIT(ATTN_OP_ATTENTION) | ATTN_BIT(ATTN_OP_MHA),
    .scores = ATTN_BIT(ATTN_SCORE_SCALED_DOT) | ATTN_BIT(ATTN_SCORE_DOT) |
              ATTN_BIT(ATTN_SCORE_BILINEAR) | ATTN_BIT(ATTN_SCORE_GAUSSIAN) |
              ATTN_BIT(ATTN_SCORE_ADDITIVE),
    .dtypes = ATTN_BIT(ATTN_F32) | ATTN_BIT(ATTN_F16) | ATTN_BIT(ATTN_BF16),
    .flags = ATTN_FLAG_CAUSAL | ATTN_FLAG_WINDOW | ATTN_FLAG_OFF_BR | ATTN_FLAG_SOFTCAP |
             ATTN_FLAG_DROPOUT | ATTN_FLAG_RESIDUAL | ATTN_FLAG_DETERMINISTIC,
    .optional = optional,
    .no_dtype = "sums are f32",
};

static int supports(const struct attn_problem *problem, const struct attn_services *services,
                    char *why, size_t size)
{
    (void)services;
    return attn_problem_check(problem, &limits, why, size);
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Counted memory for rows * columns floats, or NULL; a product that overflows asks for too much. */
static float *take(struct plan *plan, int64_t rows, int64_t columns)
{
    size_t bytes;
    if (__builtin_mul_overflow((uint64_t)rows, (uint64_t)columns, &bytes) ||
        __builtin_mul_overflow(bytes, sizeof(float), &bytes))
        return NULL;
    void *piece = plan->services->alloc(plan->services->context, bytes ? bytes : 1, 64);
    if (piece)
        plan->pieces[plan->n_pieces++] = piece;
    return piece;
}

static void destroy(void *opaque)
{
    struct plan *plan = opaque;
    const struct attn_services *services = plan->services;
    while (plan->n_pieces > 0)
        services->free(services->context, plan->pieces[--plan->n_pieces]);
    services->free(services->context, plan);
}

static bool take_all(struct plan *plan)
{
    struct mutant_job *job = &plan->job;
    const struct attn_problem *p = plan->problem;
    bool ok = true;
    for (int t = 0; t < job->threads; t++) {
        struct mutant_scratch *scratch = &job->scratch[t];
        ok = ok && (scratch->q = take(plan, QUERY_TILE, job->width)) &&
             (scratch->k = take(plan, KEY_TILE, job->width)) &&
             (scratch->v = take(plan, KEY_TILE, job->width)) &&
             (scratch->s = take(plan, QUERY_TILE, KEY_TILE)) &&
             (scratch->row = take(plan, 1, job->width));
    }
    const int64_t rows = p->b * p->hq * p->sq;
    ok = ok && (job->partial = take(plan, rows, job->splits * (p->dv + PARTIAL_OUT)));
    if (p->op == ATTN_OP_MHA)
        ok = ok && (job->heads_q = take(plan, p->b * p->sq, p->hq * p->dq)) &&
             (job->heads_k = take(plan, p->b * p->sk, p->hkv * p->dk)) &&
             (job->heads_v = take(plan, p->b * p->sk, p->hkv * p->dv)) &&
             (job->heads = take(plan, p->b * p->sq, p->hq * p->dv));
    return ok;
}

static int create(const struct attn_problem *problem, const struct attn_services *services,
                  void **out, char *why, size_t size)
{
    const char *wanted = attn_option_get(services, "bug", "none");
    for (size_t n = 0; n < sizeof(names) / sizeof(names[0]); n++)
        if (strcmp(names[n], wanted) == 0)
            mutant_planted = (enum mutant_bug)n;
    struct plan *plan = services->alloc(services->context, sizeof(*plan), 64);
    if (!plan)
        goto refused;
    const int64_t widest =
        larger(larger(problem->dq, problem->dk), larger(problem->dv, problem->dh));
    *plan = (struct plan){.problem = problem, .services = services};
    plan->job.p = problem;
    plan->job.width = (widest + LANES - 1) / LANES * LANES;
    plan->job.threads = (int)mutant_least(services->threads, MOST_THREADS);
    plan->job.splits = 1;
    if (problem->sq == 1 && problem->sk >= 2 * SPLIT_KEYS)
        plan->job.splits = mutant_least(problem->sk / SPLIT_KEYS, MOST_SPLITS);
    if (take_all(plan)) {
        *out = plan;
        return ATTN_OK;
    }
    destroy(plan);
refused:
    snprintf(why, size, "no memory for a plan");
    return ATTN_OUT_OF_MEMORY;
}

/* The truth about bug=none. expf, tanhf and logf are those of glibc: at most 2 ulp by its manual,
 * twice that is declared. */
static void numerics(const void *opaque, struct attn_numerics *numerics)
{
    const struct plan *plan = opaque;
    const double u = 0x1p-24;
    numerics->acc_type = ATTN_F32;
    numerics->score_type = ATTN_F32;
    numerics->p_type = plan->problem->dtype;
    numerics->proj_type = ATTN_F32;
    numerics->denominator = 1;
    numerics->empty_row = ATTN_EMPTY_ZERO;
    numerics->deterministic = 1;
    numerics->key_tile = KEY_TILE;
    numerics->splits = plan->job.splits > 1 ? plan->job.splits : 0;
    numerics->e_exp = 4 * u;
    numerics->e_tanh = 8 * u;
    numerics->e_log = 4 * u;
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
    *made = (struct binding){.plan = plan, .job = plan->job};
    for (uint32_t t = 0; t < n_tensors; t++)
        made->job.operands.view[tensors[t].role] = tensors[t];
    struct attn_tensor *k = &made->job.operands.view[ATTN_K];
    if (bug(alignment_assumed))
        k->data = (char *)k->data - (uintptr_t)k->data % 16;
    *out = made;
    return ATTN_OK;
}

static int run(void *opaque, char *why, size_t size)
{
    (void)why, (void)size;
    struct mutant_job *job = &((struct binding *)opaque)->job;
    if (job->p->op != ATTN_OP_MHA) {
        mutant_attend(job);
        return ATTN_OK;
    }
    const struct attn_tensor out = job->operands.view[ATTN_OUT];
    mutant_project_inputs(job);
    mutant_attend(job);
    mutant_project_output(job, &out);
    return ATTN_OK;
}

static void release(void *binding)
{
    const struct attn_services *services = ((struct binding *)binding)->plan->services;
    services->free(services->context, binding);
}

static void describe(const void *opaque, char *text, size_t size)
{
    const struct plan *plan = opaque;
    snprintf(text, size, "tiles of %d queries and %d keys, %lld splits, %d threads", QUERY_TILE,
             KEY_TILE, (long long)plan->job.splits, plan->job.threads);
}

static const struct attn_backend backend = {
    .struct_size = sizeof(struct attn_backend),
    .exactness = ATTN_EXACT,
    .name = "mutant",
    .description = "an online softmax with one bug of choice, for the tests of the verifier",
    .options = options,
    .n_options = sizeof(options) / sizeof(options[0]),
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
