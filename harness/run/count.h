/* SPDX-License-Identifier: Apache-2.0 */
/* count.h - instructions of a run, for `bench --count`: a figure that other work on the machine
 * cannot touch. */
#ifndef ATTN_RUN_COUNT_H
#define ATTN_RUN_COUNT_H

#include "judge/judge.h"
#include "run/entry.h"

/* Counts the instructions of a run of an entry that has passed, and judges the result of that run.
 * Sets entry->instructions, or entry->count_reason: why valgrind cannot follow. */
void attn_count_entry(const struct attn_session *session, struct attn_instance *instance,
                      struct attn_judge *judge, struct attn_entry *entry);

#endif
