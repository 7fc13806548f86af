/* SPDX-License-Identifier: Apache-2.0 */
/* source.h - the runs that are merged. */
#ifndef ATTN_MERGE_SOURCE_H
#define ATTN_MERGE_SOURCE_H

#include <jansson.h>

#include "merge/index.h"
#include "results/status.h"

struct attn_merge_source {
    char *path;         /* of the folder */
    int fd;             /* of its results.ndjson; -1: closed */
    json_t *machine;    /* machine.json */
    json_t *matrix;     /* matrix.json; NULL: none */
    json_t *provenance; /* the first line of the journal: `verb`, `machine`, `settings` */
    json_t *parts;      /* parts.h */
};

struct attn_merge_sources {
    struct attn_merge_source *items;
    size_t count;
};

/* Adds a run folder, or those in a folder. Returns 0, or -1 with the reason. */
int attn_merge_sources_add(struct attn_merge_sources *sources, const char *path, char *why,
                           size_t size);

/* Reads a run, and files its records as those of run `number`. Returns ATTN_EXIT_OK, or USAGE or
 * INTERNAL with the reason. */
enum attn_exit attn_merge_source_read(struct attn_merge_source *source, uint32_t number,
                                      struct attn_merge_index *index, char *why, size_t size);

/* The fields of an entry, `length` bytes and a NUL; the caller frees them. NULL with errno; EIO if
 * they are not what they were. */
char *attn_merge_source_text(const struct attn_merge_source *source,
                             const struct attn_merge_entry *entry);

void attn_merge_sources_free(struct attn_merge_sources *sources);

#endif
