/* SPDX-License-Identifier: Apache-2.0 */
/* journal.h - writes results.ndjson: the records of a run, one a line, append-only.
 *
 * Every line is one write, synced before the next step. It carries `seq`, the number of the line,
 * `run`, the identity of the run, and last a crc32 (record.h). The journal has entries of its own:
 * the first line, of type `run`, says where the results come from; `resume` precedes what a later
 * command adds; `end` is last once the work is done. So whatever is missing, doubled, swapped,
 * flipped, cut off or from another run shows. A journal without `end` is unfinished. One without
 * numbers is of an earlier version: only its checksums can be checked. */
#ifndef ATTN_JOURNAL_H
#define ATTN_JOURNAL_H

#include <stdio.h>

#include "results/journal_read.h"

/* A journal that is open for writing, and locked: there is one writer at a time. */
struct attn_journal {
    int fd; /* -1: closed */
    char identity[ATTN_JOURNAL_IDENTITY + 1];
    uint64_t lines;
    bool ended;
    json_t *resume; /* the entry that precedes the next record; NULL: none. Owned */
};

/* Makes a new journal, which must not exist. identity: 16 hex digits; NULL: random ones. run: the
 * fields of its first line, beside `type` and `format`. A link is not followed. */
enum attn_journal_status attn_journal_create(const char *path, const char *identity,
                                             const json_t *run, struct attn_journal *journal,
                                             char *why, size_t size);

/* Opens a journal to go on with it, locks it, reads it, and cuts off what is torn; with salvage
 * what is damaged, too, which is kept beside as PATH.cut. `lines` is 0 if there was nothing yet:
 * attn_journal_begin must follow. One of an earlier version is refused. The caller releases
 * *content. */
enum attn_journal_status attn_journal_reopen(const char *path, bool salvage,
                                             struct attn_journal *journal,
                                             struct attn_journal_content *content, char *why,
                                             size_t size);

/* The functions below return 0, or -1 with errno. */

/* Writes the first line of an empty journal. */
int attn_journal_begin(struct attn_journal *journal, const char *identity, const json_t *run);

/* The fields of the `resume` entry that precedes the next record, beside `type`. Takes the
 * reference. */
void attn_journal_resume(struct attn_journal *journal, json_t *resume);

/* Appends one record, and syncs it. A failed write is undone. EINVAL: no object, an empty one, or
 * one that has `seq`, `run` or `crc32`. ENOMEM: attn_record_seal. */
int attn_journal_append(struct attn_journal *journal, const json_t *record);

/* Marks that the work is done, if the journal does not end so already. */
int attn_journal_end(struct attn_journal *journal);

/* Puts one line of a journal that is written as a whole into a file, unsynced. fields: of the
 * entry, as text without braces. */
int attn_journal_put(FILE *file, const char *fields, size_t length, uint64_t number,
                     const char *identity);

/* Closes and unlocks. */
void attn_journal_close(struct attn_journal *journal);

#endif
