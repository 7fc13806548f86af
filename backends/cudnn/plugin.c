/* SPDX-License-Identifier: Apache-2.0 */
/* plugin.c - cuDNN's attention: operands live on the device from bind to release. */
#include <stdio.h>

#include "../cuda/operands.h"
#include "engine.h"
#include "graph.h"
#include "library.h"
#include "plan.h"
#include "supports.h"

#ifndef BACKEND /* tests name theirs otherwise */
#define BACKEND "cuda_cudnn"
#endif

struct binding {
    struct attn_cudnn_plan *plan;
    struct attn_cuda_operands operands;
    void *pack;
};

static void version(char *text, size_t size)
{
    if (!attn_cudnn.GetVersion) {
        snprintf(text, size, "no library opened");
        return;
    }
    const unsigned v = (unsigned)attn_cudnn.GetVersion();
    const int used = snprintf(text, size, "cuDNN %u.%u.%u, ", v / 10000, v / 100 % 100, v % 100);
    if (used > 0 && (size_t)used < size)
        attn_gpu_version(text + used, size - (size_t)used);
}

static int supports(const struct attn_problem *problem, const struct attn_services *services,
                    char *why, size_t size)
{
    (void)services;
    int status = attn_cudnn_supports(problem, why, size);
    return status == ATTN_OK ? attn_cudnn_ask(problem, why, size) : status;
}

/* The harness keeps 255 characters. */
static const char source_of_attention[] =
    "cuDNN's documentation: deterministic. Its graph: f32, but weights of 16 bits. exp, log: PTX "
    "manual. Sums of tensor cores: Fasi, Higham, Mikaitis, Pranesh (2021). Tile: the smallest in "
    "names of its kernels. Splits: by the workspace";
static const char source_of_gradients[] =
    "cuDNN's graph: f32, but p, dS and the heads' parts of dK and dV of 16 bits; dQ by atomic "
    "additions. exp: PTX manual. Sums of tensor cores: Fasi, Higham, Mikaitis, Pranesh (2021). "
    "Tiles: the smallest in names of its kernels";
_Static_assert(sizeof source_of_attention <= 256 && sizeof source_of_gradients <= 256,
               "the harness would cut a source");

static void numerics(const void *plan, struct attn_numerics *n)
{
    const struct attn_cudnn_plan *self = plan;
    n->acc_type = ATTN_F32;
    n->p_type = self->dtype;
    n->denominator = !self->backward;
    n->acc_toward_zero = 1;
    n->deterministic = !self->backward; /* GRAD_Q is summed up by atomic additions */
    n->key_tile = 64;
    n->query_tile = self->backward ? 64 : 0;
    n->ds_type = self->backward ? self->dtype : 0;
    n->grad_partial_type = self->backward && self->grouped ? self->dtype : 0;
    n->splits = self->splits;
    n->e_exp = 0x1p-22;
    n->e_arg = 0x1p-22;
    n->e_log = 0x1p-22;
    n->source = self->backward ? source_of_gradients : source_of_attention;
}

static void release(void *binding)
{
    struct binding *self = binding;
    const struct attn_services *services = self->plan->services;
    if (self->pack)
        attn_cudnn.DestroyDescriptor(self->pack);
    attn_cuda_operands_release(&self->operands);
    services->free(services->context, self);
}

/* What cuDNN makes of a row without keys is nowhere said. */
static int check_lengths(const struct attn_cudnn_plan *plan, const struct attn_tensor *len,
                         char *why, size_t size)
{
    for (int64_t b = 0; b < len->shape[0]; b++)
        if (((const int32_t *)len->data)[b * len->stride[0]] < plan->least) {
            snprintf(why, size, "rows without keys are not supported, and a length makes some");
            return ATTN_UNSUPPORTED;
        }
    return ATTN_OK;
}

static int make_pack(struct binding *self, char *why, size_t size)
{
    const struct attn_cudnn_plan *plan = self->plan;
    int64_t roles[ATTN_OPERANDS_MAX + 2];
    void *operands[ATTN_OPERANDS_MAX + 2];
    int n = 0;
    for (; n < (int)self->operands.count; n++) {
        roles[n] = self->operands.device[n].role;
        operands[n] = self->operands.device[n].data;
    }
    if (plan->rows) {
        roles[n] = ATTN_CUDNN_ROWS;
        operands[n++] = plan->rows;
    }
    if (plan->keys) {
        roles[n] = ATTN_CUDNN_KEYS;
        operands[n++] = plan->keys;
    }
    return attn_cudnn_pack_create(plan->graph, roles, operands, n, plan->workspace, &self->pack,
                                  why, size);
}

static int bind(void *plan, const struct attn_tensor *tensors, uint32_t n_tensors, void **binding,
                char *why, size_t size)
{
    struct attn_cudnn_plan *on = plan;
    const struct attn_services *services = on->services;
    struct binding *made = services->alloc(services->context, sizeof *made, 64);
    int status = ATTN_OK;
    if (!made) {
        snprintf(why, size, "no memory for a binding");
        return ATTN_OUT_OF_MEMORY;
    }
    *made = (struct binding){.plan = on, .operands = {.services = services}};
    for (uint32_t t = 0; t < n_tensors && status == ATTN_OK; t++)
        if (tensors[t].role == ATTN_LEN)
            status = check_lengths(on, &tensors[t], why, size);
    if (status == ATTN_OK)
        status = attn_cuda_operands_bring(&made->operands, tensors, n_tensors, why, size);
    if (status == ATTN_OK)
        status = make_pack(made, why, size);
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
    return attn_cudnn_plan_start(self->plan, self->pack, why, size);
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
    attn_cudnn_graph_describe(((const struct attn_cudnn_plan *)plan)->graph, text, size);
}

static uint64_t workspace_bytes(const void *plan)
{
    return attn_cudnn_graph_workspace(((const struct attn_cudnn_plan *)plan)->graph);
}

static const struct attn_option_spec options[] = {
    {.key = "device",
     .type = ATTN_OPTION_INT,
     .default_value = "0",
     .help = "index of the GPU, as the CUDA driver counts"},
};

static const struct attn_backend backend = {
    .struct_size = sizeof(struct attn_backend),
    .exactness = ATTN_EXACT,
    .name = BACKEND,
    .description = "cuDNN's fused attention on an NVIDIA GPU, and its gradients: f16 and bf16",
    .options = options,
    .n_options = 1,
    .version = version,
    .probe = attn_cudnn_start,
    .supports = supports,
    .create = attn_cudnn_plan_create,
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
    .destroy = attn_cudnn_plan_destroy,
    .device = attn_gpu_device,
};
static const struct attn_backend *const backends[] = {&backend};

const struct attn_plugin attn_plugin = {
    .abi_version = ATTN_ABI_VERSION,
    .struct_size = sizeof(struct attn_plugin),
    .n_backends = 1,
    .backends = backends,
};
