/* SPDX-License-Identifier: Apache-2.0 */
/* caches.h - the sizes of this processor's data caches. */
#ifndef ATTN_WORKER_CACHES_H
#define ATTN_WORKER_CACHES_H

#include <stddef.h>

#define ATTN_CACHES_MAX 4

/* Bytes of each cache, nearest first. Returns their number; 0: the system does not say. */
size_t attn_caches(size_t bytes[ATTN_CACHES_MAX]);

/* Bytes of the last cache; 32 MiB if the system does not say. */
size_t attn_last_cache_bytes(void);

#endif
