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
    void *kernel, *merge, *project; /* the last two: NULL without splits, without projections */
    struct attn_gpu_grid grid, merge_grid, project_grid;
    uint32_t dtype;
    int32_t key_tile;
    int tensor_cores;
    int batch_alone; /* keys would be split in the same way for one batch entry alone */
    uint64_t partial_bytes, projected_q_bytes, projected_k_bytes;
    /* NULL where not needed */
    struct attn_cublas *cublas;
    struct attn_cuda_unfused *unfused; /* then there is no kernel and no grid */
    struct attn_cuda_mha *mha;
    uint64_t step_bytes; /* of these three */
};

/* ATTN_OK, or ATTN_UNSUPPORTED with the reason. */
int attn_cuda_supports(const struct attn_problem *problem, char *why, size_t size);

/* For a problem that is supported; frees all on failure. */
int attn_cuda_plan_create(const struct attn_problem *problem, const struct attn_services *services,
                          struct attn_cuda_plan **plan, char *why, size_t size);
void attn_cuda_plan_destroy(struct attn_cuda_plan *plan);

/* Starts the attention of one run, without projections. */
int attn_cuda_plan_start(const struct attn_cuda_plan *plan, const struct attn_cuda_args *args,
                         char *why, size_t size);

/* What the kernels of a problem are given, without operands. */
struct attn_cuda_args attn_cuda_args_of(const struct attn_problem *problem);

/* The kernel STEP_TYPE of an element type, allowed this much shared memory. */
int attn_cuda_find_step(const char *step, uint32_t dtype, uint32_t shared_bytes, void **kernel,
                        char *why, size_t size);

/* The place of a role's view in the arguments. */
struct attn_cuda_view *attn_cuda_view_of(struct attn_cuda_args *args, uint32_t role);

#endif
