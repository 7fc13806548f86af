/* SPDX-License-Identifier: Apache-2.0 */
/* relations.h - checks of a backend against itself: they need no reference, so they work at any
 * size. checks.h has their names. */
#ifndef ATTN_RELATIONS_H
#define ATTN_RELATIONS_H

#include "run/entry.h"
#include "run/seat.h"

/* A backend that takes longer than this for one run is checked no further: it would hold up the
 * session. */
#define ATTN_COSTLY_S 1.0

/* Does a check fit the case, and what the entry's plan declares? */
bool attn_relations_fit(const struct attn_instance *instance, const struct attn_entry *entry,
                        enum attn_check check);

/* Do the checks cost little on this case and backend? Else a smaller case with the same features
 * shows the same faults. */
bool attn_relations_cheap(const struct attn_instance *instance, const struct attn_entry *entry);

/* Tries the checks that settings.checks asks for, and enters their results. A check is tried on
 * every backend that has passed so far, if it fits the case, and costs little; or less than
 * ATTN_COSTLY_S a run, if `costly` is set. `instance` is the entries' own; its outputs are
 * overwritten. Does nothing for a pack, or for a case with a fill of its own. */
void attn_relations_verify(struct attn_session *session, struct attn_seat *seats,
                           struct attn_instance *instance, struct attn_entry *entries, bool costly);

#endif
