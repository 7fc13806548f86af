/* SPDX-License-Identifier: Apache-2.0 */
/* vector_bytes.h - the first bytes of an array, in a register. Bytes that are stored one by one and
 * then loaded as a vector would wait for the stores to end. */
#ifndef ATTN_SIMD_VECTOR_BYTES_H
#define ATTN_SIMD_VECTOR_BYTES_H

#include <stdint.h>
#include <string.h>

/* The first `count` bytes, the first of them lowest. count <= 0: none; count >= 8: eight. The
 * others are 0 and are not read. */
static inline uint64_t first_bytes(const uint8_t *p, int64_t count)
{
    uint64_t all = 0;
    if (count >= 8) {
        memcpy(&all, p, 8);
    } else if (count >= 4) { /* two fours, which share what both have */
        uint32_t first, last;
        memcpy(&first, p, 4);
        memcpy(&last, p + count - 4, 4);
        all = first | (uint64_t)last << 8 * (count - 4);
    } else if (count > 0) { /* the first, the middle and the last, which may be the same */
        all = p[0] | (uint64_t)p[count / 2] << 8 * (count / 2) |
              (uint64_t)p[count - 1] << 8 * (count - 1);
    }
    return all;
}

#endif
