/* SPDX-License-Identifier: Apache-2.0 */
/* plugin.c - flash attention in vector intrinsics, one backend per instruction set. */
#include <cpuid.h>
#include <stdio.h>

#include "amx_probe.h"
#include "backward.h"
#include "landmarks.h"
#include "lsh.h"
#include "mha.h"
#include "projected.h"
#include "recurrent.h"

struct binding {
    struct attn_plan *plan;
    struct attn_flash job;
    struct attn_mha_binding *mha; /* NULL: attention only */
    struct attn_operands given;   /* with projected keys, or landmarks */
};

/* Some compilers' test below does not know F16C by name. F16C needs no registers of its own. */
static int has_f16c(void)
{
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && c & bit_F16C;
}

/* The compiler's own CPUID test: it also asks whether the system saves the wide registers. */
static int probe_avx2(const struct attn_services *services, char *why, size_t size)
{
    (void)services;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c())
        return ATTN_OK;
    snprintf(why, size, "this processor, or the system on it, offers no AVX2 with FMA and F16C");
    return ATTN_NO_DEVICE;
}

static int probe_avx512(const struct attn_services *services, char *why, size_t size)
{
    (void)services;
    if (__builtin_cpu_supports("avx512f"))
        return ATTN_OK;
    snprintf(why, size, "this processor, or the system on it, offers no AVX-512");
    return ATTN_NO_DEVICE;
}

static int is_built(const struct attn_flash_isa *isa, const char *flag, char *why, size_t size)
{
    if (isa->name)
        return ATTN_OK;
    snprintf(why, size, "built by a compiler that has no %s; build with a newer one", flag);
    return ATTN_NO_DEVICE;
}

static int probe_avx512_bf16(const struct attn_services *services, char *why, size_t size)
{
    (void)services;
    if (is_built(&attn_flash_avx512_bf16, "-mavx512bf16", why, size) != ATTN_OK)
        return ATTN_NO_DEVICE;
    if (__builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl"))
        return ATTN_OK;
    snprintf(why, size, "this processor, or the system on it, offers no AVX512-BF16");
    return ATTN_NO_DEVICE;
}

/* What avx512_fp16 needs in addition to AVX512-FP16. */
static int probe_avx512_pairs(const struct attn_services *services, char *why, size_t size)
{
    (void)services;
    if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
        return ATTN_OK;
    snprintf(why, size, "this processor, or the system on it, offers no AVX-512 with BW and VL");
    return ATTN_NO_DEVICE;
}

/* Asks CPUID directly, as amx_probe.c does. */
static int probe_avx512_fp16(const struct attn_services *services, char *why, size_t size)
{
    const unsigned fp16 = 1u << 23; /* leaf 7.0, EDX */
    unsigned a, b, c, d;
    int status = is_built(&attn_flash_avx512_fp16, "-mavx512fp16", why, size);
    if (status == ATTN_OK)
        status = probe_avx512_pairs(services, why, size);
    if (status != ATTN_OK || (__get_cpuid_count(7, 0, &a, &b, &c, &d) && d & fp16))
        return status;
    snprintf(why, size, "this processor has no AVX512-FP16");
    return ATTN_NO_DEVICE;
}

static int probe_amx_bf16(const struct attn_services *services, char *why, size_t size)
{
    (void)services;
    if (is_built(&attn_flash_amx_bf16, "-mamx-bf16", why, size) != ATTN_OK)
        return ATTN_NO_DEVICE;
    const struct attn_amx_machine machine = attn_amx_ask();
    const char *missing = attn_amx_missing(&machine);
    if (!missing)
        return ATTN_OK;
    snprintf(why, size, "%s", missing);
    return ATTN_NO_DEVICE;
}

static const char *type_name(uint32_t dtype)
{
    return dtype == ATTN_F32 ? "f32" : dtype == ATTN_F16 ? "f16" : "bf16";
}

static int supports(const struct attn_problem *problem, const struct attn_services *services,
                    char *why, size_t size)
{
    (void)services;
    return attn_plan_supports(problem, why, size);
}

static bool is_recurrent(const struct attn_problem *problem)
{
    return problem->op == ATTN_OP_WKV || problem->op == ATTN_OP_LINEAR_DECAY ||
           problem->op == ATTN_OP_CHUNKED || problem->op == ATTN_OP_PERFORMER ||
           problem->op == ATTN_OP_LSH;
}

static bool is_plain(const struct attn_problem *problem)
{
    return problem->op == ATTN_OP_ATTENTION || problem->op == ATTN_OP_MHA;
}

/* For rungs for one type only. Other rungs serve the other types. */
static int supports_only(uint32_t dtype, const struct attn_problem *problem,
                         const struct attn_services *services, char *why, size_t size)
{
    if (problem->dtype == dtype && is_plain(problem))
        return supports(problem, services, why, size);
    snprintf(why, size, "this rung is only for %s%s", type_name(dtype),
             problem->dtype == dtype ? " products: not for this operator" : "");
    return ATTN_UNSUPPORTED;
}

/* Beside attention, what rungs on pairs of bf16 have. */
#define OPS_OF_PAIRS                                                                               \
    (ATTN_BIT(ATTN_OP_ATTENTION_BACKWARD) | ATTN_BIT(ATTN_OP_LINFORMER) |                          \
     ATTN_BIT(ATTN_OP_CHUNKED) | ATTN_BIT(ATTN_OP_PERFORMER))

static int supports_bf16(const struct attn_problem *problem, const struct attn_services *services,
                         char *why, size_t size)
{
    if (problem->dtype == ATTN_BF16 && attn_set_has(OPS_OF_PAIRS, problem->op))
        return supports(problem, services, why, size);
    return supports_only(ATTN_BF16, problem, services, why, size);
}

static int supports_f16(const struct attn_problem *problem, const struct attn_services *services,
                        char *why, size_t size)
{
    return supports_only(ATTN_F16, problem, services, why, size);
}

static int create(const struct attn_flash_isa *isa, const struct attn_problem *problem,
                  const struct attn_services *services, void **plan, char *why, size_t size)
{
    struct attn_plan *made;
    int status;
    if (problem->op == ATTN_OP_ATTENTION_BACKWARD)
        status = attn_backward_create(isa, problem, services, &made, why, size);
    else if (is_recurrent(problem))
        status = attn_recurrent_create(isa, problem, services, &made, why, size);
    else if (problem->op == ATTN_OP_NYSTROM)
        status = attn_landmarks_create(isa, problem, services, &made, why, size);
    else if (problem->op == ATTN_OP_LINFORMER)
        status = attn_projected_create(isa, problem, services, &made, why, size);
    else if (problem->op == ATTN_OP_MHA)
        status = attn_mha_create(isa, problem, services, &made, why, size);
    else
        status = attn_plan_create(isa, problem, services, &made, why, size);
    if (status == ATTN_OK)
        *plan = made;
    return status;
}

static int create_avx2(const struct attn_problem *problem, const struct attn_services *services,
                       void **plan, char *why, size_t size)
{
    return create(&attn_flash_avx2, problem, services, plan, why, size);
}

static int create_avx512(const struct attn_problem *problem, const struct attn_services *services,
                         void **plan, char *why, size_t size)
{
    return create(&attn_flash_avx512, problem, services, plan, why, size);
}

static int create_avx512_bf16(const struct attn_problem *problem,
                              const struct attn_services *services, void **plan, char *why,
                              size_t size)
{
    return create(&attn_flash_avx512_bf16, problem, services, plan, why, size);
}

static int create_avx512_fp16(const struct attn_problem *problem,
                              const struct attn_services *services, void **plan, char *why,
                              size_t size)
{
    return create(&attn_flash_avx512_fp16, problem, services, plan, why, size);
}

static int create_amx_bf16(const struct attn_problem *problem, const struct attn_services *services,
                           void **plan, char *why, size_t size)
{
    return create(&attn_flash_amx_bf16, problem, services, plan, why, size);
}

static void declare_weight_fn(int64_t weight_fn, struct attn_numerics *numerics)
{
    if (weight_fn == ATTN_WEIGHT_SIGMOID)
        numerics->e_f = ATTN_FLASH_E_SIGMOID;
    if (weight_fn == ATTN_WEIGHT_RELU2)
        numerics->e_f = ATTN_FLASH_E_RELU2;
    if (weight_fn == ATTN_WEIGHT_LAPLACE)
        numerics->a_f = ATTN_FLASH_A_LAPLACE;
}

/* Keys of a tile of lsh, a part of a piece: as many as this on average, or more. */
static int64_t lsh_tile(const struct attn_plan *plan)
{
    struct attn_lsh_room room;
    attn_lsh_lay_out(plan->recurrent, plan->isa->mr, plan->isa->nr, NULL, &room);
    return room.chunk / room.tiles;
}

/* One online softmax goes on through all rounds, so nothing is split. */
static void declare_lsh(const struct attn_plan *plan, struct attn_numerics *numerics)
{
    numerics->key_tile = lsh_tile(plan);
    numerics->proj_type = ATTN_F32; /* the products that choose a bucket */
    numerics->denominator = 1;
    numerics->e_log = 1e-15; /* in double */
}

static void numerics(const void *plan, struct attn_numerics *numerics)
{
    const struct attn_plan *self = plan;
    numerics->acc_type = ATTN_F32;
    numerics->deterministic = 1;
    numerics->invariant = ATTN_INVARIANT_BATCH | ATTN_INVARIANT_THREADS;
    numerics->e_exp = ATTN_FLASH_E_EXP;
    if (self->recurrent && self->recurrent->op == ATTN_OP_LSH) {
        declare_lsh(self, numerics);
        return;
    }
    if (self->backward) {
        numerics->e_tanh = ATTN_FLASH_E_TANH;
        numerics->key_tile = self->backward->key_tile;
        numerics->query_tile = self->backward->query_tile;
        numerics->p_type = numerics->ds_type = self->isa->pairs;
        numerics->ftz = self->isa->pairs == ATTN_BF16;
        return;
    }
    if (self->recurrent) {
        numerics->p_type = self->isa->pairs; /* of chunked; features of performer */
        numerics->ftz = 1;
        return;
    }
    numerics->proj_type =
        self->mha || self->projected || self->landmarks ? self->job.dtype : 0; /* of the heads */
    numerics->denominator = 1;
    numerics->key_tile = self->job.key_block;
    numerics->splits = self->job.splits > 1 ? self->job.splits : 0;
    numerics->ftz = self->isa->pairs == ATTN_BF16 ||
                    (self->mha && self->mha->isa->pairs == ATTN_BF16) ||
                    (self->projected && self->projected->isa->pairs == ATTN_BF16);
    if (self->isa->pairs) {
        numerics->p_type = self->isa->pairs;
        numerics->e_exp = ATTN_PAIRS_E_EXP;
    }
    if (self->isa->chain && numerics->struct_size > offsetof(struct attn_numerics, partial_terms)) {
        numerics->partial_type = self->isa->pairs;
        numerics->partial_terms = (uint32_t)self->isa->chain;
    }
    numerics->e_tanh = ATTN_FLASH_E_TANH;
    numerics->e_log = 1e-15; /* in double */
    if (numerics->struct_size > offsetof(struct attn_numerics, a_f))
        declare_weight_fn(self->job.problem->weight_fn, numerics);
}

static int bind(void *plan, const struct attn_tensor *tensors, uint32_t n_tensors, void **binding,
                char *why, size_t size)
{
    struct attn_plan *self = plan;
    struct binding *made = self->services->alloc(self->services->context, sizeof *made, 64);
    if (!made) {
        snprintf(why, size, "no memory for a binding");
        return ATTN_OUT_OF_MEMORY;
    }
    *made = (struct binding){.plan = self, .job = self->job};
    int status = ATTN_OK;
    if (self->mha)
        status = attn_mha_bind(self, tensors, n_tensors, &made->job, &made->mha, why, size);
    else
        attn_operands_set(&made->given, tensors, n_tensors);
    if (self->landmarks)
        made->job.operands = made->given; /* the run has buffers for them */
    else if (self->projected)
        attn_projected_bind(self, &made->given, &made->job);
    else if (!self->mha)
        made->job.operands = made->given;
    if (status == ATTN_OK)
        *binding = made;
    else
        self->services->free(self->services->context, made);
    return status;
}

/* NOLINTNEXTLINE(readability-non-const-parameter): the table fixes the type */
static int run(void *binding, char *why, size_t size)
{
    struct binding *self = binding;
    (void)why;
    (void)size;
    if (self->plan->backward)
        attn_backward_run(self->plan, &self->job.operands);
    else if (self->plan->recurrent)
        attn_recurrent_run(self->plan, &self->job.operands);
    else if (self->plan->landmarks)
        attn_landmarks_run(self->plan, &self->given);
    else if (self->plan->projected)
        attn_projected_run(self->plan, &self->given, &self->job);
    else if (self->mha)
        attn_mha_run(self->plan, self->mha, &self->job);
    else
        attn_plan_run(self->plan, &self->job);
    return ATTN_OK;
}

static void release(void *binding)
{
    struct binding *self = binding;
    const struct attn_services *services = self->plan->services;
    if (self->mha)
        services->free(services->context, self->mha);
    services->free(services->context, self);
}

static void describe(const void *plan, char *text, size_t size)
{
    const struct attn_plan *self = plan;
    if (self->backward) {
        snprintf(text, size,
                 "five products a cell, %s %s: %lld keys and %lld queries per tile, %lld tiles of "
                 "keys, %d thread%s",
                 type_name(self->job.dtype), self->isa->name, (long long)self->job.key_block,
                 (long long)self->job.item_rows, (long long)self->items, self->threads,
                 self->threads > 1 ? "s" : "");
        return;
    }
    if (self->recurrent && self->recurrent->op == ATTN_OP_LSH) {
        snprintf(text, size,
                 "sorted by hash, flash %s %s: %lld keys per tile, %lld heads, %d thread%s",
                 type_name(self->job.dtype), self->isa->name, (long long)lsh_tile(self),
                 (long long)self->items, self->threads, self->threads > 1 ? "s" : "");
        return;
    }
    if (self->recurrent && self->recurrent->op == ATTN_OP_PERFORMER) {
        snprintf(text, size, "features, then a state, %s %s: %lld heads, %d thread%s",
                 type_name(self->job.dtype), self->isa->name, (long long)self->items, self->threads,
                 self->threads > 1 ? "s" : "");
        return;
    }
    if (self->recurrent) {
        snprintf(text, size, "%s %s %s: %lld blocks of %d columns, %d thread%s",
                 self->recurrent->op == ATTN_OP_CHUNKED ? "chunk by chunk" : "step by step",
                 type_name(self->job.dtype), self->isa->name, (long long)self->items,
                 attn_recurrent_columns(self), self->threads, self->threads > 1 ? "s" : "");
        return;
    }
    snprintf(text, size,
             "%sflash %s %s: micro-kernel %dx%d, %lld keys per tile, %lld items of %lld rows, "
             "%d thread%s, caches of %lld and %lld KiB",
             self->mha         ? "projections with packed weights, "
             : self->projected ? "projected keys, "
             : self->landmarks ? "landmarks, "
                               : "",
             type_name(self->job.dtype), self->isa->name, self->isa->mr, self->isa->nr,
             (long long)self->job.key_block, (long long)self->items, (long long)self->job.item_rows,
             self->threads, self->threads > 1 ? "s" : "", (long long)self->caches.l1 / 1024,
             (long long)self->caches.l2 / 1024);
}

static void destroy(void *plan)
{
    struct attn_plan *self = plan;
    if (self->backward)
        attn_backward_destroy(self);
    else if (self->mha)
        attn_mha_destroy(self);
    else if (self->landmarks)
        attn_landmarks_destroy(self);
    else if (self->projected)
        attn_projected_destroy(self);
    else
        attn_plan_destroy(self);
}

static const struct attn_option_spec options[] = {
    {.key = "key_block",
     .type = ATTN_OPTION_INT,
     .default_value = "0",
     .help = "keys per tile, rounded up to the micro-kernel; 0: by cache size"},
    {.key = "item_rows",
     .type = ATTN_OPTION_INT,
     .default_value = "0",
     .help = "query rows for which K and V are packed once; 0: by cache size"},
};

/* Backends differ in their name and instruction set only. */
#define RUNG(isa, supported, sums, text)                                                           \
    static const struct attn_backend isa = {                                                       \
        .struct_size = sizeof(struct attn_backend),                                                \
        .exactness = ATTN_EXACT,                                                                   \
        .name = #isa,                                                                              \
        .description =                                                                             \
            "flash attention, sums in " sums ", " text " intrinsics, tiled, online softmax",       \
        .options = options,                                                                        \
        .n_options = sizeof options / sizeof *options,                                             \
        .probe = probe_##isa,                                                                      \
        .supports = supported,                                                                     \
        .create = create_##isa,                                                                    \
        .numerics = numerics,                                                                      \
        .bind = bind,                                                                              \
        .run = run,                                                                                \
        .release = release,                                                                        \
        .describe = describe,                                                                      \
        .destroy = destroy,                                                                        \
    }
#define SUMS_FP16 "f16 by sixteen, then in f32"

#ifndef TABLE_ELSEWHERE /* a test has backends of its own around these slots */
RUNG(avx2, supports, "f32", "AVX2 and FMA");
RUNG(avx512, supports, "f32", "AVX-512");
RUNG(avx512_bf16, supports_bf16, "f32", "AVX512-BF16");
RUNG(avx512_fp16, supports_f16, SUMS_FP16, "AVX512-FP16");
RUNG(amx_bf16, supports_bf16, "f32", "AMX-BF16");

static const struct attn_backend *const backends[] = {&avx2, &avx512, &avx512_bf16, &avx512_fp16,
                                                      &amx_bf16};

const struct attn_plugin attn_plugin = {
    .abi_version = ATTN_ABI_VERSION,
    .struct_size = sizeof(struct attn_plugin),
    .n_backends = sizeof backends / sizeof *backends,
    .backends = backends,
};
#endif
