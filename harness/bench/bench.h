/* SPDX-License-Identifier: Apache-2.0 */
/* bench.h - verifies, then times what passed, round by round. */
#ifndef ATTN_BENCH_H
#define ATTN_BENCH_H

#include "run/session.h"

/* The whole command. Measures the machine's ceilings first and writes them to machine.json. Then
 * takes the cases in blocks that fit in memory. Verifies every case of a block on every backend.
 * Then, in each round, every backend in random order gets a fresh worker, which times the cases of
 * the block that passed, hot and cold. Each timed output is judged again. Peak memory comes from a
 * separate worker for each case. Returns 0, or -1 with the reason if the harness itself failed. */
int attn_bench_all(struct attn_session *session, char *why, size_t size);

#endif
