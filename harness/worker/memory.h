/* SPDX-License-Identifier: Apache-2.0 */
/* memory.h - operands in the worker's own memory, for timing and for peak memory: anonymous,
 * 64-byte aligned, huge pages advised, first touched here. Shared memory has no huge pages and
 * streams slower. */
#ifndef ATTN_WORKER_MEMORY_H
#define ATTN_WORKER_MEMORY_H

#include "host/protocol.h"

struct attn_owned {
    uint32_t n;
    void *mapped[ATTN_MAX_TENSORS];
    size_t bytes[ATTN_MAX_TENSORS];
    unsigned char *shared[2]; /* the host's files, mapped while copies are made or compared */
    size_t shared_bytes[2];
    struct attn_tensor tensors[ATTN_MAX_TENSORS]; /* with data */
};

/* Makes an anonymous mapping, aligned for huge pages if it is large; NULL: no memory.
 * attn_memory_unmap needs *mapped. */
void *attn_memory_map(size_t bytes, void **mapped, size_t *mapped_bytes);
void attn_memory_unmap(void *mapped, size_t mapped_bytes);

/* Copies the inputs, primes the outputs. Returns 0, or -1 with the reason. */
int attn_owned_create(const struct attn_message_request *request, const int fds[2],
                      struct attn_owned *owned, char *why, size_t size);
void attn_owned_free(struct attn_owned *owned);

/* The same with all inputs in one mapping and all outputs in another, both aligned to pages of 2
 * MiB and advised to use them: each operand has the same offset in every worker, so that two
 * workers differ less in what their caches hold. The first operand of each kind holds the mapping.
 */
int attn_owned_create_together(const struct attn_message_request *request, const int fds[2],
                               struct attn_owned *owned, char *why, size_t size);

/* Bytes of these mappings that lie in pages of 2 MiB now; *bytes: of all. */
uint64_t attn_owned_huge(const struct attn_owned *owned, uint64_t *bytes);

/* Copies the inputs of a set, 0 or 1, again. */
void attn_owned_load(const struct attn_message_request *request, const struct attn_owned *owned,
                     uint32_t set);

/* Checks that the inputs are still those of a set that the host sent. Returns 0, or -1 with the
 * first changed one in *operand. */
int attn_owned_check(const struct attn_message_request *request, const struct attn_owned *owned,
                     uint32_t set, uint32_t *operand);

/* Copies the output elements to a set of the host's file. */
void attn_owned_return(const struct attn_message_request *request, const struct attn_owned *owned,
                       uint32_t set);

#endif
