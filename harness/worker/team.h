/* SPDX-License-Identifier: Apache-2.0 */
/* team.h - the same work on every processor of the worker at once; the size of the last cache. */
#ifndef ATTN_WORKER_TEAM_H
#define ATTN_WORKER_TEAM_H

#include <stddef.h>
#include <stdint.h>

/* Calls body(context, i) on a thread pinned to processors[i], for all i < n, all released together.
 * Returns 0 when every one has run, -1 where a thread could not be started (none has run). */
int attn_team_run(uint32_t n, const uint32_t *processors, void (*body)(void *context, uint32_t i),
                  void *context);

/* Bytes of the last-level cache; 32 MiB where the system does not tell. */
size_t attn_last_cache_bytes(void);

#endif
