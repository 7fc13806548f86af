/* SPDX-License-Identifier: Apache-2.0 */
/* comparable.h - whether the times of two runs may be compared: names each difference between their
 * machines, builds and protocols. */
#ifndef ATTN_REPORT_COMPARABLE_H
#define ATTN_REPORT_COMPARABLE_H

#include <stdbool.h>

#include "report/pairs.h"

/* Ceilings may differ by this factor: they are measured, too. */
#define ATTN_CEILINGS_FACTOR 1.1

struct attn_difference {
    char what[96];             /* "CPU model", "version of blas", ... */
    char base[128], next[128]; /* as JSON, or "not stated" */
    bool stops;                /* false: a plugin's file. It is what the comparison is about */
};

struct attn_differences {
    struct attn_difference *items;
    size_t count, stopping;
    size_t ceilings; /* of `stopping`: those that are the rate of a ceiling */
};

/* What differs: processor, caches, threads, affinity, protocol (except the numbers of rounds and
 * the budget), pages, compiler and flags, C library, throttling, ceilings; versions, plugin files,
 * devices, drivers and device clocks of the backends that both runs have, or that options->map
 * holds against each other (options: NULL for none). A field that one run does not state differs.
 * CPU model, threads and build must be stated. Clocks that were held down stop a comparison even if
 * they were in both runs: by how much is not known. Returns 0, or -1: no memory. */
int attn_differences_find(const struct attn_run_data *base, const struct attn_run_data *next,
                          const struct attn_compare_options *options, struct attn_differences *out);
void attn_differences_free(struct attn_differences *differences);

/* A new list of {what, base, new, stops}. */
json_t *attn_differences_json(const struct attn_differences *differences);

#endif
