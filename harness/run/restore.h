/* SPDX-License-Identifier: Apache-2.0 */
/* restore.h - takes over what an earlier command has recorded of a case on a backend, so that
 * --resume goes on after the last sample. */
#ifndef ATTN_RESTORE_H
#define ATTN_RESTORE_H

#include "run/entry.h"

/* The earlier records of a run by id, backend, options and threads. A new object; NULL: no memory.
 */
json_t *attn_restore_index(const json_t *records);

/* The earlier records of an entry, in order; NULL: there are none. Not owned. */
const json_t *attn_restore_records(const struct attn_session *session,
                                   const struct attn_entry *entry);

/* Does this record stand? What was cut off, what there was no time for, and what the harness itself
 * failed at is done again, and recorded again. */
bool attn_restore_stands(const json_t *record);

/* Takes over the verdict of an entry whose case and backend are set. False if there is none that
 * stands. entry->finished: nothing is left to be timed. */
bool attn_restore_verdict(const struct attn_session *session, struct attn_entry *entry);

/* Has the reference been judged on this case? */
bool attn_restore_has_reference(const struct attn_session *session, const char *id);

/* Takes over rounds, peak memory, instructions and what has its final record, of an entry with a
 * verdict. Returns 0, or -1: no memory. */
int attn_restore_timing(const struct attn_session *session, struct attn_entry *entry);

#endif
