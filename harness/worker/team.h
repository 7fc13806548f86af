/* SPDX-License-Identifier: Apache-2.0 */
/* team.h - the same work on every processor of the worker at once. */
#ifndef ATTN_WORKER_TEAM_H
#define ATTN_WORKER_TEAM_H

#include <stdint.h>

/* Calls body(context, i) on a thread pinned to processors[i], for all i < n, all released together.
 * Returns 0 when every one has run, -1 where a thread could not be started (none has run). */
int attn_team_run(uint32_t n, const uint32_t *processors, void (*body)(void *context, uint32_t i),
                  void *context);

#endif
