/* SPDX-License-Identifier: Apache-2.0 */
/* mha.h - multi-head attention: projections by cuBLAS around a plan for attention.
 *
 * Projected q, k, v lie in dense buffers [B,S,H*D] of the problem's type, whose heads the plan
 * reads in place; the heads' outputs go to such a buffer, or straight to out without an output
 * projection. A bias is laid into the rows first, and the product is added to it. */
#ifndef ATTN_CUDA_MHA_H
#define ATTN_CUDA_MHA_H

#include "plan.h"

/* What makes a plan for attention alone, and what says of one whether it is supported. */
typedef int attn_cuda_creator(const struct attn_problem *problem,
                              const struct attn_services *services, struct attn_cuda_plan **plan,
                              char *why, size_t size);
typedef int attn_cuda_supporter(const struct attn_problem *problem, char *why, size_t size);

/* ATTN_OK, or another result with the reason: ATTN_UNSUPPORTED, also where there is no cuBLAS. */
int attn_cuda_mha_supports(attn_cuda_supporter *attention, const struct attn_problem *problem,
                           char *why, size_t size);

/* For a problem that is supported: the plan of the heads, with `mha` set. Destroyed by
 * attn_cuda_mha_destroy. */
int attn_cuda_mha_create(attn_cuda_creator *attention, const struct attn_problem *problem,
                         const struct attn_services *services, struct attn_cuda_plan **plan,
                         char *why, size_t size);
void attn_cuda_mha_destroy(struct attn_cuda_plan *plan);

/* Is a tensor of this role for the projections, and not for attention. */
int attn_cuda_mha_owns(uint32_t role);

/* q, k, v and out of the heads; `given` are all tensors of a binding, with data on the device. */
void attn_cuda_mha_attach(const struct attn_cuda_plan *plan, const struct attn_problem *given,
                          struct attn_cuda_args *args);

/* Starts one run. */
int attn_cuda_mha_start(const struct attn_cuda_plan *plan, const struct attn_problem *given,
                        const struct attn_cuda_args *args, char *why, size_t size);

/* For mha.c, from mha_supports.c: the attention inside a problem; tensors have room for all that
 * attention may have. ATTN_UNSUPPORTED where there is none. */
#define ATTN_CUDA_MHA_TENSORS 24
int attn_cuda_mha_heads(const struct attn_problem *problem, struct attn_problem *heads,
                        struct attn_tensor *tensors, char *why, size_t size);

#endif
