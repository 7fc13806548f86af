/* SPDX-License-Identifier: Apache-2.0 */
/* guard.c - one reservation an operand: guard, pages of the memfd, guard. */
#include "worker/guard.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "host/walk.h"
#include "worker/fault.h"

/* Address space only. Wide enough that a stride too far still lands in the guard of the operand
 * that was overrun, rather than in a neighbour. */
#define GUARD_BYTES ((size_t)1 << 20)

static int map_one(const struct attn_message_request *request, uint32_t t, int fd,
                   struct attn_guarded *guarded)
{
    const struct attn_shared_operand *operand = &request->operands[t];
    const size_t bytes = operand->pages + 2 * GUARD_BYTES;
    char *at = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        return -1;
    guarded->reserved[t] = at;
    guarded->bytes[t] = bytes;
    const int protection = operand->output ? PROT_READ | PROT_WRITE : PROT_READ;
    /* The host has written all pages that are not sparse: mapped now, they need no faults later. */
    const int flags = MAP_SHARED | MAP_FIXED | (operand->sparse ? 0 : MAP_POPULATE);
    if (operand->pages > 0 && mmap(at + GUARD_BYTES, operand->pages, protection, flags, fd,
                                   (off_t)operand->offset) == MAP_FAILED)
        return -1;
    guarded->tensors[t] = request->tensors[t];
    guarded->tensors[t].data = at + GUARD_BYTES + operand->start;
    return 0;
}

void attn_guarded_watch(const struct attn_guarded *guarded)
{
    struct attn_fault_region regions[ATTN_MAX_TENSORS];
    for (uint32_t t = 0; t < guarded->n; t++)
        regions[t] = (struct attn_fault_region){
            .begin = (uintptr_t)guarded->reserved[t],
            .end = (uintptr_t)guarded->reserved[t] + guarded->bytes[t],
            .data = (uintptr_t)guarded->tensors[t].data,
        };
    attn_fault_watch(regions, guarded->n);
}

int attn_guarded_map(const struct attn_message_request *request, const int fds[2],
                     struct attn_guarded *guarded, char *why, size_t size)
{
    *guarded = (struct attn_guarded){.n = request->n_tensors};
    for (uint32_t t = 0; t < request->n_tensors; t++) {
        if (map_one(request, t, fds[request->operands[t].output], guarded) != 0) {
            snprintf(why, size, "cannot map the operands: %s", strerror(errno));
            attn_guarded_unmap(guarded);
            return -1;
        }
    }
    attn_guarded_watch(guarded);
    return 0;
}

int attn_guarded_remap(const struct attn_message_request *request, const int fds[2],
                       const struct attn_message_request *was, struct attn_guarded *guarded)
{
    if (request->n_tensors != was->n_tensors)
        return -1;
    for (uint32_t t = 0; t < request->n_tensors; t++) {
        const struct attn_shared_operand *operand = &request->operands[t];
        const struct attn_shared_operand *before = &was->operands[t];
        if (operand->pages != before->pages || operand->start != before->start ||
            operand->output != before->output)
            return -1;
        const int protection = operand->output ? PROT_READ | PROT_WRITE : PROT_READ;
        if (operand->pages > 0 && mmap((char *)guarded->reserved[t] + GUARD_BYTES, operand->pages,
                                       protection, MAP_SHARED | MAP_FIXED, fds[operand->output],
                                       (off_t)operand->offset) == MAP_FAILED)
            return -1;
    }
    attn_guarded_watch(guarded);
    return 0;
}

void attn_guarded_unmap(struct attn_guarded *guarded)
{
    attn_fault_watch(NULL, 0);
    for (uint32_t t = 0; t < guarded->n; t++)
        if (guarded->reserved[t])
            munmap(guarded->reserved[t], guarded->bytes[t]);
    guarded->n = 0;
}

int attn_guarded_own(const struct attn_message_request *request, const int fds[2], uint32_t t,
                     const struct attn_guarded *guarded)
{
    const struct attn_shared_operand *operand = &request->operands[t];
    char *at = (char *)guarded->reserved[t] + GUARD_BYTES;
    return operand->pages == 0 || mmap(at, operand->pages, PROT_READ | PROT_WRITE,
                                       MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE,
                                       fds[operand->output], (off_t)operand->offset) != MAP_FAILED
               ? 0
               : -1;
}

void attn_guarded_protect(const struct attn_message_request *request, uint32_t t,
                          const struct attn_guarded *guarded)
{
    mprotect((char *)guarded->reserved[t] + GUARD_BYTES, request->operands[t].pages, PROT_READ);
}

int attn_guarded_replace(const struct attn_message_request *request, const int fds[2], bool packed,
                         const struct attn_guarded *guarded)
{
    for (uint32_t t = 0; t < request->n_tensors; t++) {
        const struct attn_shared_operand *operand = &request->operands[t];
        char *at = (char *)guarded->reserved[t] + GUARD_BYTES;
        if (!operand->output && operand->packed == packed && operand->pages > 0 &&
            mmap(at, operand->pages, PROT_READ, MAP_SHARED | MAP_FIXED, fds[0],
                 (off_t)(operand->offset + request->second[0])) == MAP_FAILED)
            return -1;
    }
    return 0;
}

void attn_guarded_prime(const struct attn_message_request *request,
                        const struct attn_guarded *guarded)
{
    for (uint32_t t = 0; t < guarded->n; t++) {
        if (!request->operands[t].output)
            continue;
        struct attn_walk walk;
        size_t offset;
        attn_walk_begin(&walk, &guarded->tensors[t], request->operands[t].element);
        while (attn_walk_next(&walk, &offset))
            memset((char *)guarded->tensors[t].data + offset, 0xFF, walk.run);
    }
}
