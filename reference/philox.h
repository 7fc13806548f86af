/* SPDX-License-Identifier: Apache-2.0 */
/* philox.h - the counter-based generator behind random tensors and dropout.
 * Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011. */
#ifndef ATTN_REFERENCE_PHILOX_H
#define ATTN_REFERENCE_PHILOX_H

#include <stdint.h>

/* Philox4x32-10: four random words for one counter under one key. */
void attn_philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

/* Is the weight with linear index [b,h,i,j] kept by dropout p under this seed (see backend.h). */
int attn_dropout_keep(uint64_t seed, uint64_t index, double p);

#endif
