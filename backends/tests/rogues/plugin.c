/* SPDX-License-Identifier: Apache-2.0 */
/* plugin.c - the rogue backend: plans, bindings and the table of slots. */
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cheats.h"
#include "honest.h"
#include "operators.h"
#include "rogue.h"

enum rogue_bug rogue_planted;

/* A worker that verifies is asked for what no backend knows, one that times is not. */
static bool asked_unknown;

static bool cheats_when_timed(void)
{
    return bug(wide_when_timed) && !asked_unknown;
}

enum { PIECES = 7 * MOST_THREADS + 16, MOST_TENSORS = 64 };

struct plan {
    const struct attn_problem *problem;
    const struct attn_services *services;
    struct rogue_job job; /* without operands */
    bool is_operator;     /* operators.h; the job has its threads only */
    struct rogue_operator operator;
    void *pieces[PIECES];
    int n_pieces, bound;
};

struct binding {
    struct plan *plan;
    struct rogue_job job;
    struct attn_operands given;
    struct attn_tensor tensors[ROGUE_TENSORS]; /* as bound */
    bool zeros;                                /* are its answer */
};

static const char *const names[] = {"none",
#define BUG(name, class, op, types, cases, text, source) #name,
                                    ROGUE_BUGS
#undef BUG
};

static const struct attn_option_spec options[] = {
    {
        .key = "bug",
        .type = ATTN_OPTION_CHOICE,
#define BUG(name, class, op, types, cases, text, source) "|" #name
        .choices = "none" ROGUE_BUGS,
#undef BUG
        .default_value = "none",
        .help = "what is wrong with it",
    },
    {
        .key = "arith",
        .type = ATTN_OPTION_CHOICE,
#define ARITH(name, types, text) "|" #name
        .choices = "f32" ROGUE_ARITHS,
#undef ARITH
        .default_value = "f32",
        .help = "how it computes, and says that it does",
    },
};

static const uint32_t optional[] = {
    ATTN_LSE,  ATTN_WEIGHTS, ATTN_MASK,      ATTN_BIAS, ATTN_LEN, ATTN_ALIBI,
    ATTN_SINK, ATTN_KEEP,    ATTN_HEAD_MASK, ATTN_X_K,  ATTN_X_V, ATTN_W_O,
    ATTN_B_Q,  ATTN_B_K,     ATTN_B_V,       ATTN_B_O,  0};

static const struct attn_limits limits = {
    .ops = ATTN_BIT(ATTN_OP_ATTENTION) | ATTN_BIT(ATTN_OP_MHA),
    .scores = ATTN_BIT(ATTN_SCORE_SCALED_DOT) | ATTN_BIT(ATTN_SCORE_DOT),
    .dtypes = ATTN_BIT(ATTN_F32) | ATTN_BIT(ATTN_F16) | ATTN_BIT(ATTN_BF16),
    .flags = ATTN_FLAG_CAUSAL | ATTN_FLAG_WINDOW | ATTN_FLAG_OFF_BR | ATTN_FLAG_SOFTCAP |
             ATTN_FLAG_DROPOUT | ATTN_FLAG_RESIDUAL | ATTN_FLAG_DETERMINISTIC,
    .optional = optional,
};

static void plant(const struct attn_services *services)
{
    const char *wanted = attn_option_get(services, "bug", "none");
    for (size_t n = 0; n < sizeof(names) / sizeof(names[0]); n++)
        if (strcmp(names[n], wanted) == 0)
            rogue_planted = (enum rogue_bug)n;
    rogue_arith_choose(attn_option_get(services, "arith", "f32"));
}

/* What bugs of `supports` do not see is taken out of the problem. */
static void overlook(struct attn_problem *p, struct attn_tensor *tensors)
{
    uint32_t n = 0;
    for (uint32_t t = 0; t < p->n_tensors; t++) {
        struct attn_tensor tensor = p->tensors[t];
        if (bug(unknown_roles) && !attn_problem_role_any(tensor.role))
            continue;
        if (bug(unknown_types) && (tensor.role == ATTN_MASK || tensor.role == ATTN_BIAS))
            tensor.dtype = tensor.role == ATTN_MASK ? (uint32_t)ATTN_BOOL : p->dtype;
        if (bug(unknown_space))
            tensor.space = tensor.device = 0;
        tensors[n++] = tensor;
    }
    p->tensors = tensors;
    p->n_tensors = n;
    if (bug(unknown_flags))
        p->flags &= limits.flags;
    if (bug(unknown_score) && !attn_set_has(limits.scores, p->score))
        p->score = ATTN_SCORE_SCALED_DOT;
}

static int supports(const struct attn_problem *problem, const struct attn_services *services,
                    char *why, size_t size)
{
    struct attn_problem known = *problem;
    struct attn_tensor tensors[MOST_TENSORS];
    plant(services);
    asked_unknown = asked_unknown || problem->flags & ~limits.flags;
    if (arith(f32) && rogue_is_operator(problem))
        return rogue_operator_supports(problem, why, size);
    if (problem->n_tensors <= MOST_TENSORS && problem->struct_size >= sizeof(known)) {
        overlook(&known, tensors);
        problem = &known;
    }
    const int status = attn_problem_check(problem, &limits, why, size);
    return status != ATTN_OK || rogue_arith_takes(problem, why, size) ? status : ATTN_UNSUPPORTED;
}

/* Counted memory for rows * columns elements, or NULL; a product that overflows asks for too much.
 */
static void *take(struct plan *plan, int64_t rows, int64_t columns, size_t element)
{
    size_t bytes;
    if (__builtin_mul_overflow((uint64_t)rows, (uint64_t)columns, &bytes) ||
        __builtin_mul_overflow(bytes, element, &bytes) || plan->n_pieces == PIECES)
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
    rogue_cheat_close(plan->job.cheat);
    while (plan->n_pieces > 0)
        services->free(services->context, plan->pieces[--plan->n_pieces]);
    services->free(services->context, plan);
}

/* The largest extent of any row of a product: dq, or a model width. */
static int64_t widest_inner(const struct attn_problem *p)
{
    int64_t widest = rogue_largest(p->dq, p->dk);
    if (p->op == ATTN_OP_MHA) {
        widest = rogue_largest(widest, p->hq * p->dv);
        for (uint32_t role = ATTN_X_Q; role <= ATTN_X_V; role++)
            widest = rogue_largest(widest, attn_problem_model_width(p, role));
    }
    return widest;
}

static void choose_path(struct rogue_job *job, const struct attn_services *services)
{
    const struct attn_problem *p = job->p;
    const int64_t group = p->hq / p->hkv;
    job->inner = widest_inner(p);
    job->wide = (p->dv + COLUMNS - 1) / COLUMNS * COLUMNS;
    job->packed = group > 1 && p->sq <= FEW_QUERIES && !rogue_heads_apart();
    job->tile_rows = job->packed ? group * p->sq : p->sq;
    job->splits = 1;
    if (p->sq <= FEW_QUERIES && p->sk >= 2 * SPLIT_KEYS)
        job->splits = rogue_least(p->sk / SPLIT_KEYS, MOST_SPLITS);
    job->splits = rogue_arith_splits(p->sk, job->splits);
    job->threads = (int)rogue_least(services->threads, MOST_THREADS);
    if (bug(thread_too_many))
        job->threads = 2;
}

static bool take_scratch(struct plan *plan, struct rogue_scratch *scratch)
{
    const int64_t inner = plan->job.inner, wide = plan->job.wide, one = sizeof(float);
    return (scratch->rows = take(plan, QUERY_TILE, 1, sizeof(*scratch->rows))) &&
           (scratch->q = take(plan, QUERY_TILE, inner, (size_t)one)) &&
           (scratch->kt = take(plan, KEY_TILE, inner, (size_t)one)) &&
           (scratch->v = take(plan, KEY_TILE, wide, (size_t)one)) &&
           (scratch->s = take(plan, QUERY_TILE, KEY_TILE, (size_t)one)) &&
           (scratch->o = take(plan, QUERY_TILE, wide, (size_t)one)) &&
           (scratch->line = take(plan, 1, rogue_largest(inner, wide), (size_t)one));
}

static bool take_operator(struct plan *plan)
{
    struct rogue_operator *o = &plan->operator;
    rogue_operator_measure(plan->problem, o);
    return (o->workspace = take(plan, (int64_t)o->workspace_bytes, 1, 1)) &&
           (o->other = take(plan, (int64_t)o->other_bytes, 1, 1)) &&
           (o->copy = take(plan, (int64_t)o->copy_bytes, 1, 1));
}

static bool take_all(struct plan *plan)
{
    struct rogue_job *job = &plan->job;
    const struct attn_problem *p = plan->problem;
    const size_t element = (size_t)attn_element_bytes(p->dtype);
    const int64_t parts = p->b * p->hq * p->sq * job->splits;
    bool ok = true;
    for (int t = 0; t < job->threads; t++)
        ok = ok && take_scratch(plan, &job->scratch[t]);
    if (job->splits > 1)
        ok = ok && (job->partials = take(plan, parts, 1, sizeof(*job->partials))) &&
             (job->partial_out = take(plan, parts, job->wide, sizeof(float)));
    if (p->op == ATTN_OP_MHA)
        ok = ok && (job->heads_q = take(plan, p->b * p->sq + 1, p->hq * p->dq, element)) &&
             (job->heads_k = take(plan, p->b * p->sk, p->hkv * p->dk, element)) &&
             (job->heads_v = take(plan, p->b * p->sk + 1, p->hkv * p->dv, element)) &&
             (job->heads = take(plan, p->b * p->sq, p->hq * p->dv, element));
    return ok && rogue_cheat_open(job);
}

static int create(const struct attn_problem *problem, const struct attn_services *services,
                  void **out, char *why, size_t size)
{
    plant(services);
    struct plan *plan = services->alloc(services->context, sizeof(*plan), 64);
    if (!plan)
        goto refused;
    *plan = (struct plan){.problem = problem, .services = services};
    plan->job.p = problem;
    plan->is_operator = rogue_is_operator(problem);
    choose_path(&plan->job, services);
    if (plan->is_operator ? take_operator(plan) : take_all(plan)) {
        *out = plan;
        return ATTN_OK;
    }
    destroy(plan);
refused:
    snprintf(why, size, "no memory for a plan");
    return ATTN_OUT_OF_MEMORY;
}

/* The truth about bug=none. tanhf and logf are those of glibc: at most 2 ulp by its manual, twice
 * that is declared. exp was at most 8.6e-8 wrong where every 7th argument from -87 to 0 was tried.
 */
static void numerics(const void *opaque, struct attn_numerics *numerics)
{
    const struct plan *plan = opaque;
    const double u = 0x1p-24;
    if (plan->is_operator) {
        rogue_operator_declare(numerics);
        return;
    }
    numerics->acc_type = ATTN_F32;
    numerics->score_type = ATTN_F32;
    numerics->p_type = ATTN_F32;
    numerics->proj_type = plan->problem->dtype;
    numerics->denominator = 1;
    numerics->empty_row = ATTN_EMPTY_ZERO;
    numerics->deterministic = 1;
    numerics->invariant = ATTN_INVARIANT_BATCH | ATTN_INVARIANT_THREADS;
    numerics->key_tile = KEY_TILE;
    numerics->splits = plan->job.splits > 1 ? plan->job.splits : 0;
    numerics->e_exp = 2.5e-7;
    numerics->e_tanh = 8 * u;
    numerics->e_log = 4 * u;
    rogue_arith_declare(numerics, plan->problem);
    rogue_declare_falsely(numerics, plan->problem);
    if (cheats_when_timed())
        numerics->u_in = 1;
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
    made->zeros = cheats_when_timed() || (bug(bound_again) && plan->bound > 0);
    plan->bound++;
    attn_operands_set(&made->given, tensors, n_tensors);
    memcpy(made->tensors, tensors, n_tensors * sizeof *tensors);
    made->job.t = made->given;
    if (!plan->is_operator)
        rogue_cheat_bind(&made->job);
    *out = made;
    return ATTN_OK;
}

static void attend(struct binding *binding)
{
    struct rogue_job *job = &binding->job;
    if (job->p->op != ATTN_OP_MHA) {
        job->t = binding->given;
        rogue_cheat_operands(job);
        const bool updates =
            bug(updates_in_place) || bug(update_unless_found) || bug(third_run_only);
        if (!(updates && rogue_update_run(job)))
            rogue_attend(job);
        if (binding->zeros)
            memset(job->t.out.data, 0,
                   (size_t)(job->p->b * job->p->hq * job->p->sq * job->p->dv *
                            attn_element_bytes(job->p->dtype)));
        return;
    }
    rogue_project_inputs(job, &binding->given);
    rogue_attend(job);
    rogue_project_output(job, &binding->given);
}

static double wall_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* In a process of its own, in the memory of this one: no clock of this one has its time. */
static void attend_in_child(struct binding *binding)
{
    const double start = wall_seconds();
    const pid_t child = vfork();
    if (child == 0) {
        attend(binding);
        _exit(0);
    }
    if (child > 0)
        waitpid(child, NULL, 0);
    binding->job.elsewhere_s = wall_seconds() - start;
}

static void compute(struct binding *binding)
{
    if (bug(known_row_only) && !rogue_memo_knows_row(&binding->job, binding->tensors))
        return;
    const bool keeps = bug(memo_of_inputs) || bug(memo_slowly) || bug(memo_of_signs) ||
                       bug(memo_in_child) || bug(memo_of_mha);
    if (keeps && rogue_memo_give(&binding->job, binding->tensors))
        return;
    if (bug(memo_in_child))
        attend_in_child(binding);
    else
        attend(binding);
    if (keeps)
        rogue_memo_keep(&binding->job, binding->tensors);
}

static int run(void *opaque, char *why, size_t size)
{
    struct binding *binding = opaque;
    (void)why, (void)size;
    if (binding->plan->is_operator) {
        rogue_operator_run(&binding->plan->operator, binding->tensors, names[rogue_planted]);
        return ATTN_OK;
    }
    if (!rogue_cheat_before(&binding->job))
        return ATTN_OK;
    compute(binding);
    rogue_cheat_after(&binding->job);
    return ATTN_OK;
}

static int fetch(void *opaque, char *why, size_t size)
{
    (void)why, (void)size;
    if (bug(work_in_fetch))
        compute(opaque);
    return ATTN_OK;
}

static void release(void *opaque)
{
    struct binding *binding = opaque;
    const struct attn_services *services = binding->plan->services;
    if (!binding->plan->is_operator)
        rogue_cheat_release(&binding->job);
    rogue_update_free(binding->job.update);
    rogue_memo_free(binding->job.memo);
    services->free(services->context, binding);
}

static void describe(const void *opaque, char *text, size_t size)
{
    const struct plan *plan = opaque;
    if (plan->is_operator)
        snprintf(text, size, "the kernel of naive");
    else
        snprintf(text, size, "tiles of %d rows and %d keys, %s, %lld splits, %d threads",
                 QUERY_TILE, KEY_TILE, plan->job.packed ? "packed heads" : "single heads",
                 (long long)plan->job.splits, plan->job.threads);
}

static const struct attn_backend backend = {
    .struct_size = sizeof(struct attn_backend),
    .exactness = ATTN_EXACT,
    .name = "rogue",
    .description = "flash attention in plain C with one bug or cheat of choice, for tests",
    .options = options,
    .n_options = sizeof(options) / sizeof(options[0]),
    .supports = supports,
    .create = create,
    .numerics = numerics,
    .bind = bind,
    .run = run,
    .fetch = fetch,
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
