/* SPDX-License-Identifier: Apache-2.0 */
/* settle.h - which backends of a case need no more rounds of turns, as their ratios are known. */
#ifndef ATTN_BENCH_SETTLE_H
#define ATTN_BENCH_SETTLE_H

#include "bench/paired_record.h"

/* No ratio is known from fewer undisturbed rounds. */
enum { ATTN_SETTLED_ROUNDS = 6 };

/* Says of the n backends of a case which are settled: those that are clearly slower than the
 * fastest, by a ratio that is known well. The fastest itself is not. Returns 0, or -1: no memory.
 */
int attn_settle(struct attn_paired_rounds *const *rounds, size_t n);

#endif
