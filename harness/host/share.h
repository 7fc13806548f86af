/* SPDX-License-Identifier: Apache-2.0 */
/* share.h - operands in memory that is passed to a worker by descriptor, and the checks of what the
 * worker did to it.
 *
 * Two memfds: inputs, passed through a read-only descriptor and sealed against later writable
 * mappings where the kernel can; outputs, primed with 0xFF bytes (NaN in every floating type).
 * Every operand has whole pages of its own; bytes around it are 0xFF too. Both are sealed against
 * resizing, so that a worker can not take pages away under the host. */
#ifndef ATTN_SHARE_H
#define ATTN_SHARE_H

#include <stddef.h>

#include "host/protocol.h"
#include "tensor/instance.h"

struct attn_share {
    int fds[2];           /* what is sent: inputs, outputs */
    unsigned char *at[2]; /* the host's own mappings */
    size_t bytes[2];
    int own[2]; /* the descriptors that these mappings were made from */
    uint32_t n_tensors;
    struct attn_shared_operand operands[ATTN_MAX_TENSORS];
    const char *protection; /* what the machine gave, for the record */
};

/* Copies the inputs of an instance into shared memory, and primes its outputs. Returns 0, or -1
 * with the reason; then nothing is held. */
int attn_share_create(const struct attn_instance *instance, enum attn_placement placement,
                      struct attn_share *share, char *why, size_t size);

/* Are the inputs still what they were, and the bytes between and around output elements still
 * primed. Returns 0, or the broken promise and, in words, what breaks it ("modifies input q"). */
enum attn_promise attn_share_check(const struct attn_share *share,
                                   const struct attn_instance *instance, char *why, size_t size);

/* Copies the output elements into the instance's own memory. */
void attn_share_collect(const struct attn_share *share, struct attn_instance *instance);

void attn_share_free(struct attn_share *share);

#endif
