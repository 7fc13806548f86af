/* SPDX-License-Identifier: Apache-2.0 */
/* drift.h - finds results whose error has grown since an earlier run, though within the bound. */
#ifndef ATTN_DRIFT_H
#define ATTN_DRIFT_H

#include <jansson.h>
#include <stdio.h>

/* max_ratio of a result may grow by this factor. */
#define ATTN_DRIFT_FACTOR 2.0

struct attn_drift {
    /* results that passed or are approximate; of these, those without a counterpart, and those that
     * got worse */
    int compared, unmatched, drifted;
};

/* The verdicts of an earlier run. `path` is a results.ndjson or the folder that holds one. Returns
 * a new reference, or NULL with the reason: it cannot be read, or holds no verdict that passed. */
json_t *attn_drift_read(const char *path, char *why, size_t size);

/* Those of `records` that are verdicts that passed, as attn_drift_read keeps them. A new reference,
 * or NULL: no memory. */
json_t *attn_drift_passed(const json_t *records);

/* Compares the verdicts in `records` that passed with the earlier ones of the same case, backend,
 * options and threads. Prints one sentence on `out` for each whose max_ratio is more than `factor`
 * times the earlier value. The median over that backend's cases of the same type replaces the
 * earlier value if it is larger: a single case may by luck have had almost no error. Returns 0, or
 * -1: no memory. */
int attn_drift_judge(const json_t *earlier, const json_t *records, double factor, FILE *out,
                     struct attn_drift *drift);

#endif
