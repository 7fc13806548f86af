/* SPDX-License-Identifier: Apache-2.0 */
/* entropy.h - words that no plugin can know in advance. */
#ifndef ATTN_HOST_ENTROPY_H
#define ATTN_HOST_ENTROPY_H

#include <stdint.h>

/* 64 random bits of the kernel; of clock and process number while the kernel has none yet. */
uint64_t attn_entropy(void);

#endif
