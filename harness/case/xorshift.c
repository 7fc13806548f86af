/* SPDX-License-Identifier: Apache-2.0 */
/* xorshift.c - xorshift64*. */
#include "case/xorshift.h"

uint64_t attn_draw(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(2685821657736338717);
}

unsigned attn_draw_below(uint64_t *state, unsigned n)
{
    return (unsigned)((attn_draw(state) >> 32) % n);
}
