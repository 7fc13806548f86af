/* SPDX-License-Identifier: Apache-2.0 */
/* plan.h - one problem on the GPU: a planned graph, and the memory that a run needs. */
#ifndef ATTN_CUDNN_PLAN_H
#define ATTN_CUDNN_PLAN_H

#include <stddef.h>
#include <stdint.h>

#include "ready.h"

struct attn_cudnn_plan {
    const struct attn_services *services;
    struct attn_cudnn_key key;
    struct attn_cudnn_graph *graph;
    void *handle, *queue, *workspace;
    void *rows, *keys; /* of ATTN_CUDNN_ROWS and ATTN_CUDNN_KEYS, or NULL */
    int64_t least;     /* see struct attn_cudnn_band */
    int64_t splits;    /* the splits that fit into the workspace; see plan.c */
    uint32_t dtype;
    int backward, grouped;
};

/* Opens driver, device and cuDNN, once per process. ATTN_NO_DEVICE: one of them is missing. */
int attn_cudnn_start(const struct attn_services *services, char *why, size_t size);
/* Asks cuDNN whether it has an engine for a problem, if cuDNN is open. */
int attn_cudnn_ask(const struct attn_problem *problem, char *why, size_t size);

/* The problem must be supported. Frees everything on failure. */
int attn_cudnn_plan_create(const struct attn_problem *problem, const struct attn_services *services,
                           void **plan, char *why, size_t size);
void attn_cudnn_plan_destroy(void *plan);

/* Starts one run. */
int attn_cudnn_plan_start(const struct attn_cudnn_plan *plan, void *pack, char *why, size_t size);

#endif
