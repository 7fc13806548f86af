/* SPDX-License-Identifier: Apache-2.0 */
/* graph.h - attention as a graph of cuDNN's operations, and the engine that runs it. Functions that
 * return an int give ATTN_OK or another attn_result with one sentence in (why, size), as slots do.
 */
#ifndef ATTN_CUDNN_GRAPH_H
#define ATTN_CUDNN_GRAPH_H

#include <stddef.h>
#include <stdint.h>

#include "attnbench/backend.h"

/* Operands of a graph are named by their role; this one is no tensor of a problem, but goes with
 * ATTN_LEN: i32 [B], the number of queries in every batch. */
#define ATTN_CUDNN_ROWS 1000

/* The keys a row sees by its place: i - left <= j <= i + right, or the same from the last row and
 * the last key up. A side of -1 is unbounded. */
struct attn_cudnn_band {
    int bottom_right;
    int64_t left, right;
    int64_t least; /* keys, or valid keys, below which some row sees none */
};
struct attn_cudnn_band attn_cudnn_band(const struct attn_problem *problem);

/* ATTN_OK, or ATTN_UNSUPPORTED with the reason: what follows from the problem alone. */
int attn_cudnn_supports(const struct attn_problem *problem, char *why, size_t size);

struct attn_cudnn_graph;

/* The graph of a problem that is supported, and the engines that cuDNN offers for it on a device
 * (attn_cudnn_device), which must outlive it. ATTN_UNSUPPORTED: there is none. */
int attn_cudnn_graph_create(const struct attn_problem *problem, void *device,
                            struct attn_cudnn_graph **graph, char *why, size_t size);
void attn_cudnn_graph_destroy(struct attn_cudnn_graph *graph);

/* Builds the first of these engines that can be built: this may compile a kernel. */
int attn_cudnn_graph_plan(struct attn_cudnn_graph *graph, char *why, size_t size);
void attn_cudnn_graph_describe(const struct attn_cudnn_graph *graph, char *text, size_t size);
uint64_t attn_cudnn_graph_workspace(const struct attn_cudnn_graph *graph);

/* A planned graph on operands in device memory, by role. To be destroyed as a descriptor. */
int attn_cudnn_pack_create(const struct attn_cudnn_graph *graph, const int64_t *roles,
                           void *const *operands, int n_operands, void *workspace, void **pack,
                           char *why, size_t size);
int attn_cudnn_graph_execute(const struct attn_cudnn_graph *graph, void *handle, void *pack,
                             char *why, size_t size);

#endif
