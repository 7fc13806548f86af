/* SPDX-License-Identifier: Apache-2.0 */
/* affinity.h - chooses the processors that a worker runs on. */
#ifndef ATTN_AFFINITY_H
#define ATTN_AFFINITY_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Chooses exactly `threads` of the allowed processors: first one of every physical core, then their
 * siblings, each in ascending order. topology: "/sys/devices/system/cpu", or a folder of the same
 * form. A processor without an entry there counts as a core of its own. Returns 0, or -1 with the
 * reason: fewer processors are allowed. */
int attn_affinity_choose(const char *topology, const cpu_set_t *allowed, uint32_t threads,
                         uint32_t *processors, char *why, size_t size);

/* The lowest processor that shares a physical core with this one. */
uint32_t attn_affinity_core(const char *topology, uint32_t processor);

#endif
