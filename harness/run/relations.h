/* SPDX-License-Identifier: Apache-2.0 */
/* relations.h - checks of a backend against itself: they need no reference, so they work at any
 * size. checks.h has their names. */
#ifndef ATTN_RELATIONS_H
#define ATTN_RELATIONS_H

#include "run/entry.h"
#include "run/seat.h"

/* Tries the checks that settings.checks asks for, and enters their results. A check is tried on
 * every backend that has passed so far, if it fits the case and costs little (README.md).
 * `instance` is the case's own; its outputs are overwritten. Does nothing for a pack, or for a case
 * with a fill of its own. */
void attn_relations_verify(struct attn_session *session, struct attn_seat *seats,
                           struct attn_instance *instance, struct attn_entry *entries);

#endif
