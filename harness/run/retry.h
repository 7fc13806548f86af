/* SPDX-License-Identifier: Apache-2.0 */
/* retry.h - a failing case, tried again at smaller sizes: runs what explain/shrink.h asks for, and
 * has the reproducer written. */
#ifndef ATTN_RETRY_H
#define ATTN_RETRY_H

#include "run/entry.h"
#include "run/seat.h"

/* Is this verdict a failure, whose case is to be shrunk? */
bool attn_retry_wanted(const struct attn_entry *entry);

/* Shrinks the failing case of an entry into entry->smallest, as long as it fails in the same way:
 * wrong numbers, a broken promise, a crash, the same relation. Each try is a verification in the
 * seat's worker. Writes the session's reproducer if that has not been done. If something cannot be
 * done, says so on stderr. */
void attn_retry_smaller(struct attn_session *session, struct attn_seat *seat,
                        struct attn_entry *entry);

#endif
