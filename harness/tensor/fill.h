/* SPDX-License-Identifier: Apache-2.0 */
/* fill.h - adversarial inputs: scores and values in which one wrong cell cannot hide. */
#ifndef ATTN_FILL_H
#define ATTN_FILL_H

#include "tensor/types.h"

/* Overwrites the drawn inputs of an instance by the fill of its case: q, k, v (poison: x_*, too)
 * and, if the fill chooses scores, the score parameters. Does nothing for the fills before
 * ATTN_FILL_CENSUS. Returns 0, or -1 with the reason (no memory). */
int attn_fill_craft(struct attn_instance *instance, int threads, char *why, size_t size);

/* Does the fill of the case write every element of this operand, so that it need not be drawn? */
bool attn_fill_makes(const struct attn_case *c, uint32_t role);

/* census: v of key j in column c of a head, 1 or -1. `head` counts over batches and key/value
 * heads, as v stores them. Neighbouring keys have opposite signs: in half of the columns 2t and
 * 2t+1, in the others 2t-1 and 2t. So any range of keys adds up to -2..2, and keys lost in whole
 * pairs of one kind break pairs of the other. */
int attn_fill_census_sign(uint64_t seed, int64_t head, int64_t key, int64_t column);

#endif
