/* SPDX-License-Identifier: Apache-2.0 */
/* plan.h - one problem on the GPU: the data of fused and of unfused attention. */
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
    int32_t key_tile, query_tile; /* query_tile: of gradients */
    int tensor_cores;
    uint32_t hopper_rows, hopper_keys; /* rows of boxes of q, of k and v; 0: another kernel */
    int batch_alone;                   /* one batch entry alone would be computed in the same way */
    uint64_t partial_bytes, projected_q_bytes, projected_k_bytes;
    /* NULL if not needed */
    struct attn_cublas *cublas;
    struct attn_cuda_unfused *unfused;   /* then there is no kernel and no grid, */
    struct attn_cuda_backward *backward; /* the same */
    struct attn_cuda_mha *mha;
    uint64_t step_bytes; /* of these four */
};

/* Opens the device and makes a plan with the arguments of a problem, without queue and kernels.
 * flash.c, unfused.c and backward.c add the rest. */
int attn_cuda_plan_new(const struct attn_problem *problem, const struct attn_services *services,
                       struct attn_cuda_plan **plan, char *why, size_t size);

/* Frees the plan, its queue, and what it holds on the device, except `unfused`, `backward` and
 * `mha`. */
void attn_cuda_plan_free(struct attn_cuda_plan *plan);

#endif
