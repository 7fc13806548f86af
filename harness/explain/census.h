/* SPDX-License-Identifier: Apache-2.0 */
/* census.h - which keys each row has read. Private to this folder. */
#ifndef ATTN_CENSUS_H
#define ATTN_CENSUS_H

#include "explain/probe.h"

/* Counts the keys of every row from out, those that the verdict has not sampled, too; *counted is
 * how many rows. False, with the sentence, where one is not right. Where out's type is too coarse
 * to tell, it is taken as right. */
bool attn_census_check(const struct attn_probe *probe, int64_t *counted, char *text, size_t size);

#endif
