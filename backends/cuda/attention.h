/* SPDX-License-Identifier: Apache-2.0 */
/* attention.h - a plan for attention, fused or not, or for its gradients. */
#ifndef ATTN_CUDA_ATTENTION_H
#define ATTN_CUDA_ATTENTION_H

#include "plan.h"

/* Starts the attention of one run, without projections. */
int attn_cuda_attention_start(const struct attn_cuda_plan *plan, const struct attn_cuda_args *args,
                              char *why, size_t size);

/* `mha` must have been freed. */
void attn_cuda_attention_destroy(struct attn_cuda_plan *plan);

#endif
