/* SPDX-License-Identifier: Apache-2.0 */
/* transfer.h - copies of an operand between host and device, which keep its strides. */
#ifndef ATTN_CUDA_TRANSFER_H
#define ATTN_CUDA_TRANSFER_H

#include "gpu.h"

/* Copies all elements, and the gaps between elements that lie close together. */
int attn_transfer_in(void *device, const struct attn_tensor *tensor, char *why, size_t size);

/* Copies all elements and no gap, through memory of attn_transfer_staging bytes. */
size_t attn_transfer_staging(const struct attn_tensor *tensor);
int attn_transfer_out(const struct attn_tensor *tensor, const void *device, void *staging,
                      char *why, size_t size);

#endif
