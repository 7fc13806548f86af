/* SPDX-License-Identifier: Apache-2.0 */
/* index.h - where the records of several runs lie, by their keys; not the records themselves. */
#ifndef ATTN_MERGE_INDEX_H
#define ATTN_MERGE_INDEX_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "merge/names.h"

struct attn_merge_entry {
    uint64_t offset;      /* of the record's own fields in its file, without braces */
    uint32_t length, crc; /* of these */
    uint32_t run;         /* the number of the run */
    uint32_t id, label, backend, type, cache; /* names */
    int32_t threads, round;
    bool judged; /* a verdict that is no skip */
};

struct attn_merge_index {
    struct attn_merge_entry *items;
    size_t count, capacity;
    struct attn_merge_names names;
};

/* What a record's key is made of; the rest of the entry is the caller's. Adds it. Returns 0, or -1:
 * no memory. */
int attn_merge_index_add(struct attn_merge_index *index, const json_t *record,
                         const struct attn_merge_entry *place);

/* Names in (text, size) the first backend of `machine` that a command named and that no run has
 * judged; of a plugin that was named, one must be judged. Before attn_merge_index_settle. */
void attn_merge_index_unchecked(const struct attn_merge_index *index, const json_t *machine,
                                char *text, size_t size);

/* Are the records of two entries equal? Returns 1, 0, or -1: they cannot be read. */
typedef int attn_merge_equal(const struct attn_merge_entry *a, const struct attn_merge_entry *b,
                             void *context);

/* What attn_merge_index_settle found. */
struct attn_merge_settled {
    size_t superseded; /* by a later record of the same run with the same key: a resumed case */
    size_t repeated;   /* equal to one of another run */
    size_t cases;      /* different ids among those that are kept */
    /* Two runs differ in a key; *other is NULL if they do not. */
    const struct attn_merge_entry *one, *other;
};

/* Keeps one entry of each key, and brings them in an order that depends on nothing but what is in
 * them: by name and line of the case, backend, options, threads, then verify, untimed, rounds,
 * timings. Returns 0, or -1 with the reason. */
int attn_merge_index_settle(struct attn_merge_index *index, attn_merge_equal *equal, void *context,
                            struct attn_merge_settled *settled, char *why, size_t size);

void attn_merge_index_free(struct attn_merge_index *index);

#endif
