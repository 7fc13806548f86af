/* SPDX-License-Identifier: Apache-2.0 */
/* share.h - puts operands into memory that is passed to a worker by descriptor, and checks what the
 * worker did to it.
 *
 * There are two memfds. Inputs are passed through a read-only descriptor and sealed against later
 * writable mappings if the kernel can do that. Outputs are primed with 0xFF bytes (NaN in every
 * floating type). Every operand has whole pages of its own, and the bytes around it are 0xFF too.
 * Both files are sealed against resizing, so a worker cannot take pages away from the host. */
#ifndef ATTN_SHARE_H
#define ATTN_SHARE_H

#include <stdbool.h>
#include <stddef.h>

#include "host/protocol.h"
#include "tensor/instance.h"

struct attn_share {
    const struct attn_instance *twin; /* of the second set of inputs; NULL: none */
    uint64_t second[2];               /* bytes from an operand to that of the second set; 0: none */
    int fds[2];                       /* what is sent: inputs, outputs */
    unsigned char *at[2];             /* the host's own mappings */
    size_t bytes[2];
    int own[2]; /* the descriptors behind these mappings */
    uint32_t n_tensors;
    struct attn_shared_operand operands[ATTN_MAX_TENSORS];
    const char *protection; /* the level that the machine allowed, for the record */
};

/* Copies the inputs of an instance into shared memory and primes its outputs. Returns 0, or -1 with
 * the reason; on failure nothing is held. */
int attn_share_create(const struct attn_instance *instance, enum attn_placement placement,
                      struct attn_share *share, char *why, size_t size);

/* The same, with the inputs of `twin` as a second set, and room for a second set of outputs if
 * `outputs`. Every operand of the twin must be as long as that of the instance. */
int attn_share_create_pair(const struct attn_instance *instance, const struct attn_instance *twin,
                           bool outputs, enum attn_placement placement, struct attn_share *share,
                           char *why, size_t size);

/* Checks that the inputs are unchanged, and that the bytes between and around output elements are
 * still primed. Returns 0, or the broken promise with its description ("modifies input q"). */
enum attn_promise attn_share_check(const struct attn_share *share,
                                   const struct attn_instance *instance, char *why, size_t size);

/* Copies the output elements into the instance's own memory. */
void attn_share_collect(const struct attn_share *share, struct attn_instance *instance);

/* The same from the second set of outputs. */
void attn_share_collect_second(const struct attn_share *share, struct attn_instance *instance);

void attn_share_free(struct attn_share *share);

#endif
