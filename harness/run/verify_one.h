/* SPDX-License-Identifier: Apache-2.0 */
/* verify_one.h - one case on one backend: run in guarded memory, and judged. */
#ifndef ATTN_VERIFY_ONE_H
#define ATTN_VERIFY_ONE_H

#include "run/entry.h"
#include "run/instance.h"
#include "run/seat.h"

/* Fills the entry's verification part. A backend that computes nothing gets PASS without judging.
 * All backends of a case share `judge`. */
void attn_verify_entry(struct attn_seat *seat, struct attn_instance *instance,
                       struct attn_judge *judge, struct attn_entry *entry);

/* One run with this placement of the operands. Plan, fastest time and promises go into the entry;
 * the verdict of this run alone goes into *verdict. */
void attn_verify_placement(struct attn_seat *seat, struct attn_instance *instance,
                           struct attn_judge *judge, enum attn_placement placement,
                           struct attn_entry *entry, struct attn_judgement *verdict);

/* Adds the mistakes that the last verdict of a judge would have refused, if it holds. */
void attn_verify_power(struct attn_power_trials **trials, const struct attn_judge *judge,
                       const struct attn_judgement *verdict, struct attn_entry *entry);

/* Keeps the worse of two verdicts; of equal ones, the first. What failed once has failed. */
void attn_judgement_merge(struct attn_judgement *kept, const struct attn_judgement *next);

#endif
