/* SPDX-License-Identifier: Apache-2.0 */
/* philox.h - the counter-based generator behind random tensors and dropout.
 * Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011. */
#ifndef ATTN_REFERENCE_PHILOX_H
#define ATTN_REFERENCE_PHILOX_H

#include <stdint.h>

/* Philox4x32-10: four random words for one counter under one key. */
void attn_philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

/* The same, inline: if a caller draws many in a loop, the compiler can vectorise the loop. The
 * multipliers and Weyl increments (golden ratio, sqrt(3) - 1) are the paper's for four 32-bit words
 * (its section 3 and table 2). */
static inline __attribute__((always_inline)) void
attn_philox4x32_inline(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t x0 = counter[0], x1 = counter[1], x2 = counter[2], x3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        const uint64_t a = (uint64_t)0xd2511f53u * x0;
        const uint64_t b = (uint64_t)0xcd9e8d57u * x2;
        x0 = (uint32_t)(b >> 32) ^ x1 ^ k0;
        x1 = (uint32_t)b;
        x2 = (uint32_t)(a >> 32) ^ x3 ^ k1;
        x3 = (uint32_t)a;
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
    out[0] = x0;
    out[1] = x1;
    out[2] = x2;
    out[3] = x3;
}

/* True if dropout p with this seed keeps the weight with linear index [b,h,i,j] (see backend.h). */
int attn_dropout_keep(uint64_t seed, uint64_t index, double p);

#endif
