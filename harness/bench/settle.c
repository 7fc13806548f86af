/* SPDX-License-Identifier: Apache-2.0 */
/* settle.c - which backends of a case need no more rounds of turns. */
#include "bench/settle.h"

#include <math.h>

/* So much slower than the fastest, from one end of both intervals to the other. The intervals are
 * looked at after each round: one that once in a while lies just above 1 must not end the rounds.
 */
#define SETTLED_ABOVE 1.05
/* The upper limit of the ratio over its lower one, at most. */
#define SETTLED_WIDTH 1.03

int attn_settle(struct attn_paired_rounds *const *rounds, size_t n)
{
    struct attn_interval ratio, first = {.value = INFINITY};
    for (size_t b = 0; b < n; b++) {
        rounds[b]->settled = false;
        if (attn_paired_ratios(rounds[b]))
            return -1;
        if (attn_paired_to_anchor(rounds[b], &ratio) && ratio.value < first.value)
            first = ratio;
    }
    for (size_t b = 0; b < n && first.n >= ATTN_SETTLED_ROUNDS; b++)
        rounds[b]->settled =
            attn_paired_to_anchor(rounds[b], &ratio) && ratio.n >= ATTN_SETTLED_ROUNDS &&
            ratio.lo > SETTLED_ABOVE * first.hi && ratio.hi < SETTLED_WIDTH * ratio.lo;
    return 0;
}
