/* SPDX-License-Identifier: Apache-2.0 */
/* plan.c - see plan.h. */
#include "plan.h"

#include <stdio.h>

#include "../cuda/gpu.h"
#include "engine.h"
#include "graph.h"
#include "library.h"
#include "supports.h"

/* Of the process: a handle holds memory of the device, and is no part of a plan. */
static void *handle, *device;

int attn_cudnn_start(const struct attn_services *services, char *why, size_t size)
{
    int status = attn_gpu_open(services, why, size);
    if (status == ATTN_OK)
        status = attn_cudnn_open(why, size);
    if (status == ATTN_OK && !handle)
        status = attn_cudnn_check(attn_cudnn.Create(&handle), "starting cuDNN", why, size);
    if (status == ATTN_OK && !device)
        status = attn_cudnn_device(CUDNN_ATTR_DEVICEPROP_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle,
                                   &device, why, size);
    return status == ATTN_OK ? ATTN_OK : ATTN_NO_DEVICE;
}

int attn_cudnn_ask(const struct attn_problem *problem, char *why, size_t size)
{
    struct attn_cudnn_graph *graph;
    if (!device)
        return ATTN_OK;
    int status = attn_cudnn_graph_create(problem, device, &graph, why, size);
    if (status == ATTN_OK)
        attn_cudnn_graph_destroy(graph);
    return status == ATTN_OK ? ATTN_OK : ATTN_UNSUPPORTED;
}

/* The same number for every batch, in memory of the device. */
static int make_counts(struct attn_cudnn_plan *plan, int64_t batches, int64_t number, void **counts,
                       char *why, size_t size)
{
    const struct attn_services *services = plan->services;
    const size_t bytes = (size_t)batches * sizeof(int32_t);
    int32_t *host = services->alloc(services->context, bytes, 64);
    if (!host) {
        snprintf(why, size, "no memory for the numbers of queries and keys");
        return ATTN_OUT_OF_MEMORY;
    }
    for (int64_t b = 0; b < batches; b++)
        host[b] = (int32_t)number;
    int status = attn_gpu_allocate(bytes, counts, why, size);
    if (status == ATTN_OK)
        status = attn_gpu_copy_in(*counts, host, bytes, why, size);
    services->free(services->context, host);
    return status;
}

/* cuDNN does not say into how many parts it splits the keys of few rows. But an engine that does so
 * asks for the memory of the parts, each a row of f32 with its maximum and its sum, beside the up
 * to 256 bytes that others ask for. */
static int64_t splits_of(const struct attn_cudnn_graph *graph, const struct attn_problem *p)
{
    const double part = 4.0 * (double)p->b * (double)p->hq * (double)p->sq * (double)(p->dv + 2);
    const double parts = ((double)attn_cudnn_graph_workspace(graph) - 256.0) / part;
    return parts > 1.5 ? (int64_t)(parts + 0.5) : 0;
}

int attn_cudnn_plan_create(const struct attn_problem *problem, const struct attn_services *services,
                           void **out, char *why, size_t size)
{
    const int padded = attn_cudnn_is_padded(problem);
    int status = attn_cudnn_start(services, why, size);
    if (status != ATTN_OK)
        return status;
    struct attn_cudnn_plan *plan = services->alloc(services->context, sizeof *plan, 64);
    if (!plan) {
        snprintf(why, size, "no memory for a plan");
        return ATTN_OUT_OF_MEMORY;
    }
    *plan = (struct attn_cudnn_plan){
        .services = services,
        .handle = handle,
        .least = attn_cudnn_band(problem).least,
        .dtype = problem->dtype,
        .backward = problem->op == ATTN_OP_ATTENTION_BACKWARD,
        .grouped = problem->hq != problem->hkv,
    };
    status = attn_cudnn_ready_take(problem, device, &plan->key, &plan->graph, why, size);
    if (status == ATTN_OK && !plan->backward)
        plan->splits = splits_of(plan->graph, problem);
    if (status == ATTN_OK)
        status = attn_gpu_queue_create(&plan->queue, why, size);
    if (status == ATTN_OK)
        status =
            attn_gpu_allocate(attn_cudnn_graph_workspace(plan->graph), &plan->workspace, why, size);
    if (status == ATTN_OK && padded)
        status = make_counts(plan, problem->b, problem->sq, &plan->rows, why, size);
    if (status == ATTN_OK && padded && !attn_tensor_find(problem, ATTN_LEN))
        status = make_counts(plan, problem->b, problem->sk, &plan->keys, why, size);
    if (status == ATTN_OK)
        *out = plan;
    else
        attn_cudnn_plan_destroy(plan);
    return status;
}

void attn_cudnn_plan_destroy(void *made)
{
    struct attn_cudnn_plan *plan = made;
    attn_gpu_release(plan->rows);
    attn_gpu_release(plan->keys);
    attn_gpu_release(plan->workspace);
    attn_gpu_queue_destroy(plan->queue);
    if (plan->graph)
        attn_cudnn_ready_give(&plan->key, plan->graph);
    plan->services->free(plan->services->context, plan);
}

int attn_cudnn_plan_start(const struct attn_cudnn_plan *plan, void *pack, char *why, size_t size)
{
    int status = attn_cudnn_check(attn_cudnn.SetStream(plan->handle, attn_gpu_stream(plan->queue)),
                                  "choosing a stream", why, size);
    if (status == ATTN_OK)
        status = attn_gpu_mark(plan->queue, 0, why, size);
    if (status == ATTN_OK)
        status = attn_cudnn_graph_execute(plan->graph, plan->handle, pack, why, size);
    if (status == ATTN_OK)
        status = attn_gpu_mark(plan->queue, 1, why, size);
    return status;
}
