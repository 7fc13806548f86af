/* SPDX-License-Identifier: Apache-2.0 */
/* splitmix.h - the random numbers that decide the order and the inputs of a timing. */
#ifndef ATTN_HOST_SPLITMIX_H
#define ATTN_HOST_SPLITMIX_H

#include <stdint.h>

/* SplitMix64 (Steele, Lea and Flood 2014). Any state will do. */
static inline uint64_t attn_splitmix(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

#endif
