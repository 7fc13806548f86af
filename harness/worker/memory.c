/* SPDX-License-Identifier: Apache-2.0 */
/* memory.c - private copies of the operands. */
#include "worker/memory.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "host/walk.h"

#define HUGE_PAGE ((size_t)2 << 20)

void *attn_memory_map(size_t bytes, void **mapped, size_t *mapped_bytes)
{
    const size_t slack = bytes >= HUGE_PAGE ? HUGE_PAGE : 0;
    const size_t total = (bytes > 0 ? bytes : 1) + slack;
    char *at = mmap(NULL, total, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        return NULL;
    *mapped = at;
    *mapped_bytes = total;
    if (slack == 0)
        return at;
    char *aligned = at + (HUGE_PAGE - (uintptr_t)at % HUGE_PAGE) % HUGE_PAGE;
    madvise(aligned, bytes, MADV_HUGEPAGE);
    return aligned;
}

void attn_memory_unmap(void *mapped, size_t mapped_bytes)
{
    if (mapped)
        munmap(mapped, mapped_bytes);
}

/* A sparse operand is mostly address space. As a shared mapping it does not count as data, of which
 * a worker may only have so much. */
static void *map_sparse(size_t bytes, void **mapped, size_t *mapped_bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE,
                    -1, 0);
    if (at == MAP_FAILED)
        return NULL;
    *mapped = at;
    *mapped_bytes = bytes;
    return at;
}

/* Of a set, 0 or 1. */
static unsigned char *shared_data(const struct attn_message_request *request,
                                  const struct attn_owned *owned, uint32_t t, uint32_t set)
{
    const struct attn_shared_operand *operand = &request->operands[t];
    return owned->shared[operand->output] + (set ? request->second[operand->output] : 0) +
           operand->offset + operand->start;
}

static int map_shared(const struct attn_message_request *request, const int fds[2],
                      struct attn_owned *owned)
{
    for (uint32_t t = 0; t < request->n_tensors; t++) {
        const struct attn_shared_operand *operand = &request->operands[t];
        owned->shared_bytes[operand->output] += operand->pages;
    }
    for (int f = 0; f < 2; f++) {
        if (owned->shared_bytes[f] == 0)
            continue;
        owned->shared_bytes[f] += request->second[f];
        void *at = mmap(NULL, owned->shared_bytes[f], f ? PROT_READ | PROT_WRITE : PROT_READ,
                        MAP_SHARED, fds[f], 0);
        if (at == MAP_FAILED)
            return -1;
        owned->shared[f] = at;
    }
    return 0;
}

/* Elements only: what lies between them is not part of the problem, and may be a huge hole. */
static void copy_elements(const struct attn_tensor *tensor, uint32_t element, unsigned char *to,
                          const unsigned char *from)
{
    struct attn_walk walk;
    size_t offset;
    attn_walk_begin(&walk, tensor, element);
    while (attn_walk_next(&walk, &offset))
        memcpy(to + offset, from + offset, walk.run);
}

int attn_owned_create(const struct attn_message_request *request, const int fds[2],
                      struct attn_owned *owned, char *why, size_t size)
{
    *owned = (struct attn_owned){.n = request->n_tensors};
    if (map_shared(request, fds, owned) != 0)
        goto fail;
    for (uint32_t t = 0; t < request->n_tensors; t++) {
        const struct attn_shared_operand *operand = &request->operands[t];
        const size_t bytes = operand->span + operand->lead;
        unsigned char *at = operand->sparse
                                ? map_sparse(bytes, &owned->mapped[t], &owned->bytes[t])
                                : attn_memory_map(bytes, &owned->mapped[t], &owned->bytes[t]);
        if (!at)
            goto fail;
        owned->tensors[t] = request->tensors[t];
        owned->tensors[t].data = at + operand->lead;
        /* Outputs are copied as well: the host has primed them. */
        copy_elements(&request->tensors[t], operand->element, at + operand->lead,
                      shared_data(request, owned, t, 0));
    }
    return 0;
fail:
    snprintf(why, size, "no memory for the operands: %s", strerror(errno));
    attn_owned_free(owned);
    return -1;
}

void attn_owned_load(const struct attn_message_request *request, const struct attn_owned *owned,
                     uint32_t set)
{
    for (uint32_t t = 0; t < owned->n; t++)
        if (!request->operands[t].output)
            copy_elements(&request->tensors[t], request->operands[t].element,
                          owned->tensors[t].data, shared_data(request, owned, t, set));
}

int attn_owned_check(const struct attn_message_request *request, const struct attn_owned *owned,
                     uint32_t set, uint32_t *which)
{
    for (uint32_t t = 0; t < owned->n; t++) {
        const struct attn_shared_operand *operand = &request->operands[t];
        const unsigned char *is = owned->tensors[t].data;
        struct attn_walk walk;
        size_t offset;
        if (operand->output)
            continue;
        attn_walk_begin(&walk, &request->tensors[t], operand->element);
        while (attn_walk_next(&walk, &offset)) {
            if (memcmp(is + offset, shared_data(request, owned, t, set) + offset, walk.run) != 0) {
                *which = t;
                return -1;
            }
        }
    }
    return 0;
}

void attn_owned_return(const struct attn_message_request *request, const struct attn_owned *owned,
                       uint32_t set)
{
    for (uint32_t t = 0; t < owned->n; t++) {
        const struct attn_shared_operand *operand = &request->operands[t];
        if (operand->output)
            copy_elements(&request->tensors[t], operand->element,
                          shared_data(request, owned, t, set), owned->tensors[t].data);
    }
}

void attn_owned_free(struct attn_owned *owned)
{
    for (uint32_t t = 0; t < owned->n; t++)
        attn_memory_unmap(owned->mapped[t], owned->bytes[t]);
    for (int f = 0; f < 2; f++)
        if (owned->shared[f])
            munmap(owned->shared[f], owned->shared_bytes[f]);
    *owned = (struct attn_owned){.n = 0};
}
