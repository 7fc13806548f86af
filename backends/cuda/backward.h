/* SPDX-License-Identifier: Apache-2.0 */
/* backward.h - gradients of attention: which kernels compute a problem, and on how many blocks. */
#ifndef ATTN_CUDA_BACKWARD_H
#define ATTN_CUDA_BACKWARD_H

#include "plan.h"

/* The problem must be supported (supports.h). Frees everything on failure. */
int attn_cuda_backward_create(const struct attn_problem *problem,
                              const struct attn_services *services, struct attn_cuda_plan **plan,
                              char *why, size_t size);
void attn_cuda_backward_destroy(struct attn_cuda_plan *plan);

/* Starts one run. */
int attn_cuda_backward_start(const struct attn_cuda_plan *plan, const struct attn_cuda_args *args,
                             char *why, size_t size);

void attn_cuda_backward_describe(const struct attn_cuda_plan *plan, char *text, size_t size);

#endif
