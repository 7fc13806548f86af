/* SPDX-License-Identifier: Apache-2.0 */
/* ready.h - the planned graph that was used last, kept for the next plan of the same problem: cuDNN
 * takes a second to compile a kernel, and a verifier brings one problem with operands again and
 * again. One process, one thread. */
#ifndef ATTN_CUDNN_READY_H
#define ATTN_CUDNN_READY_H

#include <stddef.h>

#include "../cuda/operands.h"

struct attn_cudnn_graph;

/* What a graph was planned for: all of a problem but the data of its tensors. */
struct attn_cudnn_key {
    struct attn_problem problem;
    struct attn_tensor tensors[ATTN_OPERANDS_MAX];
};

/* The kept graph if it is one of this problem, else a new one, planned; it is the caller's. Writes
 * the key under which it is given back. */
int attn_cudnn_ready_take(const struct attn_problem *problem, void *device,
                          struct attn_cudnn_key *key, struct attn_cudnn_graph **graph, char *why,
                          size_t size);
/* Keeps a graph, and destroys the one that was kept before. */
void attn_cudnn_ready_give(const struct attn_cudnn_key *key, struct attn_cudnn_graph *graph);

#endif
