/* SPDX-License-Identifier: Apache-2.0 */
/* guard.h - shared operands mapped between guard pages, for verification. */
#ifndef ATTN_WORKER_GUARD_H
#define ATTN_WORKER_GUARD_H

#include <stdbool.h>

#include "host/protocol.h"

struct attn_guarded {
    uint32_t n;
    void *reserved[ATTN_MAX_TENSORS]; /* address space of each operand, guards included */
    size_t bytes[ATTN_MAX_TENSORS];
    struct attn_tensor tensors[ATTN_MAX_TENSORS]; /* with data */
};

/* Maps inputs read-only and outputs writable, and gives their places to the fault handler. Returns
 * 0, or -1 with the reason. */
int attn_guarded_map(const struct attn_message_request *request, const int fds[2],
                     struct attn_guarded *guarded, char *why, size_t size);
/* Maps the operands of another request of the same problem in the same places. Returns 0, or -1:
 * the problem is another one, or the system refused. */
int attn_guarded_remap(const struct attn_message_request *request, const int fds[2],
                       const struct attn_message_request *was, struct attn_guarded *guarded);
void attn_guarded_unmap(struct attn_guarded *guarded);

/* attn_guarded_own makes one input a private, writable copy, so the host's copy stays unchanged;
 * attn_guarded_protect makes it read-only again. Returns 0, or -1: the system refused. */
int attn_guarded_own(const struct attn_message_request *request, const int fds[2], uint32_t t,
                     const struct attn_guarded *guarded);
void attn_guarded_protect(const struct attn_message_request *request, uint32_t t,
                          const struct attn_guarded *guarded);

/* Shows inputs of the second set in place of those of the first, read-only as before: those that
 * bind may transform, or all others. Returns 0, or -1: the system refused. */
int attn_guarded_replace(const struct attn_message_request *request, const int fds[2], bool packed,
                         const struct attn_guarded *guarded);

/* Gives the places of the operands to the fault handler once more. */
void attn_guarded_watch(const struct attn_guarded *guarded);

/* Primes the outputs again, as the host did before the first run. */
void attn_guarded_prime(const struct attn_message_request *request,
                        const struct attn_guarded *guarded);

#endif
