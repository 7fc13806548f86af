/* SPDX-License-Identifier: Apache-2.0 */
/* memory.c - private copies of the operands. */
#include "worker/memory.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "host/walk.h"

#define HUGE_PAGE  ((size_t)2 << 20)
#define SMALL_PAGE ((size_t)4096)

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

static uint64_t rounded(uint64_t bytes, uint64_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

/* One mapping for all operands of a kind. Returns 0, or -1 with errno. */
static int map_together(const struct attn_message_request *request, uint32_t output,
                        struct attn_owned *owned)
{
    uint64_t offsets[ATTN_MAX_TENSORS] = {0}, total = 0;
    uint32_t first = UINT32_MAX;
    for (uint32_t t = 0; t < request->n_tensors; t++) {
        const struct attn_shared_operand *operand = &request->operands[t];
        if (operand->output != output || operand->sparse)
            continue;
        first = first == UINT32_MAX ? t : first;
        offsets[t] = total;
        total += rounded(operand->span + operand->lead, SMALL_PAGE);
    }
    if (first == UINT32_MAX)
        return 0;
    unsigned char *at =
        attn_memory_map(rounded(total, HUGE_PAGE), &owned->mapped[first], &owned->bytes[first]);
    for (uint32_t t = 0; at && t < request->n_tensors; t++) {
        const struct attn_shared_operand *operand = &request->operands[t];
        if (operand->output == output && !operand->sparse)
            owned->tensors[t].data = at + offsets[t] + operand->lead;
    }
    return at ? 0 : -1;
}

int attn_owned_create_together(const struct attn_message_request *request, const int fds[2],
                               struct attn_owned *owned, char *why, size_t size)
{
    *owned = (struct attn_owned){.n = request->n_tensors};
    bool mapped = map_shared(request, fds, owned) == 0;
    for (uint32_t t = 0; t < request->n_tensors; t++)
        owned->tensors[t] = request->tensors[t];
    mapped = mapped && map_together(request, 0, owned) == 0 && map_together(request, 1, owned) == 0;
    for (uint32_t t = 0; mapped && t < request->n_tensors; t++) {
        const struct attn_shared_operand *operand = &request->operands[t];
        if (operand->sparse) {
            unsigned char *at =
                map_sparse(operand->span + operand->lead, &owned->mapped[t], &owned->bytes[t]);
            mapped = at != NULL;
            owned->tensors[t].data = at ? at + operand->lead : NULL;
        }
        if (mapped)
            copy_elements(&request->tensors[t], operand->element, owned->tensors[t].data,
                          shared_data(request, owned, t, 0));
    }
    if (mapped)
        return 0;
    snprintf(why, size, "no memory for the operands: %s", strerror(errno));
    attn_owned_free(owned);
    return -1;
}

static bool holds(const struct attn_owned *owned, uintptr_t begin, uintptr_t end)
{
    for (uint32_t t = 0; t < owned->n; t++) {
        const uintptr_t at = (uintptr_t)owned->mapped[t];
        if (at && begin < at + owned->bytes[t] && at < end)
            return true;
    }
    return false;
}

/* The number of kibibytes that a line of smaps gives this field; 0: it is another field. */
static uint64_t field_kib(const char *line, const char *field)
{
    const size_t length = strlen(field);
    return strncmp(line, field, length) == 0 ? strtoull(line + length, NULL, 10) : 0;
}

uint64_t attn_owned_huge(const struct attn_owned *owned, uint64_t *bytes)
{
    char line[512], *next;
    uint64_t huge = 0;
    bool ours = false;
    *bytes = 0;
    FILE *file = fopen("/proc/self/smaps", "re");
    while (file && fgets(line, sizeof(line), file)) {
        /* A mapping begins with "begin-end ", its fields with a word and a colon. */
        const unsigned long long begin = strtoull(line, &next, 16);
        if (next != line && *next == '-')
            ours = holds(owned, (uintptr_t)begin, (uintptr_t)strtoull(next + 1, NULL, 16));
        *bytes += ours ? 1024 * field_kib(line, "Rss:") : 0;
        huge += ours ? 1024 * field_kib(line, "AnonHugePages:") : 0;
    }
    if (file)
        fclose(file);
    return huge;
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
