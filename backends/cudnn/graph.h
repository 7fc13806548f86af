/* SPDX-License-Identifier: Apache-2.0 */
/* graph.h - attention as a graph of cuDNN's operations, and the engine that runs it. Functions that
 * return an int give ATTN_OK, or another attn_result with one sentence in (why, size), like the
 * slots. */
#ifndef ATTN_CUDNN_GRAPH_H
#define ATTN_CUDNN_GRAPH_H

#include <stddef.h>
#include <stdint.h>

#include "attnbench/backend.h"

/* Operands of a graph are named by their role. This one is not a tensor of a problem. It goes with
 * ATTN_LEN: i32 [B], the number of queries in every batch. */
#define ATTN_CUDNN_ROWS 1000

/* The keys that a row sees by its position: i - left <= j <= i + right. With bottom_right, i and j
 * count from the last row and the last key. A side of -1 is unbounded. */
struct attn_cudnn_band {
    int bottom_right;
    int64_t left, right;
    int64_t least; /* with fewer keys, or valid keys, some row sees none */
};
struct attn_cudnn_band attn_cudnn_band(const struct attn_problem *problem);

/* ATTN_OK, or ATTN_UNSUPPORTED with the reason, from the problem alone. */
int attn_cudnn_supports(const struct attn_problem *problem, char *why, size_t size);

struct attn_cudnn_graph;

/* The graph of a problem that is supported, and the engines that cuDNN offers for it on a device
 * (attn_cudnn_device). The device must outlive the graph. ATTN_UNSUPPORTED if there is no engine.
 */
int attn_cudnn_graph_create(const struct attn_problem *problem, void *device,
                            struct attn_cudnn_graph **graph, char *why, size_t size);
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
