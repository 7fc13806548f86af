/* SPDX-License-Identifier: Apache-2.0 */
/* engine.c - which of cuDNN's engines runs a graph, and one run of it. */
#include "engine.h"

#include <stdio.h>
#include <stdlib.h>

#include "attnbench/backend.h"
#include "library.h"

#define OPERANDS  16 /* at most, of a run */
#define ALIGNMENT 256

static const char asking[] = "asking for an engine";

static int own(struct attn_cudnn_graph *graph, int type, void **descriptor, char *why, size_t size)
{
    void *made = NULL;
    int status = attn_cudnn_check(attn_cudnn.CreateDescriptor(type, &made), asking, why, size);
    if (status == ATTN_OK)
        *descriptor = graph->owned[graph->n_owned++] = made;
    return status;
}

static int set_descriptor(void *descriptor, int name, void *value, char *why, size_t size)
{
    return attn_cudnn_check(
        attn_cudnn.SetAttribute(descriptor, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value), asking,
        why, size);
}

int attn_cudnn_graph_engines(struct attn_cudnn_graph *graph, void *operation_graph, char *why,
                             size_t size)
{
    const int mode = CUDNN_HEUR_MODE_A;
    void *heuristics = NULL;
    int status = own(graph, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, &heuristics, why, size);
    for (int e = 0; e < ATTN_CUDNN_ENGINES && status == ATTN_OK; e++)
        status = own(graph, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &graph->engines[e], why, size);
    if (status == ATTN_OK)
        status = set_descriptor(heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, operation_graph,
                                why, size);
    if (status == ATTN_OK)
        status = attn_cudnn_check(attn_cudnn.SetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_MODE,
                                                          CUDNN_TYPE_HEUR_MODE, 1, &mode),
                                  asking, why, size);
    if (status == ATTN_OK)
        status =
            set_descriptor(heuristics, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, graph->device, why, size);
    if (status == ATTN_OK)
        status = attn_cudnn_check(attn_cudnn.Finalize(heuristics), asking, why, size);
    if (status == ATTN_OK)
        status = attn_cudnn_check(attn_cudnn.GetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                                          CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                                          ATTN_CUDNN_ENGINES, &graph->n_engines,
                                                          (void *)graph->engines),
                                  asking, why, size);
    if (graph->n_engines > ATTN_CUDNN_ENGINES)
        graph->n_engines = ATTN_CUDNN_ENGINES;
    if (status == ATTN_OK && graph->n_engines < 1) {
        snprintf(why, size, "cuDNN has no engine for this problem on this GPU");
        status = ATTN_UNSUPPORTED;
    }
    return status;
}

void attn_cudnn_graph_destroy(struct attn_cudnn_graph *graph)
{
    if (graph->plan)
        attn_cudnn.DestroyDescriptor(graph->plan);
    while (graph->n_owned > 0)
        attn_cudnn.DestroyDescriptor(graph->owned[--graph->n_owned]);
    free(graph);
}

static int plan_on(struct attn_cudnn_graph *graph, void *engine, char *why, size_t size)
{
    static const char doing[] = "building an engine";
    int64_t count = 0;
    void *plan = NULL;
    int status = attn_cudnn_check(
        attn_cudnn.CreateDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &plan), doing, why,
        size);
    if (status == ATTN_OK)
        status = set_descriptor(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, engine, why, size);
    if (status == ATTN_OK)
        status =
            set_descriptor(plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, graph->device, why, size);
    if (status == ATTN_OK)
        status = attn_cudnn_check(attn_cudnn.Finalize(plan), doing, why, size);
    if (status == ATTN_OK)
        status = attn_cudnn_check(
            attn_cudnn.GetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                    CUDNN_TYPE_INT64, 1, &count, &graph->workspace_bytes),
            doing, why, size);
    if (status == ATTN_OK)
        graph->plan = plan;
    else if (plan)
        attn_cudnn.DestroyDescriptor(plan);
    return status;
}

int attn_cudnn_graph_plan(struct attn_cudnn_graph *graph, char *why, size_t size)
{
    int status = ATTN_UNSUPPORTED;
    for (int64_t e = 0; e < graph->n_engines && status != ATTN_OK; e++) {
        status = plan_on(graph, graph->engines[e], why, size);
        graph->chosen = e;
    }
    return status;
}

void attn_cudnn_graph_describe(const struct attn_cudnn_graph *graph, char *text, size_t size)
{
    int64_t count = 0, index = -1;
    void *engine = NULL;
    if (attn_cudnn.CreateDescriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine) == 0 &&
        attn_cudnn.GetAttribute(graph->engines[graph->chosen], CUDNN_ATTR_ENGINECFG_ENGINE,
                                CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, (void *)&engine) == 0)
        attn_cudnn.GetAttribute(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &count,
                                &index);
    if (engine)
        attn_cudnn.DestroyDescriptor(engine);
    snprintf(text, size, "engine %lld, choice %lld of %lld, on %d operations", (long long)index,
             (long long)graph->chosen + 1, (long long)graph->n_engines, graph->n_operations);
}

/* Of stored tensors: each begins at a multiple of ALIGNMENT. */
static uint64_t stored_size(const struct attn_cudnn_graph *graph, int count)
{
    uint64_t size = 0;
    for (int t = 0; t < count; t++)
        size += ((uint64_t)graph->stored_bytes[t] + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return size;
}

uint64_t attn_cudnn_graph_workspace(const struct attn_cudnn_graph *graph)
{
    return stored_size(graph, graph->n_stored) + (uint64_t)graph->workspace_bytes;
}

int attn_cudnn_pack_create(const struct attn_cudnn_graph *graph, const int64_t *roles,
                           void *const *operands, int n_operands, void *workspace, void **pack,
                           char *why, size_t size)
{
    static const char doing[] = "binding operands";
    int64_t uids[OPERANDS + ATTN_CUDNN_STORED + ATTN_CUDNN_SCALARS], n = 0;
    const void *data[OPERANDS + ATTN_CUDNN_STORED + ATTN_CUDNN_SCALARS];
    void *made = NULL, *rest = (char *)workspace + stored_size(graph, graph->n_stored);
    for (; n < n_operands && n < OPERANDS; n++) {
        uids[n] = roles[n];
        data[n] = operands[n];
    }
    for (int t = 0; t < graph->n_stored; t++, n++) {
        uids[n] = graph->stored_uids[t];
        data[n] = (char *)workspace + stored_size(graph, t);
    }
    for (int s = 0; s < graph->n_scalars; s++, n++) {
        uids[n] = graph->scalar_uids[s];
        data[n] = &graph->scalars[s];
    }
    int status =
        attn_cudnn_check(attn_cudnn.CreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &made),
                         doing, why, size);
    if (status == ATTN_OK)
        status = attn_cudnn_check(attn_cudnn.SetAttribute(made, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS,
                                                          CUDNN_TYPE_INT64, n, uids),
                                  doing, why, size);
    if (status == ATTN_OK)
        status =
            attn_cudnn_check(attn_cudnn.SetAttribute(made, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
                                                     CUDNN_TYPE_VOID_PTR, n, (void *)data),
                             doing, why, size);
    if (status == ATTN_OK)
        status = attn_cudnn_check(attn_cudnn.SetAttribute(made, CUDNN_ATTR_VARIANT_PACK_WORKSPACE,
                                                          CUDNN_TYPE_VOID_PTR, 1, &rest),
                                  doing, why, size);
    if (status == ATTN_OK)
        status = attn_cudnn_check(attn_cudnn.Finalize(made), doing, why, size);
    if (status == ATTN_OK)
        *pack = made;
    else if (made)
        attn_cudnn.DestroyDescriptor(made);
    return status;
}

int attn_cudnn_graph_execute(const struct attn_cudnn_graph *graph, void *handle, void *pack,
                             char *why, size_t size)
{
    return attn_cudnn_check(attn_cudnn.Execute(handle, graph->plan, pack), "running attention", why,
                            size);
}
