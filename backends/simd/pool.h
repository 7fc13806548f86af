/* SPDX-License-Identifier: Apache-2.0 */
/* pool.h - a few threads that wait for work, so that no thread is started while timed. Who waits
 * looks for some tens of microseconds before it sleeps: work that follows closely starts at once,
 * and nothing keeps a processor busy between runs. */
#ifndef ATTN_SIMD_POOL_H
#define ATTN_SIMD_POOL_H

#include <stddef.h>

#include "attnbench/backend.h"

struct attn_pool;

/* Starts threads - 1 threads (the caller of attn_pool_run is the other one). Memory comes from
 * `services` and is the pool's. ATTN_OK, or a failure that leaves no thread behind. */
int attn_pool_create(const struct attn_services *services, int threads, struct attn_pool **pool,
                     char *why, size_t size);

/* Calls work(context, t) once for each t in [0, threads), each on its own thread, t = 0 on the
 * caller. Returns when all have returned; their writes are visible to the caller. */
void attn_pool_run(struct attn_pool *pool, void (*work)(void *context, int thread), void *context);

/* Joins all threads. NULL is allowed. */
void attn_pool_destroy(struct attn_pool *pool);

#endif
