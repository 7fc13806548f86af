/* SPDX-License-Identifier: Apache-2.0 */
/* every.h - judges every unit of an output, under fills that make this cheap. Private to this
 * folder. */
#ifndef ATTN_EVERY_H
#define ATTN_EVERY_H

#include "tensor/instance.h"

/* Wrong rows that are kept, to be looked at one by one. */
enum { ATTN_EVERY_KEPT = 64 };

struct attn_every {
    int leader;          /* rows are units of this output; given */
    int64_t rows, wrong; /* rows that were judged; those with a wrong element */
    int64_t unknown;     /* elements of which nothing is known */
    double max_ratio;
    char worst[96];
    int64_t kept[ATTN_EVERY_KEPT], n_kept; /* units of wrong rows, ascending */
};

/* Can the units of this output be judged so? */
bool attn_every_fits(const struct attn_instance *instance, int leader);

/* Is there a fill, among those that `verify` tries, under which every unit of all outputs is? */
bool attn_every_reaches(const struct attn_instance *instance);

/* Judges the outputs of every->leader in the instance's memory: all rows, or, if that would cost
 * minutes, those of some key heads. Returns as ref_every_row and ref_compute do. */
int attn_every_judge(const struct attn_instance *instance, const struct ref_request *request,
                     const struct attn_numerics *numerics, struct attn_every *every, char *why,
                     size_t size);

#endif
