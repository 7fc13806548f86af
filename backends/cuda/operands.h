/* SPDX-License-Identifier: Apache-2.0 */
/* operands.h - the tensors of a binding: on the device from bind to release. */
#ifndef ATTN_CUDA_OPERANDS_H
#define ATTN_CUDA_OPERANDS_H

#include "gpu.h"

#define ATTN_OPERANDS_MAX 40 /* more than there are roles */

struct attn_cuda_operands {
    const struct attn_services *services;
    struct attn_tensor host[ATTN_OPERANDS_MAX];
    struct attn_tensor device[ATTN_OPERANDS_MAX]; /* the same tensors, with data on the device */
    uint32_t count;
    int backward;  /* gradients are the results */
    void *staging; /* memory for results that are copied to the host */
};

/* Copies tensors into *operands, which is zero except for services. Call
 * attn_cuda_operands_release afterwards, also if it fails. */
int attn_cuda_operands_bring(struct attn_cuda_operands *operands, const struct attn_tensor *tensors,
                             uint32_t count, char *why, size_t size);
/* Copies results back to the host. */
int attn_cuda_operands_fetch(const struct attn_cuda_operands *operands, char *why, size_t size);
void attn_cuda_operands_release(struct attn_cuda_operands *operands);

#endif
