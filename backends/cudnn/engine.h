/* SPDX-License-Identifier: Apache-2.0 */
/* engine.h - the contents of a graph. graph.c describes it, engine.c runs it. */
#ifndef ATTN_CUDNN_ENGINE_H
#define ATTN_CUDNN_ENGINE_H

#include "graph.h"

/* A graph with every supported feature has 40 operations of three descriptors. */
#define ATTN_CUDNN_OPERATIONS  64
#define ATTN_CUDNN_DESCRIPTORS 256
#define ATTN_CUDNN_SCALARS     12
#define ATTN_CUDNN_ENGINES     8 /* more than the heuristics return for attention */

union attn_cudnn_scalar {
    float f;
    int32_t i;
};

struct attn_cudnn_graph {
    void *device;
    void *operations[ATTN_CUDNN_OPERATIONS];
    int n_operations;
    void *owned[ATTN_CUDNN_DESCRIPTORS]; /* destroyed in reverse order */
    int n_owned;
    int64_t scalar_uids[ATTN_CUDNN_SCALARS]; /* values that a run reads from the host */
    union attn_cudnn_scalar scalars[ATTN_CUDNN_SCALARS];
    int n_scalars;
    void *engines[ATTN_CUDNN_ENGINES]; /* configurations, best first */
    int64_t n_engines, chosen;
    void *plan;
    int64_t workspace_bytes;
};

/* Asks the heuristics for engines. cuDNN returns those that can run the graph. */
int attn_cudnn_graph_engines(struct attn_cudnn_graph *graph, void *operation_graph, char *why,
                             size_t size);

#endif
