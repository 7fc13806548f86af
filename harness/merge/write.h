/* SPDX-License-Identifier: Apache-2.0 */
/* write.h - the folder of a merged run. */
#ifndef ATTN_MERGE_WRITE_H
#define ATTN_MERGE_WRITE_H

#include <stdbool.h>

#include "merge/source.h"

/* What a merged run says beside its records. */
struct attn_merge_about {
    json_t *machine, *matrix;         /* machine.json, matrix.json (NULL: none) */
    json_t *origin, *settings, *verb; /* of the first line; NULL: of an earlier version */
    json_t *parts;                    /* parts.h */
};

/* Unites *sum with the next description of a machine (machines.h), or keeps the lesser of *sum and
 * the next value, by its JSON. NULL is no value. Return 0, or -1: no memory. */
int attn_merge_fold(json_t **sum, const json_t *machine);
int attn_merge_least(json_t **sum, const json_t *value);

void attn_merge_about_free(struct attn_merge_about *about);

/* Writes the run. The journal is last: without it the folder is no run. finished: it ends in `end`.
 * Returns ATTN_EXIT_OK, or USAGE or INTERNAL with the reason. */
enum attn_exit attn_merge_write(const char *out, const struct attn_merge_sources *sources,
                                const struct attn_merge_index *index,
                                const struct attn_merge_about *about, bool finished, char *why,
                                size_t size);

#endif
