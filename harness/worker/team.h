/* SPDX-License-Identifier: Apache-2.0 */
/* team.h - runs the same work on every processor of the worker at once. */
#ifndef ATTN_WORKER_TEAM_H
#define ATTN_WORKER_TEAM_H

#include <stdint.h>

/* Calls body(context, i) on a thread pinned to processors[i] for all i < n, all started together.
 * Returns 0 after all have run, or -1 if a thread could not be started; then none has run. */
int attn_team_run(uint32_t n, const uint32_t *processors, void (*body)(void *context, uint32_t i),
                  void *context);

#endif
