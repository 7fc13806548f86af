/* SPDX-License-Identifier: Apache-2.0 */
/* unfused.h - attention in three steps over the whole matrix of scores: a product by cuBLAS, a
 * masked softmax, a second product. Memory grows with sq * sk. */
#ifndef ATTN_CUDA_UNFUSED_H
#define ATTN_CUDA_UNFUSED_H

#include "plan.h"

/* For attention alone. ATTN_OK, or ATTN_UNSUPPORTED with the reason. */
int attn_cuda_unfused_supports(const struct attn_problem *problem, char *why, size_t size);

/* The problem must be supported. Frees everything on failure. Destroy the plan with
 * attn_cuda_unfused_destroy. */
int attn_cuda_unfused_create(const struct attn_problem *problem,
                             const struct attn_services *services, struct attn_cuda_plan **plan,
                             char *why, size_t size);

void attn_cuda_unfused_destroy(struct attn_cuda_plan *plan);

/* Starts one run. */
int attn_cuda_unfused_start(const struct attn_cuda_plan *plan, const struct attn_cuda_args *args,
                            char *why, size_t size);

void attn_cuda_unfused_describe(const struct attn_cuda_plan *plan, char *text, size_t size);

#endif
