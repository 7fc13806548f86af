/* SPDX-License-Identifier: Apache-2.0 */
/* verify_one.h - one case on one backend: run in guarded memory, and judged. */
#ifndef ATTN_VERIFY_ONE_H
#define ATTN_VERIFY_ONE_H

#include "run/entry.h"
#include "run/seat.h"

/* Makes an instance, or says why not as a verdict: skip (needs ..., have ...) where it cannot fit,
 * ERROR otherwise. Returns NULL then. */
struct attn_instance *attn_instance_for(const struct attn_session *session,
                                        const struct attn_case *c, struct attn_judgement *verdict);

/* Fills the entry's verification part. With a backend that computes nothing, PASS without judging.
 * `judge` is shared by all backends of a case. */
void attn_verify_entry(struct attn_seat *seat, struct attn_instance *instance,
                       struct attn_judge *judge, struct attn_entry *entry);

/* One run of it with the operands placed so. Plan, fastest time and promises go into the entry; the
 * verdict of this run alone into *verdict. */
void attn_verify_placement(struct attn_seat *seat, struct attn_instance *instance,
                           struct attn_judge *judge, enum attn_placement placement,
                           struct attn_entry *entry, struct attn_judgement *verdict);

/* A verdict that was reached without judging. */
void attn_judgement_set(struct attn_judgement *verdict, enum attn_status status,
                        const char *reason);

/* Did the outputs hold, as far as they were judged. */
bool attn_judgement_holds(enum attn_status status);

/* Keeps the graver of two verdicts, of which the first holds: what failed once has failed. */
void attn_judgement_merge(struct attn_judgement *kept, const struct attn_judgement *next);

#endif
