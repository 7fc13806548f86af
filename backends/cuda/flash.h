/* SPDX-License-Identifier: Apache-2.0 */
/* flash.h - fused attention: which kernel computes a problem, and on how many blocks. */
#ifndef ATTN_CUDA_FLASH_H
#define ATTN_CUDA_FLASH_H

#include "plan.h"

/* The problem must be supported (supports.h). Frees everything on failure. Destroy the plan with
 * attn_cuda_plan_free. */
int attn_cuda_flash_create(const struct attn_problem *problem, const struct attn_services *services,
                           struct attn_cuda_plan **plan, char *why, size_t size);

/* Starts one run. */
int attn_cuda_flash_start(const struct attn_cuda_plan *plan, const struct attn_cuda_args *args,
                          char *why, size_t size);

#endif
