/* SPDX-License-Identifier: Apache-2.0 */
/* add.c - adds runs to an index, or makes it anew. */
#include <errno.h>
#include <fts.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "case/regular.h"
#include "history/folder.h"
#include "history/history.h"

static enum attn_exit code_of(int status)
{
    return status == 0 ? ATTN_EXIT_OK : status > 0 ? ATTN_EXIT_USAGE : ATTN_EXIT_INTERNAL;
}

enum attn_exit attn_history_add(const char *path, const char *const *runs, size_t count,
                                FILE *notes, char *why, size_t size)
{
    struct attn_index *index = NULL;
    size_t in_index = 0;
    int status = attn_index_open(path, ATTN_INDEX_ADD, &index, why, size);
    if (status == 0)
        status = attn_index_begin(index, why, size);
    for (size_t r = 0; status == 0 && r < count; r++)
        status = attn_folder_file(index, runs[r], notes, why, size);
    if (status == 0)
        status = attn_index_commit(index, &in_index, why, size);
    attn_index_close(index);
    return code_of(status);
}

static int by_name(const FTSENT **a, const FTSENT **b)
{
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

static bool is_run(const char *folder)
{
    char file[PATH_MAX];
    const int n = snprintf(file, sizeof file, "%s/results.ndjson", folder);
    return n > 0 && (size_t)n < sizeof file && access(file, F_OK) == 0;
}

struct tally {
    size_t untimed, left_out;
};

/* Files a run. One that cannot be read is left out. One without timings is of a verification.
 * Returns 0 or -1. */
static int file_run(struct attn_index *index, const char *folder, FILE *notes, struct tally *tally,
                    char *why, size_t size)
{
    const int status = attn_folder_file(index, folder, notes, why, size);
    tally->untimed += status == ATTN_FOLDER_UNTIMED;
    tally->left_out += status == 1;
    if (status == 1)
        fprintf(notes, "left out: %s\n", why);
    return status < 0 ? -1 : 0;
}

/* Files all runs below a folder. Returns 0, 1 or -1. */
static int walk(struct attn_index *index, const char *folder, FILE *notes, struct tally *tally,
                char *why, size_t size)
{
    char *roots[] = {(char *)folder, NULL};
    FTS *tree = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, by_name);
    int status = 0;
    for (FTSENT *entry; tree && status == 0 && (entry = fts_read(tree));) {
        if (entry->fts_level == 0 && entry->fts_info != FTS_D && entry->fts_info != FTS_DP) {
            snprintf(why, size, "%.400s is no folder that can be read", folder);
            status = 1;
        }
        if (entry->fts_info != FTS_D)
            continue;
        if (entry->fts_level > 0 && entry->fts_name[0] == '.') {
            fts_set(tree, entry, FTS_SKIP);
        } else if (is_run(entry->fts_path)) {
            fts_set(tree, entry, FTS_SKIP);
            status = file_run(index, entry->fts_path, notes, tally, why, size);
        }
    }
    if (!tree) {
        snprintf(why, size, "%.400s: %s", folder, strerror(errno));
        status = -1;
    } else {
        fts_close(tree);
    }
    return status;
}

/* Whether a file may be replaced by an index: it is one, or there is none. By its header, so that
 * damaged ones may, too. */
static bool may_replace(const char *path)
{
    static const char magic[16] = "SQLite format 3", owner[4] = "attn";
    char header[72] = "";
    const char *reason;
    FILE *file = attn_regular_open(path, &reason);
    if (!file)
        return errno == ENOENT;
    const size_t n = fread(header, 1, sizeof header, file);
    fclose(file);
    return n == 0 || (n == sizeof header && memcmp(header, magic, sizeof magic) == 0 &&
                      memcmp(header + 68, owner, sizeof owner) == 0);
}

enum attn_exit attn_history_rebuild(const char *path, const char *const *folders, size_t count,
                                    FILE *notes, char *why, size_t size)
{
    struct attn_index *index = NULL;
    struct tally tally = {0};
    size_t in_index = 0;
    char fresh[PATH_MAX], journal[PATH_MAX];
    const int n = snprintf(fresh, sizeof fresh, "%s.new", path);
    const int m = snprintf(journal, sizeof journal, "%s-journal", path);
    if (n < 0 || m < 0 || (size_t)m >= sizeof journal || !may_replace(path)) {
        snprintf(why, size,
                 "'%.400s' is no index of attnbench: remove it, or name another file with --index",
                 path);
        return ATTN_EXIT_USAGE;
    }
    unlink(fresh); /* of a rebuild that was cut off */
    int status = attn_index_open(fresh, ATTN_INDEX_ADD, &index, why, size);
    if (status == 0)
        status = attn_index_begin(index, why, size);
    for (size_t f = 0; status == 0 && f < count; f++)
        status = walk(index, folders[f], notes, &tally, why, size);
    if (status == 0)
        status = attn_index_commit(index, &in_index, why, size);
    attn_index_close(index);
    if (status == 0)
        unlink(journal); /* of a write that was cut off: SQLite would play it back */
    if (status == 0 && rename(fresh, path) != 0) {
        snprintf(why, size, "'%.400s' cannot be replaced: %s", path, strerror(errno));
        status = -1;
    }
    if (status != 0) {
        unlink(fresh);
        return code_of(status);
    }
    fprintf(notes, "%zu run%s in the index %s", in_index, in_index == 1 ? "" : "s", path);
    fprintf(notes, tally.untimed ? "; %zu without timings\n" : "\n", tally.untimed);
    if (tally.left_out == 0)
        return ATTN_EXIT_OK;
    snprintf(why, size, "%zu run folder%s left out", tally.left_out,
             tally.left_out == 1 ? " was" : "s were");
    return ATTN_EXIT_INCOMPLETE;
}
