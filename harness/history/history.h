/* SPDX-License-Identifier: Apache-2.0 */
/* history.h - how the time of a case has changed from run to run.
 *
 * An index, a file of SQLite, holds what is needed of many run folders. The folders are the truth:
 * the index can be made from them again at any time. A build without SQLite has these functions,
 * too; they refuse with a message. */
#ifndef ATTN_HISTORY_H
#define ATTN_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "results/status.h"

/* Where the index is unless --index says another place: in the current folder. */
#define ATTN_HISTORY_INDEX "attnbench-history.sqlite"

/* The functions return an exit code; unless it is ATTN_EXIT_OK, (why, size) says why in one
 * sentence. */

/* Adds run folders to an index, which is made if there is none. A run that is there already is
 * replaced. Either all are added, or none. ATTN_EXIT_USAGE: a folder is no run with timings, or the
 * file is no index. */
enum attn_exit attn_history_add(const char *index, const char *const *runs, size_t count,
                                FILE *notes, char *why, size_t size);

/* Makes an index of all runs in some folders, at any depth, in place of an earlier one. Says on
 * `notes` which runs were left out, and why; ATTN_EXIT_INCOMPLETE where there were any. Folders
 * whose name begins with a dot are not entered, nor are links. */
enum attn_exit attn_history_rebuild(const char *index, const char *const *folders, size_t count,
                                    FILE *notes, char *why, size_t size);

struct attn_history_wish {
    const char *word;            /* id, name or line of cases; NULL: list the cases */
    const char *const *backends; /* only these, by name or with their options; none: all */
    size_t n_backends;
    const char *anchor; /* what times are relative to; NULL: chosen, as the output says */
    bool hot, cold;     /* states of the caches */
    double margin;      /* changes up to this share are none */
    bool json;
};

/* Writes the history of a case to `out`: each run with its ratio to the anchor, and the change
 * points. ATTN_EXIT_NOTHING: the index has no such case, or no ratio for it. */
enum attn_exit attn_history_show(const char *index, const struct attn_history_wish *wish, FILE *out,
                                 char *why, size_t size);

#endif
