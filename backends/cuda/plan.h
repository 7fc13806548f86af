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
    void *kernel, *merge,
        *project; /* merge: NULL without splits; project: NULL without projections */
    struct attn_gpu_grid grid, merge_grid, project_grid;
    uint32_t dtype;
    int32_t key_tile;
    int tensor_cores;
    int batch_alone; /* one batch entry alone would have its keys split in the same way */
    uint64_t partial_bytes, projected_q_bytes, projected_k_bytes;
    /* NULL if not needed */
    struct attn_cublas *cublas;
    struct attn_cuda_unfused *unfused; /* then there is no kernel and no grid */
    struct attn_cuda_mha *mha;
    uint64_t step_bytes; /* of these three */
};

/* ATTN_OK, or ATTN_UNSUPPORTED with the reason. */
int attn_cuda_supports(const struct attn_problem *problem, char *why, size_t size);

/* The problem must be supported. Frees everything on failure. */
int attn_cuda_plan_create(const struct attn_problem *problem, const struct attn_services *services,
                          struct attn_cuda_plan **plan, char *why, size_t size);
void attn_cuda_plan_destroy(struct attn_cuda_plan *plan);

/* Starts the attention of one run, without projections. */
int attn_cuda_plan_start(const struct attn_cuda_plan *plan, const struct attn_cuda_args *args,
                         char *why, size_t size);

/* The arguments of the kernels of a problem, without operands. */
struct attn_cuda_args attn_cuda_args_of(const struct attn_problem *problem);

/* Finds the kernel STEP_TYPE of an element type and allows it this much shared memory. */
int attn_cuda_find_step(const char *step, uint32_t dtype, uint32_t shared_bytes, void **kernel,
                        char *why, size_t size);

/* The view of a role in the arguments. */
struct attn_cuda_view *attn_cuda_view_of(struct attn_cuda_args *args, uint32_t role);

#endif
