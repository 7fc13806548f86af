/* SPDX-License-Identifier: Apache-2.0 */
/* parallel.h - one loop over threads, for work whose result does not depend on the order. */
#ifndef ATTN_REFERENCE_PARALLEL_H
#define ATTN_REFERENCE_PARALLEL_H

#include <stdint.h>

/* Calls body(context, begin, end) until [0, count) is covered once, in chunks of at most `grain`,
 * from up to `threads` threads (the caller is one). Returns when all are done. If a thread cannot
 * be started, the others do its share. */
void attn_parallel_for(int threads, int64_t count, int64_t grain,
                       void (*body)(void *context, int64_t begin, int64_t end), void *context);

#endif
