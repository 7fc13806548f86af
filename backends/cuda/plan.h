/* SPDX-License-Identifier: Apache-2.0 */
/* plan.h - what the kernels can do, and how one problem is given to them. */
#ifndef ATTN_CUDA_PLAN_H
#define ATTN_CUDA_PLAN_H

#include "gpu.h"

struct attn_cuda_plan {
    const struct attn_services *services;
    void *queue;
    struct attn_cuda_args args; /* without operands */
    char kernel_name[32];
    void *kernel, *merge; /* merge: NULL without splits */
    struct attn_gpu_grid grid, merge_grid;
    uint32_t dtype;
    int32_t key_tile;
    int tensor_cores;
    uint64_t partial_bytes;
};

/* ATTN_OK, or ATTN_UNSUPPORTED with the reason. */
int attn_cuda_supports(const struct attn_problem *problem, char *why, size_t size);

/* For a problem that is supported; frees all on failure. */
int attn_cuda_plan_create(const struct attn_problem *problem, const struct attn_services *services,
                          struct attn_cuda_plan **plan, char *why, size_t size);
void attn_cuda_plan_destroy(struct attn_cuda_plan *plan);

/* Starts one run. */
int attn_cuda_plan_start(const struct attn_cuda_plan *plan, const struct attn_cuda_args *args,
                         char *why, size_t size);

/* The place of a role's view in the arguments. */
struct attn_cuda_view *attn_cuda_view_of(struct attn_cuda_args *args, uint32_t role);

#endif
