/* SPDX-License-Identifier: Apache-2.0 */
/* turns_record.h - one round of turns of one case as a record, and back: so that --resume goes on
 * after the last one. */
#ifndef ATTN_BENCH_TURNS_RECORD_H
#define ATTN_BENCH_TURNS_RECORD_H

#include "bench/paired_record.h"

/* One backend in the group that took turns. */
struct attn_turns_side {
    const struct attn_contestant *contestant;
    const struct attn_paired_round *round;
};

/* The record of a round of n sides, whose anchor is `anchor`. put_off: as in struct
 * attn_paired_rounds; seconds: of each side. NULL: no memory. */
json_t *attn_turns_record(const struct attn_entry *anchor, const struct attn_session *session,
                          const struct attn_turns_side *sides, size_t n, int put_off,
                          double seconds);

/* The side of a backend in such a record; NULL: it took no part. */
const json_t *attn_turns_side_of(const json_t *record, const struct attn_contestant *contestant);

/* The round of that side. Its batches are the caller's. Returns 0, or -1: no memory, or no such
 * record. */
int attn_turns_round(const json_t *record, const json_t *side, struct attn_paired_round *round);

#endif
