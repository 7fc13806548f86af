/* SPDX-License-Identifier: Apache-2.0 */
/* host_args.h - what the host needs to call a kernel: its name and its arguments. */
#ifndef ATTN_CUDA_HOST_ARGS_H
#define ATTN_CUDA_HOST_ARGS_H

#include <stddef.h>

#include "args.h"
#include "attnbench/backend.h"

/* The arguments of the kernels of a problem, without operands. Keys are not split. */
struct attn_cuda_args attn_cuda_args_of(const struct attn_problem *problem);

/* The view of a role in the arguments. The role must have one. */
struct attn_cuda_view *attn_cuda_view_of(struct attn_cuda_args *args, uint32_t role);

/* An element type as the names of kernels have it. */
const char *attn_cuda_type_name(uint32_t dtype);

/* Finds the kernel STEP_TYPE of an element type and allows it this much shared memory. ATTN_OK, or
 * another attn_result with one sentence in (why, size). */
int attn_cuda_find_step(const char *step, uint32_t dtype, uint32_t shared_bytes, void **kernel,
                        char *why, size_t size);

#endif
