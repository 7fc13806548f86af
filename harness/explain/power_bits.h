/* SPDX-License-Identifier: Apache-2.0 */
/* power_bits.h - the mistakes that a verdict would have refused, one bit each. */
#ifndef ATTN_POWER_BITS_H
#define ATTN_POWER_BITS_H

#include <stdbool.h>

/* A set of mistakes: bit m stands for mistake number m. */
__extension__ typedef unsigned __int128 attn_power_set;

struct attn_power {
    bool measured; /* false: nothing is known, and nothing is held against the verdict */
    attn_power_set applies, refused;
};

/* The name of mistake m, NULL after the last. */
const char *attn_power_name(int mistake);

#endif
