/* SPDX-License-Identifier: Apache-2.0 */
/* journal_read.h - reads results.ndjson (journal.h), and tells what is missing or does not belong
 * there. */
#ifndef ATTN_JOURNAL_READ_H
#define ATTN_JOURNAL_READ_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ATTN_JOURNAL_FORMAT = 2, ATTN_JOURNAL_IDENTITY = 16 };

/* What became of reading or opening one. */
enum attn_journal_status {
    ATTN_JOURNAL_OK = 0,
    ATTN_JOURNAL_UNREADABLE = -1, /* no such file, no regular file, in use, no memory, ... */
    ATTN_JOURNAL_DAMAGED = -2     /* a line is damaged, missing, doubled, swapped or foreign */
};

/* What a journal holds. */
struct attn_journal_content {
    json_t *records; /* array: what was appended, in order, without the fields named above */
    json_t *run;     /* the fields of the first line; NULL: an earlier version, or empty */
    /* Which cases the last command was given, as in machine.json; NULL: not known. Owned. */
    json_t *selection;
    char identity[ATTN_JOURNAL_IDENTITY + 1]; /* "": an earlier version, or empty */
    uint64_t lines, bytes; /* that are whole and in order: all, or those before the damage */
    bool ended;            /* the last line is `end` */
    bool old;              /* of an earlier version, which marked no end */
    bool torn;             /* half a line at the end was left out: its writer was killed */
    char damage[320];      /* with salvage: what is wrong after `lines`; "": nothing */
};

/* Reads a journal. salvage: of a damaged one, keep what is before the damage, if that is anything;
 * else it is refused. On failure (why, size) has the reason and there is nothing to release. */
enum attn_journal_status attn_journal_read(const char *path, bool salvage,
                                           struct attn_journal_content *content, char *why,
                                           size_t size);
/* The same of a file that is open; path: for messages. */
enum attn_journal_status attn_journal_read_fd(int fd, const char *path, bool salvage,
                                              struct attn_journal_content *content, char *why,
                                              size_t size);

/* Where a record lies in its file. */
struct attn_journal_place {
    const char *text; /* its own fields, without braces: of the line what is before its number; NULL
                         if attnbench has not written the line */
    size_t length;
    uint64_t offset;
};

/* Takes one record, which stays the caller's. Returns 0; 1 if it needs the text and there is none;
 * -1: no memory. */
typedef int attn_journal_visit(const json_t *record, const struct attn_journal_place *place,
                               void *context);

/* As attn_journal_read_fd, but keeps no record: content->records is NULL. */
enum attn_journal_status attn_journal_scan(int fd, const char *path, bool salvage,
                                           attn_journal_visit *visit, void *context,
                                           struct attn_journal_content *content, char *why,
                                           size_t size);

/* What follows the fields of line `number`, up to its seal. Returns its length. */
enum { ATTN_JOURNAL_PLACE = 64 };
int attn_journal_place_text(uint64_t number, const char *identity, char text[ATTN_JOURNAL_PLACE]);

void attn_journal_release(struct attn_journal_content *content);

#endif
