/* SPDX-License-Identifier: Apache-2.0 */
/* pool.h - a few threads that wait for work, so that no thread starts while time is measured. A
 * waiting thread looks for work for some tens of microseconds before it sleeps. So work that
 * follows soon starts at once, and no processor is busy between runs. */
#ifndef ATTN_SIMD_POOL_H
#define ATTN_SIMD_POOL_H

#include <stddef.h>

#include "attnbench/backend.h"

struct attn_pool;

/* Starts threads - 1 threads; the caller of attn_pool_run is the last one. Memory comes from
 * `services`, and the pool owns it. Returns ATTN_OK, or a failure that leaves no thread behind. */
int attn_pool_create(const struct attn_services *services, int threads, struct attn_pool **pool,
                     char *why, size_t size);

/* Calls work(context, t) once for each t in [0, threads), each on a thread of its own, t = 0 on the
 * caller's. Returns when all have returned. The caller sees their writes. */
void attn_pool_run(struct attn_pool *pool, void (*work)(void *context, int thread), void *context);

/* Joins all threads. NULL is allowed. */
void attn_pool_destroy(struct attn_pool *pool);

#endif
