/* SPDX-License-Identifier: Apache-2.0 */
/* write.c - writes a merged run: machine.json, matrix.json, kept weights, then the journal. */
#include "merge/write.h"

#include <errno.h>
#include <fcntl.h>
#include <sha2.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "case/regular.h"
#include "merge/machines.h"
#include "results/journal.h"
#include "results/kept.h"
#include "results/replace.h"
#include "run/paths.h"
#include "run/session.h"

int attn_merge_fold(json_t **sum, const json_t *machine)
{
    if (!machine)
        return 0;
    json_t *both = *sum ? attn_machines_unite(*sum, machine) : attn_machines_unite(machine, NULL);
    json_decref(*sum);
    *sum = both;
    return both ? 0 : -1;
}

static char *dump(const json_t *value)
{
    return json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_SORT_KEYS);
}

int attn_merge_least(json_t **sum, const json_t *value)
{
    char *a = *sum ? dump(*sum) : NULL, *b = value ? dump(value) : NULL;
    const int status = (*sum && !a) || (value && !b) ? -1 : 0;
    if (status == 0 && b && (!a || strcmp(b, a) < 0)) {
        json_decref(*sum);
        *sum = json_deep_copy(value);
    }
    free(a);
    free(b);
    return status;
}

void attn_merge_about_free(struct attn_merge_about *about)
{
    json_decref(about->machine);
    json_decref(about->matrix);
    json_decref(about->origin);
    json_decref(about->settings);
    json_decref(about->verb);
    json_decref(about->parts);
    *about = (struct attn_merge_about){0};
}

/* Writes an object as one file, of sorted keys. */
static int write_object(const char *folder, const char *name, const json_t *object, size_t flags,
                        char *why, size_t size)
{
    char path[ATTN_PATH_MAX], *text = json_dumps(object, flags | JSON_SORT_KEYS);
    const int status = text && attn_path_join(path, folder, name) == 0
                           ? attn_replace(path, text, strlen(text))
                           : -1;
    if (status)
        snprintf(why, size, "%s cannot be written into '%s': %m", name, folder);
    free(text);
    return status;
}

/* Copies a file. One that is there already must be equal. Returns ATTN_EXIT_OK, or the code with
 * the reason. */
static enum attn_exit copy_file(const char *from, const char *to, char *why, size_t size)
{
    size_t length, there;
    const char *reason;
    char *text = attn_regular_read(from, SIZE_MAX, &length, &reason);
    enum attn_exit code = ATTN_EXIT_OK;
    if (!text) {
        snprintf(why, size, "%s: %s", from, reason);
        return ATTN_EXIT_USAGE;
    }
    char *old = access(to, F_OK) == 0 ? attn_regular_read(to, SIZE_MAX, &there, &reason) : NULL;
    if (old && (length != there || memcmp(text, old, length) != 0)) {
        snprintf(why, size, "%s differs from that of another run", from);
        code = ATTN_EXIT_USAGE;
    } else if (!old && attn_replace(to, text, length)) {
        snprintf(why, size, "%s cannot be written: %m", to);
        code = ATTN_EXIT_INTERNAL;
    }
    free(old);
    free(text);
    return code;
}

/* The kept weights of one run. */
static enum attn_exit copy_kept(const char *run, const char *out, char *why, size_t size)
{
    char folder[ATTN_PATH_MAX], target[ATTN_PATH_MAX], from[ATTN_PATH_MAX], to[ATTN_PATH_MAX];
    char **names;
    size_t n;
    enum attn_exit code = ATTN_EXIT_OK;
    if (attn_path_join(folder, run, ATTN_KEPT_FOLDER) || access(folder, F_OK) != 0)
        return ATTN_EXIT_OK;
    if (attn_path_join(target, out, ATTN_KEPT_FOLDER) || attn_make_folder(target)) {
        snprintf(why, size, "folder '%s/" ATTN_KEPT_FOLDER "' cannot be made: %m", out);
        return ATTN_EXIT_INTERNAL;
    }
    if (attn_names_in(folder, ".safetensors", &names, &n)) {
        snprintf(why, size, "%s: %m", folder);
        return ATTN_EXIT_USAGE;
    }
    for (size_t i = 0; i < n && !code; i++) {
        if (attn_path_join(from, folder, names[i]) == 0 &&
            attn_path_join(to, target, names[i]) == 0) {
            code = copy_file(from, to, why, size);
        } else {
            snprintf(why, size, "the path of '%s' is too long", names[i]);
            code = ATTN_EXIT_USAGE;
        }
    }
    attn_names_free(names, n);
    return code;
}

/* The fields of the first line, sorted, without braces. NULL: no memory. */
static char *first_fields(const struct attn_merge_about *about)
{
    json_t *first = json_pack("{s:s, s:i, s:O*, s:O*, s:O*, s:O}", "type", "run", "format",
                              ATTN_JOURNAL_FORMAT, "verb", about->verb, "machine", about->origin,
                              "settings", about->settings, "parts", about->parts);
    char *text = first ? dump(first) : NULL;
    json_decref(first);
    if (!text)
        return NULL;
    const size_t length = strlen(text) - 2;
    memmove(text, text + 1, length);
    text[length] = '\0';
    return text;
}

/* Of what is in the run: equal runs have equal identities. */
static void name_run(const char *first, const struct attn_merge_index *index,
                     char identity[ATTN_JOURNAL_IDENTITY + 1])
{
    SHA2_CTX hash;
    char digits[SHA256_DIGEST_STRING_LENGTH];
    SHA256Init(&hash);
    SHA256Update(&hash, (const uint8_t *)first, strlen(first));
    for (size_t i = 0; i < index->count; i++) {
        const uint32_t words[2] = {index->items[i].crc, index->items[i].length};
        SHA256Update(&hash, (const uint8_t *)words, sizeof words);
    }
    SHA256End(&hash, digits);
    memcpy(identity, digits, ATTN_JOURNAL_IDENTITY);
    identity[ATTN_JOURNAL_IDENTITY] = '\0';
}

/* All lines. Returns 0, or -1 with errno. */
static int write_lines(FILE *file, const char *first, const struct attn_merge_sources *sources,
                       const struct attn_merge_index *index, bool finished)
{
    static const char last[] = "\"type\":\"end\"";
    char identity[ATTN_JOURNAL_IDENTITY + 1];
    uint64_t number = 1;
    name_run(first, index, identity);
    int status = attn_journal_put(file, first, strlen(first), number++, identity);
    for (size_t i = 0; i < index->count && status == 0; i++) {
        const struct attn_merge_entry *entry = &index->items[i];
        char *text =
            attn_interrupted ? NULL : attn_merge_source_text(&sources->items[entry->run], entry);
        if (attn_interrupted)
            errno = EINTR;
        status = text ? attn_journal_put(file, text, entry->length, number++, identity) : -1;
        const int saved = errno;
        free(text);
        errno = saved;
    }
    if (status == 0 && finished)
        status = attn_journal_put(file, last, sizeof last - 1, number, identity);
    return status;
}

/* Never over a journal that has come meanwhile; not all file systems can promise that. */
static int put_in_place(const char *from, const char *to)
{
    const int status = renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE);
    return status != 0 && (errno == EINVAL || errno == ENOSYS) ? rename(from, to) : status;
}

/* What a merge that was killed has left goes. */
static FILE *open_new(const char *path)
{
    unlink(path);
    return fopen(path, "wxe");
}

static int write_journal(const char *out, const struct attn_merge_sources *sources,
                         const struct attn_merge_index *index, const struct attn_merge_about *about,
                         bool finished)
{
    char path[ATTN_PATH_MAX], partial[ATTN_PATH_MAX], *first = first_fields(about);
    int status = -1, saved;
    errno = first ? ENAMETOOLONG : ENOMEM;
    FILE *file = first && attn_path_join(path, out, "results.ndjson") == 0 &&
                         attn_path_join(partial, out, "results.ndjson.partial") == 0
                     ? open_new(partial)
                     : NULL;
    if (file) {
        status = write_lines(file, first, sources, index, finished);
        if (status == 0 && (fflush(file) != 0 || fsync(fileno(file)) != 0))
            status = -1;
        saved = errno;
        if (fclose(file) != 0 && status == 0) {
            status = -1;
            saved = errno;
        }
        if (status == 0 && put_in_place(partial, path) != 0) {
            status = -1;
            saved = errno;
        }
        if (status)
            unlink(partial);
        errno = saved;
    }
    free(first);
    return status;
}

static enum attn_exit write_all(const char *out, const struct attn_merge_sources *sources,
                                const struct attn_merge_index *index,
                                const struct attn_merge_about *about, bool finished, char *why,
                                size_t size)
{
    enum attn_exit code = ATTN_EXIT_OK;
    char path[ATTN_PATH_MAX];
    if (attn_path_join(path, out, "results.ndjson") || access(path, F_OK) == 0) {
        snprintf(why, size, "'%s' holds a run already; name another folder", out);
        return ATTN_EXIT_USAGE;
    }
    for (size_t i = 0; i < sources->count && !code; i++)
        code = copy_kept(sources->items[i].path, out, why, size);
    if (!code && (write_object(out, "machine.json", about->machine,
                               JSON_INDENT(2) | JSON_REAL_PRECISION(9), why, size) ||
                  (about->matrix &&
                   write_object(out, "matrix.json", about->matrix, JSON_COMPACT, why, size))))
        code = ATTN_EXIT_INTERNAL;
    if (!code && write_journal(out, sources, index, about, finished)) {
        code = errno == EEXIST ? ATTN_EXIT_USAGE : ATTN_EXIT_INTERNAL;
        snprintf(why, size, "'%s/results.ndjson' cannot be written: %m", out);
    }
    return code;
}

enum attn_exit attn_merge_write(const char *out, const struct attn_merge_sources *sources,
                                const struct attn_merge_index *index,
                                const struct attn_merge_about *about, bool finished, char *why,
                                size_t size)
{
    if (attn_make_folder(out)) {
        snprintf(why, size, "folder '%s' cannot be made: %m", out);
        return ATTN_EXIT_USAGE;
    }
    /* One merge at a time, where the file system can lock a folder. */
    const int lock = open(out, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const bool taken = lock >= 0 && flock(lock, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (taken)
        snprintf(why, size, "another merge writes into '%s'", out);
    const enum attn_exit code =
        taken ? ATTN_EXIT_USAGE : write_all(out, sources, index, about, finished, why, size);
    if (lock >= 0)
        close(lock);
    return code;
}
