/* SPDX-License-Identifier: Apache-2.0 */
/* blas.c - the blas backend: options, plan, bindings, and the table of slots. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "blas.h"

/* OpenBLAS's own entry points; absent in another CBLAS, where they stay NULL. */
void openblas_set_num_threads(int threads) __attribute__((weak));
char *openblas_get_config(void) __attribute__((weak));

struct plan {
    struct attn_blas_setup setup;
    const struct attn_services *services;
    void *workspace;
};

struct binding {
    struct plan *plan;
    struct attn_operands operands;
};

static const struct attn_option_spec options[] = {
    {.key = "form",
     .type = ATTN_OPTION_CHOICE,
     .choices = "blocked|plain",
     .default_value = "blocked",
     .help =
         "blocked: over query rows, O(S) memory; plain: the whole score matrix of a head at once"},
    {.key = "rows",
     .type = ATTN_OPTION_INT,
     .default_value = "0",
     .help = "blocked: query rows per block; 0: chosen so that the block's scores stay in cache"},
};

static void version(char *text, size_t size)
{
    snprintf(text, size, "%s", openblas_get_config ? openblas_get_config() : "CBLAS");
}

/* Rows of a block: as many as keep its scores within 1 MiB, about what a second-level cache holds,
 * but at least 64, below which GEMM spends its time packing keys. With a single query a head all
 * heads of a group are one block, where their rows are a matrix. The norms of keys pay where more
 * than one row meets them. */
static struct attn_blas_setup choose_blocks(const struct attn_problem *problem, int64_t wanted)
{
    const struct attn_tensor *q = attn_tensor_find(problem, ATTN_Q); /* none in mha */
    struct attn_blas_matrix unused;
    struct attn_blas_setup setup = {.problem = problem};
    int64_t group = problem->hq / problem->hkv, element = problem->dtype == ATTN_F64 ? 8 : 4;
    int64_t fitting = ((int64_t)1 << 20) / element / (problem->sk > 0 ? problem->sk : 1);
    setup.by_head =
        problem->sq == 1 && problem->op != ATTN_OP_ATTENTION_BACKWARD &&
        (!q || !attn_blas_matrix(group, problem->dq, q->stride[1], q->stride[3], &unused));
    setup.rows = wanted > 0 ? wanted : fitting > 64 ? fitting : 64;
    if (setup.by_head || setup.rows > problem->sq)
        setup.rows = setup.by_head ? group : problem->sq;
    setup.by_norms = problem->score == ATTN_SCORE_GAUSSIAN && setup.rows > 1;
    setup.copies_out = attn_blas_copies_out(problem);
    return setup;
}

static int create(const struct attn_problem *problem, const struct attn_services *services,
                  void **plan, char *why, size_t size)
{
    int plain = strcmp(attn_option_get(services, "form", "blocked"), "plain") == 0;
    int64_t wanted = strtoll(attn_option_get(services, "rows", "0"), NULL, 10);
    struct attn_blas_setup setup = choose_blocks(problem, plain ? problem->sq : wanted);
    size_t bytes =
        problem->dtype == ATTN_F64 ? attn_blas_bytes_f64(&setup) : attn_blas_bytes_f32(&setup);
    if (wanted < 0 || (wanted > 0 && plain)) {
        snprintf(why, size, "option rows is a number of rows of the blocked form");
        return ATTN_INVALID;
    }
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
    if (openblas_set_num_threads)
        openblas_set_num_threads((int)services->threads);
    *made = (struct plan){setup, services, workspace};
    *plan = made;
    return ATTN_OK;

fail:
    if (workspace)
        services->free(services->context, workspace);
    if (made)
        services->free(services->context, made);
    return ATTN_OUT_OF_MEMORY;
}

/* exp and tanh: f32 our own, see blas.h; f64 libm. log: libm; glibc 2.36's manual, "Known Maximum
 * Errors in Math Functions", x86_64: exp, log, logf 1 ulp, tanh 2 ulp, of which twice is declared.
 * An ulp is at most 2u relative. The GEMMs: see `source`. */
static void numerics(const void *plan, struct attn_numerics *numerics)
{
    const struct plan *p = plan;
    int is_f64 = p->setup.problem->dtype == ATTN_F64;
    double u = is_f64 ? 0x1p-53 : 0x1p-24;
    uint32_t type = is_f64 ? ATTN_F64 : ATTN_F32;
    numerics->acc_type = type;
    numerics->score_type = type;
    numerics->p_type = type;
    numerics->proj_type = type;
    numerics->denominator = 1;
    numerics->empty_row = ATTN_EMPTY_ZERO;
    numerics->deterministic = p->services->threads == 1;
    numerics->e_exp = is_f64 ? 4 * u : ATTN_BLAS_E_EXP;
    numerics->e_tanh = is_f64 ? 8 * u : ATTN_BLAS_E_TANH;
    numerics->gaussian_by_norms = (uint32_t)p->setup.by_norms;
    numerics->e_log = 4 * u;
    if (p->setup.problem->op == ATTN_OP_ATTENTION_BACKWARD)
        numerics->query_tile = p->setup.rows;
    numerics->source = "GEMM and GEMV sum in the operands' type in blocks, with FMA where the "
                       "machine has it (OpenBLAS kernel/x86_64, sgemm and dgemm); "
                       "softmax by this backend";
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
    if (b->plan->setup.problem->dtype == ATTN_F64)
        attn_blas_run_f64(&b->plan->setup, &b->operands, b->plan->workspace);
    else
        attn_blas_run_f32(&b->plan->setup, &b->operands, b->plan->workspace);
    return ATTN_OK;
}

static void release(void *binding)
{
    const struct attn_services *services = ((struct binding *)binding)->plan->services;
    services->free(services->context, binding);
}

static void describe(const void *plan, char *text, size_t size)
{
    const struct plan *p = plan;
    char copies[160];
    attn_blas_describe_copies(p->setup.problem, copies, sizeof(copies));
    snprintf(text, size, "%s, blocks of %lld %s%s",
             p->setup.problem->dtype == ATTN_F64 ? "dgemm" : "sgemm", (long long)p->setup.rows,
             p->setup.by_head ? "heads" : "query rows", copies);
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
    .name = "blas",
    .description = "GEMM, masked softmax, GEMM over CBLAS; gradients by five GEMMs",
    .options = options,
    .n_options = sizeof(options) / sizeof(options[0]),
    .version = version,
    .supports = attn_blas_supports,
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
