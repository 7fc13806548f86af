/* SPDX-License-Identifier: Apache-2.0 */
/* plugin.c - flash attention on a GPU: operands live on the device from bind to release. */
#include <stdio.h>

#include "plan.h"
#include "transfer.h"

#ifndef BACKEND /* tests name theirs otherwise */
#define BACKEND "cuda_flash"
#endif
#define TENSORS 12 /* as many roles as supports.c knows */

struct binding {
    struct attn_cuda_plan *plan;
    struct attn_cuda_args args;
    struct attn_tensor tensors[TENSORS];
    void *device[TENSORS];
    uint32_t n_tensors;
    void *staging; /* for results on their way to the host */
};

static int probe(const struct attn_services *services, char *why, size_t size)
{
    return attn_gpu_open(services, why, size);
}

static int supports(const struct attn_problem *problem, const struct attn_services *services,
                    char *why, size_t size)
{
    (void)services;
    return attn_cuda_supports(problem, why, size);
}

static int create(const struct attn_problem *problem, const struct attn_services *services,
                  void **plan, char *why, size_t size)
{
    struct attn_cuda_plan *made;
    int status = attn_cuda_plan_create(problem, services, &made, why, size);
    if (status == ATTN_OK)
        *plan = made;
    return status;
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
    n->denominator = 1;
    n->acc_toward_zero = (uint32_t)self->tensor_cores;
    n->deterministic = 1;
    n->invariant = ATTN_INVARIANT_THREADS;
    if (self->args.splits == 1 && self->grid.threads > 32)
        n->invariant |= ATTN_INVARIANT_BATCH; /* the number of splits depends on that of batches */
    n->key_tile = self->key_tile;
    n->splits = self->args.splits > 1 ? self->args.splits : 0;
    n->e_exp = 0x1p-22;
    n->e_arg = 0x1p-22;
    n->e_tanh = 0x1p-22;
    n->e_log = 0x1p-22;
}

static void release(void *binding)
{
    struct binding *self = binding;
    const struct attn_services *services = self->plan->services;
    for (uint32_t t = 0; t < self->n_tensors; t++)
        attn_gpu_release(self->device[t]);
    if (self->staging)
        services->free(services->context, self->staging);
    services->free(services->context, self);
}

static int is_output(const struct attn_tensor *tensor)
{
    return tensor->role == ATTN_OUT || tensor->role == ATTN_LSE || tensor->role == ATTN_WEIGHTS;
}

/* Results are copied in, too: what a kernel forgets to write is seen then. */
static int bring_in(struct binding *self, const struct attn_tensor *tensor, char *why, size_t size)
{
    void **device = &self->device[self->n_tensors];
    int status = attn_gpu_allocate((uint64_t)attn_transfer_span(tensor), device, why, size);
    if (status != ATTN_OK)
        return status;
    self->tensors[self->n_tensors++] = *tensor;
    struct attn_cuda_view *view = attn_cuda_view_of(&self->args, tensor->role);
    view->data = *device;
    for (uint32_t a = 0; a < tensor->rank; a++)
        view->stride[a] = tensor->stride[a];
    return attn_transfer_in(*device, tensor, why, size);
}

static int bind(void *plan, const struct attn_tensor *tensors, uint32_t n_tensors, void **binding,
                char *why, size_t size)
{
    struct attn_cuda_plan *on = plan;
    const struct attn_services *services = on->services;
    struct binding *made = services->alloc(services->context, sizeof *made, 64);
    size_t staging = 1;
    int status = ATTN_OK;
    if (!made) {
        snprintf(why, size, "no memory for a binding");
        return ATTN_OUT_OF_MEMORY;
    }
    *made = (struct binding){.plan = on, .args = on->args};
    for (uint32_t t = 0; t < n_tensors && status == ATTN_OK; t++) {
        status = bring_in(made, &tensors[t], why, size);
        if (is_output(&tensors[t]) && attn_transfer_staging(&tensors[t]) > staging)
            staging = attn_transfer_staging(&tensors[t]);
    }
    if (status == ATTN_OK) {
        made->staging = services->alloc(services->context, staging, 64);
        if (!made->staging) {
            snprintf(why, size, "no memory to bring results back");
            status = ATTN_OUT_OF_MEMORY;
        }
    }
    if (status == ATTN_OK)
        *binding = made;
    else
        release(made);
    return status;
}

/* NOLINTBEGIN(readability-non-const-parameter): the table fixes the types */
static int enqueue(void *binding, char *why, size_t size)
{
    const struct binding *self = binding;
    return attn_cuda_plan_start(self->plan, &self->args, why, size);
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
    const struct binding *self = binding;
    int status = ATTN_OK;
    for (uint32_t t = 0; t < self->n_tensors && status == ATTN_OK; t++)
        if (is_output(&self->tensors[t]))
            status =
                attn_transfer_out(&self->tensors[t], self->device[t], self->staging, why, size);
    return status;
}
/* NOLINTEND(readability-non-const-parameter) */

static void describe(const void *plan, char *text, size_t size)
{
    const struct attn_cuda_plan *self = plan;
    snprintf(text, size, "%s: %d keys a tile, %u blocks of %u threads, %d split%s",
             self->kernel_name, (int)self->key_tile, self->grid.blocks_x, self->grid.threads,
             (int)self->args.splits, self->args.splits > 1 ? "s" : "");
}

static uint64_t workspace_bytes(const void *plan)
{
    return ((const struct attn_cuda_plan *)plan)->partial_bytes;
}

static void destroy(void *plan)
{
    attn_cuda_plan_destroy(plan);
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
};

static const struct attn_backend backend = {
    .struct_size = sizeof(struct attn_backend),
    .exactness = ATTN_EXACT,
    .name = BACKEND,
    .description =
        "flash attention on an NVIDIA GPU: f16 and bf16 on tensor cores, f32 in plain FMA",
    .options = options,
    .n_options = 2,
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
static const struct attn_backend *const backends[] = {&backend};

const struct attn_plugin attn_plugin = {
    .abi_version = ATTN_ABI_VERSION,
    .struct_size = sizeof(struct attn_plugin),
    .n_backends = 1,
    .backends = backends,
};
