/* SPDX-License-Identifier: Apache-2.0 */
/* census.h - which keys each row has read. Private to this folder. */
#ifndef ATTN_CENSUS_H
#define ATTN_CENSUS_H

#include "explain/probe.h"

/* Counts the keys of every row from out, sampled by the verdict or not. *counted is the number of
 * rows. False, with the sentence, if a row is not right. A row counts as right if out's type is too
 * coarse to tell. */
bool attn_census_check(const struct attn_probe *probe, int64_t *counted, char *text, size_t size);

/* Is a column of a row the whole number `sum` over n keys that it should be? True if rounding of
 * out (with `beside` added to it) could hide half a unit, because then nothing is known. */
bool attn_census_counts(uint32_t dtype, double got, double sum, int64_t n, double beside);

#endif
