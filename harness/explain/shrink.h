/* SPDX-License-Identifier: Apache-2.0 */
/* shrink.h - the smallest case that still fails. */
#ifndef ATTN_SHRINK_H
#define ATTN_SHRINK_H

#include "run/verify.h"

/* What shrinking came to. Freed with attn_shrunk_free. */
struct attn_shrunk {
    struct attn_case c; /* of a pack: the part that still fails, written beside the reproducer */
    struct attn_entry entry; /* of its last verification; entry.c is the case above */
    int tries;
};

/* Leaves features out and halves sizes of the failing case of an entry (under the fill that
 * failed), as long as it fails in the same way: wrong numbers, a broken promise, a crash, the same
 * check of results against each other... Each try is a verification in the seat's worker; the tries
 * end after a minute. Of a pack a part is cut out, into a file beside the reproducer that the
 * session asks for. Returns true with *shrunk, or false with the reason: it does not fail when it
 * is run alone, or there is no place for a part of its pack. */
bool attn_shrink(struct attn_seat *seat, const struct attn_entry *failed,
                 struct attn_shrunk *shrunk, char *why, size_t size);

void attn_shrunk_free(struct attn_shrunk *shrunk);

/* Is this verdict one that shrinking is for. */
bool attn_shrinks(const struct attn_entry *entry);

#endif
