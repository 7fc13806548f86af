/* SPDX-License-Identifier: Apache-2.0 */
/* renew.h - the check `new_data`: is a result that of the inputs as they are now. */
#ifndef ATTN_RENEW_H
#define ATTN_RENEW_H

#include "run/entry.h"
#include "run/seat.h"

/* Binds a plan to the inputs of the case and runs it many times. Then puts other values into every
 * input, in the same place, runs once more, and judges that result by its own reference. On every
 * backend that has passed so far and is quick enough. */
void attn_renew_verify(struct attn_session *session, struct attn_seat *seats,
                       struct attn_instance *instance, struct attn_entry *entries);

/* May it be tried on a backend? */
bool attn_renew_may(const struct attn_entry *entry);

#endif
