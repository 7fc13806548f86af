/* SPDX-License-Identifier: Apache-2.0 */
/* graph.h - attention as a graph of cuDNN's operations. engine.h runs it. */
#ifndef ATTN_CUDNN_GRAPH_H
#define ATTN_CUDNN_GRAPH_H

#include <stddef.h>
#include <stdint.h>

#include "attnbench/backend.h"

/* Operands of a graph are named by their role. These are not tensors of a problem: i32 [B], the
 * number of queries, and of keys in place of ATTN_LEN, in every batch. A graph with a padding mask
 * (supports.h) has ROWS, and KEYS or ATTN_LEN. */
#define ATTN_CUDNN_ROWS 1000
#define ATTN_CUDNN_KEYS 1001

struct attn_cudnn_graph;

/* The graph of a problem that is supported, and the engines that cuDNN offers for it on a device
 * (attn_cudnn_device). The device must outlive the graph. ATTN_OK, ATTN_UNSUPPORTED if there is no
 * engine, or another attn_result, with one sentence in (why, size). Destroy it with
 * attn_cudnn_graph_destroy of engine.h. */
int attn_cudnn_graph_create(const struct attn_problem *problem, void *device,
                            struct attn_cudnn_graph **graph, char *why, size_t size);

#endif
