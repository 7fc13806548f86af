/* SPDX-License-Identifier: Apache-2.0 */
/* merge.h - one run of the shards of a run.
 *
 * The result depends on the set of records and shards alone. So runs may be merged in any order, in
 * groups, and again with what is in them already; as long as they are all there, the bytes are the
 * same into however many shards the cases were cut. */
#ifndef ATTN_MERGE_H
#define ATTN_MERGE_H

#include <stddef.h>

#include "results/status.h"

/* What was merged. */
struct attn_merged {
    size_t runs, records, cases;
    size_t repeated;   /* records that several runs have, equal */
    size_t superseded; /* records of work that was done again after an interruption */
    size_t missing;    /* shards that are missing or unfinished; `shards` names them */
    char shards[640];
    char unchecked[128]; /* a backend that was asked for, and has no verdict but skips; "": none */
};

/* Merges run folders, and folders of run folders, into the new run folder `out`. Returns
 * ATTN_EXIT_OK, also where shards are missing: then the new run is unfinished. Otherwise the reason
 * in (why, size) and nothing that could be taken for a run: ATTN_EXIT_USAGE if a run cannot be read
 * or two runs have different records under one key, ATTN_EXIT_BASELINE if their machines, builds or
 * protocols differ, ATTN_EXIT_INTERNAL if `out` cannot be written or memory is short. */
enum attn_exit attn_merge(const char *const *runs, size_t count, const char *out,
                          struct attn_merged *merged, char *why, size_t size);

#endif
