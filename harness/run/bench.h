/* SPDX-License-Identifier: Apache-2.0 */
/* bench.h - verifies, then times what passed, round by round. */
#ifndef ATTN_BENCH_H
#define ATTN_BENCH_H

#include "run/entry.h"

/* The whole command. Cases are taken in blocks that fit in memory. Of each block every case is
 * verified on every backend; then, in each round, every backend in random order gets a fresh worker
 * that times the block's cases which passed, hot and cold; each timed output is judged again. Peak
 * memory comes from a worker of its own for each case. The machine's ceilings are measured first
 * and written to machine.json. Returns 0, or -1 with the reason when the harness itself failed. */
int attn_bench_all(struct attn_session *session, char *why, size_t size);

#endif
