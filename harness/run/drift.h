/* SPDX-License-Identifier: Apache-2.0 */
/* drift.h - has accuracy become worse since an earlier run, though every bound still holds. */
#ifndef ATTN_DRIFT_H
#define ATTN_DRIFT_H

#include <jansson.h>
#include <stdio.h>

/* max_ratio of a result may be this many times what it was. */
#define ATTN_DRIFT_FACTOR 2.0

struct attn_drift {
    int compared, unmatched, drifted; /* results that held; of these without a counterpart */
};

/* The verdicts of an earlier run: a results.ndjson, or the folder that holds one. NULL with the
 * reason: it cannot be read, or holds no verdict that passed. A new reference. */
json_t *attn_drift_read(const char *path, char *why, size_t size);

/* Holds the verdicts that passed among `records` against the earlier ones of the same case,
 * backend, options and threads, and says on `out`, in a sentence each, where max_ratio is more than
 * `factor` times what it was; or times the median of that backend's cases of the same type, where
 * that is more: a single case may by luck have had next to no error. Returns 0, or -1: no memory.
 */
int attn_drift_judge(const json_t *earlier, const json_t *records, double factor, FILE *out,
                     struct attn_drift *drift);

#endif
