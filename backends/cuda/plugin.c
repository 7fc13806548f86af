/* SPDX-License-Identifier: Apache-2.0 */
/* plugin.c - attention on a GPU, fused and not: operands live on the device from bind to release.
 */
#include <stdio.h>
#include <string.h>

#include "attention.h"
#include "backward.h"
#include "cublas.h"
#include "flash.h"
#include "host_args.h"
#include "mha.h"
#include "operands.h"
#include "supports.h"
#include "unfused.h"

#ifndef BACKEND /* tests name theirs otherwise */
#define BACKEND         "cuda_flash"
#define BACKEND_UNFUSED "cuda_unfused"
#endif

struct binding {
    struct attn_cuda_plan *plan;
    struct attn_cuda_args args;
    struct attn_cuda_operands operands;
};

/* The device, and whether it takes the kernels: a driver older than the CUDA that compiled them
 * does not. */
static int probe(const struct attn_services *services, char *why, size_t size)
{
    void *any;
    int status = attn_gpu_open(services, why, size);
    if (status == ATTN_OK && attn_gpu_kernel("merge_f32", 0, &any, why, size) != ATTN_OK)
        status = ATTN_NO_DEVICE;
    return status;
}

static int probe_unfused(const struct attn_services *services, char *why, size_t size)
{
    int status = probe(services, why, size);
    return status == ATTN_OK ? attn_cublas_open(why, size) : status;
}

static void version_unfused(char *text, size_t size)
{
    char library[64];
    attn_gpu_version(text, size);
    attn_cublas_version(library, sizeof library);
    snprintf(text + strlen(text), size - strlen(text), ", %s", library);
}

static int supports_any(attn_cuda_supporter *attention, const struct attn_problem *problem,
                        char *why, size_t size)
{
    return problem->op == ATTN_OP_MHA ? attn_cuda_mha_supports(attention, problem, why, size)
                                      : attention(problem, why, size);
}

static int supports(const struct attn_problem *problem, const struct attn_services *services,
                    char *why, size_t size)
{
    (void)services;
    if (problem->op == ATTN_OP_ATTENTION_BACKWARD)
        return attn_cuda_backward_supports(problem, why, size);
    return supports_any(attn_cuda_supports, problem, why, size);
}

static int supports_unfused(const struct attn_problem *problem,
                            const struct attn_services *services, char *why, size_t size)
{
    (void)services;
    return supports_any(attn_cuda_unfused_supports, problem, why, size);
}

static int create_any(attn_cuda_creator *attention, const struct attn_problem *problem,
                      const struct attn_services *services, void **plan, char *why, size_t size)
{
    struct attn_cuda_plan *made;
    int status = problem->op == ATTN_OP_MHA
                     ? attn_cuda_mha_create(attention, problem, services, &made, why, size)
                     : attention(problem, services, &made, why, size);
    if (status == ATTN_OK)
        *plan = made;
    return status;
}

static int create(const struct attn_problem *problem, const struct attn_services *services,
                  void **plan, char *why, size_t size)
{
    return create_any(problem->op == ATTN_OP_ATTENTION_BACKWARD ? attn_cuda_backward_create
                                                                : attn_cuda_flash_create,
                      problem, services, plan, why, size);
}

static int create_unfused(const struct attn_problem *problem, const struct attn_services *services,
                          void **plan, char *why, size_t size)
{
    return create_any(attn_cuda_unfused_create, problem, services, plan, why, size);
}

/* ex2.approx: 2^-22 by the PTX manual; its argument is rounded once, and so is scale * log2(e).
 * tanhf and log2f: at most 2 ulp by CUDA's programming guide. Tensor cores cut off what does not
 * fit into f32 (Fasi, Higham, Mikaitis, Pranesh: Numerical behavior of NVIDIA tensor cores, 2021).
 */
static void numerics(const void *plan, struct attn_numerics *n)
{
    const struct attn_cuda_plan *self = plan;
    n->acc_type = ATTN_F32;
    n->p_type = self->tensor_cores ? self->dtype : ATTN_F32;
    n->p_normalised = self->unfused != NULL;
    n->denominator = !self->backward;
    n->ds_type = self->backward ? n->p_type : 0;
    n->query_tile = self->query_tile;
    n->acc_toward_zero =
        (uint32_t)(self->tensor_cores || (self->cublas && self->dtype != ATTN_F32));
    n->ftz = self->hopper_rows > 0;
    n->deterministic = 1;
    n->invariant = ATTN_INVARIANT_THREADS;
    /* cuBLAS may choose another kernel for another number of batches */
    if (self->batch_alone && !self->cublas)
        n->invariant |= ATTN_INVARIANT_BATCH;
    n->key_tile = self->key_tile;
    n->splits = self->args.splits > 1 ? self->args.splits : 0;
    n->u_in = self->args.flags & ATTN_CUDA_ROUND_Q ? 0x1p-8 : 0; /* q^T M in bf16 */
    if (self->cublas)
        n->source = "sums of products in f32 by cuBLAS's manual (CUBLAS_COMPUTE_32F)";
    n->e_exp = 0x1p-22;
    n->e_arg = 0x1p-22;
    n->e_tanh = 0x1p-22;
    n->e_log = 0x1p-22;
}

static void release(void *binding)
{
    struct binding *self = binding;
    const struct attn_services *services = self->plan->services;
    attn_cuda_operands_release(&self->operands);
    services->free(services->context, self);
}

static struct attn_problem given(const struct binding *self)
{
    return (struct attn_problem){.tensors = self->operands.device,
                                 .n_tensors = self->operands.count};
}

/* All operands have been brought in. */
static void attach(struct binding *self)
{
    const struct attn_problem tensors = given(self);
    for (uint32_t t = 0; t < tensors.n_tensors; t++) {
        const struct attn_tensor *tensor = &tensors.tensors[t];
        if (self->plan->mha && attn_cuda_mha_owns(tensor->role))
            continue;
        struct attn_cuda_view *view = attn_cuda_view_of(&self->args, tensor->role);
        view->data = tensor->data;
        for (uint32_t a = 0; a < tensor->rank; a++)
            view->stride[a] = tensor->stride[a];
    }
    if (self->plan->mha)
        attn_cuda_mha_attach(self->plan, &tensors, &self->args);
}

static int bind(void *plan, const struct attn_tensor *tensors, uint32_t n_tensors, void **binding,
                char *why, size_t size)
{
    struct attn_cuda_plan *on = plan;
    const struct attn_services *services = on->services;
    struct binding *made = services->alloc(services->context, sizeof *made, 64);
    if (!made) {
        snprintf(why, size, "no memory for a binding");
        return ATTN_OUT_OF_MEMORY;
    }
    *made = (struct binding){.plan = on, .args = on->args, .operands = {.services = services}};
    int status = attn_cuda_operands_bring(&made->operands, tensors, n_tensors, why, size);
    if (status == ATTN_OK) {
        attach(made);
        *binding = made;
    } else {
        release(made);
    }
    return status;
}

/* NOLINTBEGIN(readability-non-const-parameter): the table fixes the types */
static int enqueue(void *binding, char *why, size_t size)
{
    const struct binding *self = binding;
    const struct attn_problem tensors = given(self);
    int status = attn_gpu_mark(self->plan->queue, 0, why, size);
    if (status == ATTN_OK)
        status = self->plan->mha ? attn_cuda_mha_start(self->plan, &tensors, &self->args, why, size)
                                 : attn_cuda_attention_start(self->plan, &self->args, why, size);
    if (status == ATTN_OK)
        status = attn_gpu_mark(self->plan->queue, 1, why, size);
    return status;
}

static int wait(void *binding, char *why, size_t size)
{
    const struct binding *self = binding;
    return attn_gpu_wait(self->plan->queue, why, size);
}

static int run(void *binding, char *why, size_t size)
{
    int status = enqueue(binding, why, size);
    return status == ATTN_OK ? wait(binding, why, size) : status;
}

static int time_device(void *binding, double *ns, char *why, size_t size)
{
    const struct binding *self = binding;
    return attn_gpu_elapsed(self->plan->queue, ns, why, size);
}

static int fetch(void *binding, char *why, size_t size)
{
    return attn_cuda_operands_fetch(&((const struct binding *)binding)->operands, why, size);
}
/* NOLINTEND(readability-non-const-parameter) */

static void describe(const void *plan, char *text, size_t size)
{
    const struct attn_cuda_plan *self = plan;
    size_t at = 0;
    if (self->mha) {
        snprintf(text, size, "projections by cuBLAS; ");
        at = strlen(text);
    }
    if (self->unfused)
        attn_cuda_unfused_describe(self, text + at, size - at);
    else if (self->backward)
        attn_cuda_backward_describe(self, text, size);
    else
        snprintf(text + at, size - at, "%s: %d keys per tile, %u blocks of %u threads, %d split%s",
                 self->kernel_name, (int)self->key_tile, self->grid.blocks_x, self->grid.threads,
                 (int)self->args.splits, self->args.splits > 1 ? "s" : "");
}

static uint64_t workspace_bytes(const void *plan)
{
    const struct attn_cuda_plan *self = plan;
    return self->partial_bytes + self->projected_q_bytes + self->projected_k_bytes +
           self->step_bytes;
}

static void destroy(void *plan)
{
    struct attn_cuda_plan *self = plan;
    if (self->mha)
        attn_cuda_mha_destroy(self);
    else
        attn_cuda_attention_destroy(self);
}

static const struct attn_option_spec options[] = {
    {.key = "device",
     .type = ATTN_OPTION_INT,
     .default_value = "0",
     .help = "index of the GPU, as the CUDA driver counts"},
    {.key = "splits",
     .type = ATTN_OPTION_INT,
     .default_value = "0",
     .help = "parts that the keys of few rows are split into; 0: by multiprocessors"},
    {.key = "hopper",
     .type = ATTN_OPTION_BOOL,
     .default_value = "1",
     .help = "use the kernels of compute capability 9.0 alone where they apply"},
};

static const struct attn_backend flash = {
    .struct_size = sizeof(struct attn_backend),
    .exactness = ATTN_EXACT,
    .name = BACKEND,
    .description =
        "flash attention on an NVIDIA GPU: f16 and bf16 on tensor cores, f32 in plain FMA",
    .options = options,
    .n_options = 3,
    .version = attn_gpu_version,
    .probe = probe,
    .supports = supports,
    .create = create,
    .numerics = numerics,
    .bind = bind,
    .run = run,
    .enqueue = enqueue,
    .wait = wait,
    .time_device = time_device,
    .fetch = fetch,
    .release = release,
    .describe = describe,
    .workspace_bytes = workspace_bytes,
    .destroy = destroy,
    .device = attn_gpu_device,
};
static const struct attn_backend unfused = {
    .struct_size = sizeof(struct attn_backend),
    .exactness = ATTN_EXACT,
    .name = BACKEND_UNFUSED,
    .description = "GEMM, masked softmax, GEMM on an NVIDIA GPU: the unfused peer, by cuBLAS",
    .options = options,
    .n_options = 1,
    .version = version_unfused,
    .probe = probe_unfused,
    .supports = supports_unfused,
    .create = create_unfused,
    .numerics = numerics,
    .bind = bind,
    .run = run,
    .enqueue = enqueue,
    .wait = wait,
    .time_device = time_device,
    .fetch = fetch,
    .release = release,
    .describe = describe,
    .workspace_bytes = workspace_bytes,
    .destroy = destroy,
    .device = attn_gpu_device,
};
static const struct attn_backend *const backends[] = {&flash, &unfused};

const struct attn_plugin attn_plugin = {
    .abi_version = ATTN_ABI_VERSION,
    .struct_size = sizeof(struct attn_plugin),
    .n_backends = 2,
    .backends = backends,
};
