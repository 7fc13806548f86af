/* SPDX-License-Identifier: Apache-2.0 */
/* supports.h - the limits of the kernels. */
#ifndef ATTN_CUDA_SUPPORTS_H
#define ATTN_CUDA_SUPPORTS_H

#include <stddef.h>

#include "attnbench/backend.h"

/* For attention alone. ATTN_OK, or ATTN_UNSUPPORTED with the reason. */
int attn_cuda_supports(const struct attn_problem *problem, char *why, size_t size);

/* For the gradients of attention. */
int attn_cuda_backward_supports(const struct attn_problem *problem, char *why, size_t size);

#endif
