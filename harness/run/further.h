/* SPDX-License-Identifier: Apache-2.0 */
/* further.h - the checks of a case beyond its own inputs: fills, and relations between results. */
#ifndef ATTN_FURTHER_H
#define ATTN_FURTHER_H

#include "run/entry.h"
#include "run/seat.h"

/* Makes the further checks on every backend whose verdict holds, and enters them. `instance` is the
 * case's own, one entry per backend. Checks that would cost too much on the case or the backend are
 * made on a smaller case (smaller.h), which entry->smaller then names. Every check that fits and is
 * not made gets a reason (account.h). */
void attn_further_checks(struct attn_session *session, struct attn_seat *seats,
                         struct attn_instance *instance, struct attn_entry *entries);

#endif
