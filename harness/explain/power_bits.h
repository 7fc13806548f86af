/* SPDX-License-Identifier: Apache-2.0 */
/* power_bits.h - the mistakes that a verdict would have refused, one bit each. */
#ifndef ATTN_POWER_BITS_H
#define ATTN_POWER_BITS_H

#include <stdbool.h>
#include <stdint.h>

/* Bit m stands for mistake number m. */
struct attn_power {
    bool measured; /* false: nothing is known, and nothing is held against the verdict */
    uint64_t applies, refused;
};

/* The name of mistake m, NULL after the last. */
const char *attn_power_name(int mistake);

#endif
