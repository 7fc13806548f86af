/* SPDX-License-Identifier: Apache-2.0 */
/* mha.h - multi-head attention: projections by cuBLAS around a plan for attention.
 *
 * Projected q, k, v lie in dense buffers [B,S,H*D] of the problem's type, whose heads the plan
 * reads in place. The heads' outputs go to such a buffer, or directly to out if there is no output
 * projection. A bias is copied into the rows first, and the product is added to it. */
#ifndef ATTN_CUDA_MHA_H
#define ATTN_CUDA_MHA_H

#include "plan.h"

/* A function that makes a plan for attention alone, and one that says whether it is supported. */
typedef int attn_cuda_creator(const struct attn_problem *problem,
                              const struct attn_services *services, struct attn_cuda_plan **plan,
                              char *why, size_t size);
typedef int attn_cuda_supporter(const struct attn_problem *problem, char *why, size_t size);

/* ATTN_OK, or another result with the reason. ATTN_UNSUPPORTED also if there is no cuBLAS. */
int attn_cuda_mha_supports(attn_cuda_supporter *attention, const struct attn_problem *problem,
                           char *why, size_t size);

/* The plan of the heads, with `mha` set, for a problem that is supported. Destroy it with
 * attn_cuda_mha_destroy. */
int attn_cuda_mha_create(attn_cuda_creator *attention, const struct attn_problem *problem,
                         const struct attn_services *services, struct attn_cuda_plan **plan,
                         char *why, size_t size);
void attn_cuda_mha_destroy(struct attn_cuda_plan *plan);

/* Does a tensor of this role belong to the projections, not to attention. */
int attn_cuda_mha_owns(uint32_t role);

/* Sets q, k, v and out of the heads. `given` has all tensors of a binding, with data on the device.
 */
void attn_cuda_mha_attach(const struct attn_cuda_plan *plan, const struct attn_problem *given,
                          struct attn_cuda_args *args);

/* Starts one run. */
int attn_cuda_mha_start(const struct attn_cuda_plan *plan, const struct attn_problem *given,
                        const struct attn_cuda_args *args, char *why, size_t size);

/* For mha.c, from mha_supports.c: the attention inside a problem. `tensors` has room for all
 * tensors of attention. ATTN_UNSUPPORTED if there is none. */
#define ATTN_CUDA_MHA_TENSORS 24
int attn_cuda_mha_heads(const struct attn_problem *problem, struct attn_problem *heads,
                        struct attn_tensor *tensors, char *why, size_t size);

#endif
