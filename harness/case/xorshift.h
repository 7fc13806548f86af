/* SPDX-License-Identifier: Apache-2.0 */
/* xorshift.h - the random numbers of generated case lines. */
#ifndef ATTN_CASE_XORSHIFT_H
#define ATTN_CASE_XORSHIFT_H

#include <stdint.h>

/* xorshift64*: a fixed sequence on every machine. The state must not be 0. */
uint64_t attn_draw(uint64_t *state);
/* From 0 to n - 1. */
unsigned attn_draw_below(uint64_t *state, unsigned n);

#endif
