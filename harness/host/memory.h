/* SPDX-License-Identifier: Apache-2.0 */
/* memory.h - how much memory there is to have. */
#ifndef ATTN_MEMORY_H
#define ATTN_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

/* Bytes that can be had without swapping: MemAvailable of the kernel. Where /proc/meminfo does not
 * say, half of all memory, or what is free if that is more; never 0. */
uint64_t attn_memory_available(void);

/* Does /proc/meminfo say? If not, attn_memory_available assumes. */
bool attn_memory_is_told(void);

#endif
