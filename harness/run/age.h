/* SPDX-License-Identifier: Apache-2.0 */
/* age.h - does a plan still answer rightly after some hundred runs, and seconds later, and does
 * memory grow with runs and plans? Part of the checks `new_data` and `leaks`. */
#ifndef ATTN_AGE_H
#define ATTN_AGE_H

#include "run/entry.h"
#include "run/seat.h"

/* Once for each operator, score and type that a backend has passed: runs a plan of the smallest
 * case with the same features some hundred times, exchanges its inputs, and judges one run more. In
 * `verify` the first such plan of each backend stays in its worker. Once for each operator, memory
 * is watched over many plans and runs. `early`: other checks are still to come, which say better
 * what is wrong with a kernel that is wrong on that case at once. */
void attn_age_begin(struct attn_session *session, struct attn_seat *seats,
                    struct attn_entry *entries, bool early);

/* Judges one more run of each plan that has stayed, on its first inputs, once it is old enough.
 * After the last case of a session it waits for that. A wrong answer is a verdict of the entry at
 * hand. */
void attn_age_end(struct attn_session *session, struct attn_seat *seats, struct attn_entry *entries,
                  bool last);

#endif
