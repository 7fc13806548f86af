/* SPDX-License-Identifier: Apache-2.0 */
/* mha.c - see mha.h */
#include "mha.h"

#include <stdio.h>

#include "attention.h"
#include "host_args.h"
#include "product.h"

enum { Q, K, V, O, PROJECTIONS };

struct attn_cuda_mha {
    struct attn_problem heads; /* attention alone; q, k, v, out come first */
    struct attn_tensor tensors[ATTN_CUDA_MHA_TENSORS];
    struct attn_cuda_product projections[PROJECTIONS];
    void *buffers[PROJECTIONS]; /* q, k, v and, with an output projection, what the heads give */
    void *lay;                  /* kernel */
    int residual;
};

/* Rows [B,S,E] as a stack of one matrix a batch. */
static struct attn_cuda_stack rows_of(const struct attn_tensor *x)
{
    return (struct attn_cuda_stack){.dtype = x->dtype,
                                    .stride = {0, 0, x->stride[0], x->stride[1], x->stride[2]}};
}

/* Heads [B,H,S,D] of a buffer as rows [B,S,H*D]. */
static struct attn_tensor joined(const struct attn_tensor *heads)
{
    return (struct attn_tensor){
        .dtype = heads->dtype,
        .shape = {heads->shape[0], heads->shape[2], heads->shape[1] * heads->shape[3]},
        .stride = {heads->stride[0], heads->stride[2], heads->stride[3]}};
}

/* The input of projection n, which may be that of the one before. */
static const struct attn_tensor *input_of(const struct attn_problem *given, int n)
{
    const struct attn_tensor *x = NULL;
    for (int role = n; !x && role >= 0; role--)
        x = attn_tensor_find(given, ATTN_X_Q + (uint32_t)role);
    return x;
}

static int create_projection(struct attn_cuda_plan *plan, const struct attn_problem *p, int n,
                             char *why, size_t size)
{
    struct attn_cuda_mha *mha = plan->mha;
    struct attn_cuda_product *product = &mha->projections[n];
    const struct attn_tensor *w = attn_tensor_find(p, ATTN_W_Q + (uint32_t)n);
    const struct attn_tensor heads = joined(&mha->tensors[n]);
    const struct attn_tensor x = n == O ? heads : *input_of(p, n);
    const struct attn_tensor y = n == O ? *attn_tensor_find(p, ATTN_OUT) : heads;
    const uint64_t bytes = (uint64_t)(heads.shape[0] * heads.shape[1] * heads.shape[2]) *
                           (p->dtype == ATTN_F32 ? 4 : 2);
    if (!w)
        return ATTN_OK;
    *product = (struct attn_cuda_product){
        .cublas = plan->cublas,
        .extent = {1, 1, p->b},
        .m = y.shape[1],
        .n = y.shape[2],
        .inner = x.shape[2],
        .stack = {rows_of(&x),
                  {.dtype = w->dtype, .stride = {0, 0, 0, w->stride[0], w->stride[1]}},
                  rows_of(&y)}};
    int status = attn_gpu_allocate(bytes, &mha->buffers[n], why, size);
    if (status == ATTN_OK)
        status = attn_cuda_product_create(product, why, size);
    plan->step_bytes += bytes + product->bytes;
    return status;
}

int attn_cuda_mha_create(attn_cuda_creator *attention, const struct attn_problem *problem,
                         const struct attn_services *services, struct attn_cuda_plan **out,
                         char *why, size_t size)
{
    struct attn_cuda_plan *plan = NULL;
    struct attn_cuda_mha *mha = services->alloc(services->context, sizeof *mha, 64);
    if (!mha) {
        snprintf(why, size, "no memory for a plan");
        return ATTN_OUT_OF_MEMORY;
    }
    *mha = (struct attn_cuda_mha){.residual = problem->flags & ATTN_FLAG_RESIDUAL ? 1 : 0};
    int status = attn_cuda_mha_heads(problem, &mha->heads, mha->tensors, why, size);
    if (status == ATTN_OK)
        status = attention(&mha->heads, services, &plan, why, size);
    if (status != ATTN_OK) {
        services->free(services->context, mha);
        return status;
    }
    plan->mha = mha;
    status = attn_cuda_find_step("lay", problem->dtype, 0, &mha->lay, why, size);
    if (status == ATTN_OK && !plan->cublas) {
        status = attn_cublas_create(plan->queue, &plan->cublas, why, size);
        plan->step_bytes += attn_cublas_bytes();
    }
    for (int n = 0; n < PROJECTIONS && status == ATTN_OK; n++)
        status = create_projection(plan, problem, n, why, size);
    if (status == ATTN_OK)
        *out = plan;
    else
        attn_cuda_mha_destroy(plan);
    return status;
}

void attn_cuda_mha_destroy(struct attn_cuda_plan *plan)
{
    struct attn_cuda_mha *mha = plan->mha;
    const struct attn_services *services = plan->services;
    for (int n = 0; n < PROJECTIONS; n++) {
        attn_cuda_product_destroy(&mha->projections[n]);
        attn_gpu_release(mha->buffers[n]);
    }
    services->free(services->context, mha);
    attn_cuda_attention_destroy(plan);
}

void attn_cuda_mha_attach(const struct attn_cuda_plan *plan, const struct attn_problem *given,
                          struct attn_cuda_args *args)
{
    const struct attn_cuda_mha *mha = plan->mha;
    for (int n = 0; n < PROJECTIONS; n++) {
        const struct attn_tensor *tensor = &mha->tensors[n];
        struct attn_cuda_view *view = attn_cuda_view_of(args, tensor->role);
        view->data = mha->buffers[n] ? mha->buffers[n] : attn_tensor_find(given, ATTN_OUT)->data;
        for (uint32_t a = 0; a < tensor->rank; a++)
            view->stride[a] = tensor->stride[a];
    }
}

/* y = x w^T + bias, each row of y at a time where there is a bias. */
static int project(const struct attn_cuda_plan *plan, const struct attn_problem *given, int n,
                   const void *x, void *y, char *why, size_t size)
{
    const struct attn_cuda_product *product = &plan->mha->projections[n];
    const struct attn_tensor *w = attn_tensor_find(given, ATTN_W_Q + (uint32_t)n);
    const struct attn_tensor *bias = attn_tensor_find(given, ATTN_B_Q + (uint32_t)n);
    int status = ATTN_OK;
    if (bias) {
        struct attn_cuda_lay lay = {.to = y,
                                    .from = bias->data,
                                    .extent = {1, 1, product->extent[2], product->m, product->n},
                                    .from_stride = {0, 0, 0, 0, bias->stride[0]}};
        for (int a = 0; a < ATTN_CUDA_AXES; a++)
            lay.to_stride[a] = product->stack[2].stride[a];
        status = attn_cuda_lay_start(plan->queue, plan->mha->lay, &lay, why, size);
    }
    if (status == ATTN_OK)
        status = attn_cuda_product_start(product, x, w->data, y, bias != NULL, why, size);
    return status;
}

/* Pruned heads become 0, whatever they hold. */
static int prune(const struct attn_cuda_plan *plan, const struct attn_tensor *mask,
                 const struct attn_cuda_args *args, char *why, size_t size)
{
    const int64_t *stride = args->out.stride;
    const struct attn_cuda_lay lay = {
        .to = args->out.data,
        .from = args->out.data,
        .keep = mask->data,
        .keep_stride = mask->stride[0],
        .extent = {args->b, args->hq, 1, args->sq, args->dv},
        .to_stride = {stride[0], stride[1], 0, stride[2], stride[3]},
        .from_stride = {stride[0], stride[1], 0, stride[2], stride[3]}};
    return attn_cuda_lay_start(plan->queue, plan->mha->lay, &lay, why, size);
}

static int add_residual(const struct attn_cuda_plan *plan, const struct attn_problem *given,
                        char *why, size_t size)
{
    const struct attn_tensor *out = attn_tensor_find(given, ATTN_OUT);
    const struct attn_tensor *x = attn_tensor_find(given, ATTN_X_Q);
    const struct attn_cuda_lay lay = {
        .to = out->data,
        .from = out->data,
        .plus = x->data,
        .extent = {1, 1, out->shape[0], out->shape[1], out->shape[2]},
        .to_stride = {0, 0, out->stride[0], out->stride[1], out->stride[2]},
        .from_stride = {0, 0, out->stride[0], out->stride[1], out->stride[2]},
        .plus_stride = {0, 0, x->stride[0], x->stride[1], x->stride[2]}};
    return attn_cuda_lay_start(plan->queue, plan->mha->lay, &lay, why, size);
}

int attn_cuda_mha_start(const struct attn_cuda_plan *plan, const struct attn_problem *given,
                        const struct attn_cuda_args *args, char *why, size_t size)
{
    const struct attn_cuda_mha *mha = plan->mha;
    const struct attn_tensor *mask = attn_tensor_find(given, ATTN_HEAD_MASK);
    int status = ATTN_OK;
    for (int n = Q; n <= V && status == ATTN_OK; n++)
        status = project(plan, given, n, input_of(given, n)->data, mha->buffers[n], why, size);
    if (status == ATTN_OK)
        status = attn_cuda_attention_start(plan, args, why, size);
    if (status == ATTN_OK && mask)
        status = prune(plan, mask, args, why, size);
    if (status == ATTN_OK && mha->buffers[O])
        status = project(plan, given, O, mha->buffers[O], attn_tensor_find(given, ATTN_OUT)->data,
                         why, size);
    if (status == ATTN_OK && mha->residual)
        status = add_residual(plan, given, why, size);
    return status;
}
