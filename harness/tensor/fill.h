/* SPDX-License-Identifier: Apache-2.0 */
/* fill.h - inputs made on purpose: scores and values in which one wrong cell cannot hide. */
#ifndef ATTN_FILL_H
#define ATTN_FILL_H

#include "tensor/types.h"

/* Overwrites q, k, v (poison: x_* too) and, where scores are chosen, the score parameters of an
 * instance whose inputs have been drawn, by the fill of its case. Does nothing for the fills before
 * ATTN_FILL_CENSUS. Returns 0, or -1 with the reason (no memory). */
int attn_fill_craft(struct attn_instance *instance, int threads, char *why, size_t size);

/* census: v of key j in column c of a head (`head` counts over batches and key/value heads, as v
 * stores them): 1 or -1. Two keys next to each other have opposite signs, in half of the columns 2t
 * and 2t+1, in the others 2t-1 and 2t: those of any range of keys add up to -2..2, and what is lost
 * in whole pairs of one kind breaks pairs of the other. */
int attn_fill_census_sign(uint64_t seed, int64_t head, int64_t key, int64_t column);

#endif
