/* SPDX-License-Identifier: Apache-2.0 */
/* engine.h - the contents of a graph, and the engine that runs it. graph.c fills it. Functions that
 * return an int give ATTN_OK, or another attn_result with one sentence in (why, size), like the
 * slots. */
#ifndef ATTN_CUDNN_ENGINE_H
#define ATTN_CUDNN_ENGINE_H

#include <stddef.h>
#include <stdint.h>

/* A graph with every supported feature has some 40 operations of three descriptors. */
#define ATTN_CUDNN_OPERATIONS  64
#define ATTN_CUDNN_DESCRIPTORS 256
#define ATTN_CUDNN_SCALARS     12
#define ATTN_CUDNN_STORED      2
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
    int64_t stored_uids[ATTN_CUDNN_STORED]; /* tensors that lie in the workspace, before cuDNN's */
    int64_t stored_bytes[ATTN_CUDNN_STORED];
    int n_stored;
    void *engines[ATTN_CUDNN_ENGINES]; /* configurations, best first */
    int64_t n_engines, chosen;
    void *plan;
    int64_t workspace_bytes;
};

/* Asks the heuristics for engines. cuDNN returns those that can run the graph. */
int attn_cudnn_graph_engines(struct attn_cudnn_graph *graph, void *operation_graph, char *why,
                             size_t size);

void attn_cudnn_graph_destroy(struct attn_cudnn_graph *graph);

/* Builds the first of these engines that can be built. This may compile a kernel. */
int attn_cudnn_graph_plan(struct attn_cudnn_graph *graph, char *why, size_t size);
void attn_cudnn_graph_describe(const struct attn_cudnn_graph *graph, char *text, size_t size);
uint64_t attn_cudnn_graph_workspace(const struct attn_cudnn_graph *graph);

/* A planned graph on operands in device memory, by role. Destroy it like a descriptor. */
int attn_cudnn_pack_create(const struct attn_cudnn_graph *graph, const int64_t *roles,
                           void *const *operands, int n_operands, void *workspace, void **pack,
                           char *why, size_t size);
int attn_cudnn_graph_execute(const struct attn_cudnn_graph *graph, void *handle, void *pack,
                             char *why, size_t size);

#endif
