/* SPDX-License-Identifier: Apache-2.0 */
/* index.h - the file of SQLite that holds runs. Private to this folder.
 *
 * Neither records nor an index are trusted. Texts are bound to statements, never part of them, and
 * cut to the lengths below. What is read back may have any type; it comes as JSON, whose readers
 * (report/text.h) bear that. */
#ifndef ATTN_INDEX_H
#define ATTN_INDEX_H

#include <jansson.h>
#include <stddef.h>

struct attn_index;

enum attn_index_mode { ATTN_INDEX_READ, ATTN_INDEX_ADD };

enum {
    ATTN_INDEX_TEXT_MAX = 4096,     /* bytes of a line, a path */
    ATTN_INDEX_MACHINE_MAX = 65536, /* bytes of a machine's identity */
    ATTN_INDEX_ROUNDS_MAX = 4096,   /* of one result */
    ATTN_INDEX_ROWS_MAX = 500000    /* that one question may return */
};

struct attn_index_run {
    const char *path;    /* absolute */
    const char *digest;  /* of its records */
    const char *date;    /* "2026-01-31T12:00:00Z", or "" */
    const char *commit;  /* of attnbench, or "" */
    const char *machine; /* attn_machine_identity */
};

struct attn_index_result {
    const char *id, *name, *line;
    const char *backend;          /* with its options */
    const char *plugin, *version; /* the hash of its file, and its version; or "" */
    const char *cache, *status;
    double threads; /* NAN: not recorded */
    /* As the record has it: the ratio to an anchor that was timed in alternation, and its interval.
     * "", NAN: it has none. */
    const char *anchor;
    double ratio, lo, hi;
    const double *rounds; /* the median of each round in ns; none: it was not timed */
    size_t n_rounds;
};

/* Returns 0, 1 where the file cannot be used as an index, or -1, with the reason. ADD makes the
 * file if there is none. */
int attn_index_open(const char *path, enum attn_index_mode mode, struct attn_index **index,
                    char *why, size_t size);
/* What was put since `begin` counts only after `commit`. */
void attn_index_close(struct attn_index *index);

/* These return 0, or -1 with the reason. */
int attn_index_begin(struct attn_index *index, char *why, size_t size);
/* runs: how many it has then. */
int attn_index_commit(struct attn_index *index, size_t *runs, char *why, size_t size);
/* Begins a run, in place of one of the same path, and of any with the same records and date: a
 * copy, or where the run lay before. Its path goes to `copy`, or "". */
int attn_index_put_run(struct attn_index *index, const struct attn_index_run *run,
                       char copy[ATTN_INDEX_TEXT_MAX + 1], char *why, size_t size);
/* Adds a result to the run that was begun last. */
int attn_index_put_result(struct attn_index *index, const struct attn_index_result *result,
                          char *why, size_t size);

/* Questions. Each gives a new array of objects, or NULL with the reason. */

/* Of each case: id, name, case (its line), runs (how many). */
json_t *attn_index_cases(struct attn_index *index, char *why, size_t size);
/* The results of a case by date, path and backend: run (path), date, commit, machine (its number),
 * name, case, backend, plugin, version, threads, cache, status, anchor, ratio, low, high, rounds.
 */
json_t *attn_index_results(struct attn_index *index, const char *id, char *why, size_t size);
/* Machines in the order of their first runs: machine (its number), identity (text). */
json_t *attn_index_machines(struct attn_index *index, char *why, size_t size);

#endif
