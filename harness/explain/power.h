/* SPDX-License-Identifier: Apache-2.0 */
/* power.h - which usual mistakes a verdict would have refused.
 *
 * The answer of a kernel with a usual mistake is computed in double for a few dozen of the rows
 * that were judged, rounded to the output type, and compared by the judge's own rule. Exact rules
 * of fills (census, exact) count, too. A mistake applies if its answer differs on paper on the
 * inputs of a fill that was judged. It is refused if at least one fill refuses it. */
#ifndef ATTN_POWER_H
#define ATTN_POWER_H

#include <stddef.h>

#include "explain/power_bits.h"
#include "judge/judge.h"

/* A verdict proves too little if it would have passed uniform weights, or less than this share of
 * the mistakes that apply would have been refused. judge/README.md says where the share comes from.
 */
#define ATTN_POWER_LEAST 0.8
/* Nor does it prove enough if a scale 2 % off would have passed because of the declaration: because
 * the bound is more than so many times that of the best arithmetic of the type. */
#define ATTN_POWER_SLACK 8.0

/* What is known about one instance: rows, their scores and values. */
struct attn_power_trials;
void attn_power_trials_free(struct attn_power_trials *trials);

/* Tries the mistakes that *power has not refused yet on an instance, with the bounds of a verdict
 * that passed there, and adds what it finds to *power. *trials belongs to the instance; it is made
 * at the first call, and free from then on of work that numerics have in common. Does nothing for
 * operators without a softmax, and where rows cost too much. */
void attn_power_measure(struct attn_power_trials **trials, const struct attn_evidence *evidence,
                        const struct attn_numerics *numerics, struct attn_power *power);

/* Scales that are 2 %, 10 % and 100 % off count as refused: a check of known scores has shown it.
 */
void attn_power_refuse_scales(struct attn_power *power);

/* Numbers of mistakes that apply, and of those that were refused. */
int attn_power_of(const struct attn_power *power);
int attn_power_refused(const struct attn_power *power);

/* Is it enough for a verdict that can be trusted? If not, writes why. `slack` is that of the
 * verdict; 0: not measured. */
bool attn_power_enough(const struct attn_power *power, double slack, char *why, size_t size);

#endif
