/* SPDX-License-Identifier: Apache-2.0 */
/* every.h - judges every row of a problem with few distinct queries. Private to this folder. */
#ifndef ATTN_EVERY_H
#define ATTN_EVERY_H

#include "tensor/instance.h"

/* Wrong rows that are kept, to be looked at one by one. */
enum { ATTN_EVERY_KEPT = 64 };

struct attn_every {
    int64_t rows, wrong; /* rows that were judged; those with a wrong element */
    int64_t unknown;     /* elements of which nothing is known */
    double max_ratio;
    char worst[96];
    int64_t kept[ATTN_EVERY_KEPT], n_kept; /* units of wrong rows, ascending */
};

/* Judges the outputs in the instance's memory. Returns as ref_every_row does. */
int attn_every_judge(const struct attn_instance *instance, const struct attn_numerics *numerics,
                     int threads, struct attn_every *every, char *why, size_t size);

#endif
