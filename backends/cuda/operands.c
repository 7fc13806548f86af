/* SPDX-License-Identifier: Apache-2.0 */
/* operands.c - see operands.h. */
#include "operands.h"

#include <stdio.h>

#include "attnbench/problem.h"
#include "transfer.h"

/* For gradients, out and lse are operands. */
static int is_output(const struct attn_cuda_operands *self, const struct attn_tensor *tensor)
{
    switch (tensor->role) {
    case ATTN_OUT:
    case ATTN_LSE:
        return !self->backward;
    case ATTN_WEIGHTS:
    case ATTN_STATE_OUT:
    case ATTN_BUCKETS_OUT:
    case ATTN_GRAD_Q:
    case ATTN_GRAD_K:
    case ATTN_GRAD_V:
    case ATTN_GRAD_BIAS:
    case ATTN_GRAD_SINK:
    case ATTN_GRAD_ALIBI:
        return 1;
    default:
        return 0;
    }
}

/* Results are copied in, too: what a kernel forgets to write is seen then. */
static int bring_in(struct attn_cuda_operands *self, const struct attn_tensor *tensor, char *why,
                    size_t size)
{
    struct attn_tensor *device = &self->device[self->count];
    *device = *tensor;
    int status = attn_gpu_allocate((uint64_t)attn_problem_span(tensor), &device->data, why, size);
    if (status != ATTN_OK)
        return status;
    self->host[self->count++] = *tensor;
    return attn_transfer_in(device->data, tensor, why, size);
}

int attn_cuda_operands_bring(struct attn_cuda_operands *self, const struct attn_tensor *tensors,
                             uint32_t count, char *why, size_t size)
{
    size_t staging = 1;
    int status = ATTN_OK;
    for (uint32_t t = 0; t < count; t++)
        self->backward |= tensors[t].role == ATTN_GRAD_OUT;
    for (uint32_t t = 0; t < count && status == ATTN_OK; t++) {
        status = bring_in(self, &tensors[t], why, size);
        if (is_output(self, &tensors[t]) && attn_transfer_staging(&tensors[t]) > staging)
            staging = attn_transfer_staging(&tensors[t]);
    }
    if (status != ATTN_OK)
        return status;
    self->staging = self->services->alloc(self->services->context, staging, 64);
    if (!self->staging)
        snprintf(why, size, "no memory to bring results back");
    return self->staging ? ATTN_OK : ATTN_OUT_OF_MEMORY;
}

int attn_cuda_operands_fetch(const struct attn_cuda_operands *self, char *why, size_t size)
{
    int status = ATTN_OK;
    for (uint32_t t = 0; t < self->count && status == ATTN_OK; t++)
        if (is_output(self, &self->host[t]))
            status =
                attn_transfer_out(&self->host[t], self->device[t].data, self->staging, why, size);
    return status;
}

void attn_cuda_operands_release(struct attn_cuda_operands *self)
{
    for (uint32_t t = 0; t < self->count; t++)
        attn_gpu_release(self->device[t].data);
    if (self->staging)
        self->services->free(self->services->context, self->staging);
}
