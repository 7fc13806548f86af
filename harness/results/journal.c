/* SPDX-License-Identifier: Apache-2.0 */
/* journal.c - writes a journal: one line a write, locked, synced. */
#include "results/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "results/record.h"
#include "results/replace.h"

static enum attn_journal_status fail(struct attn_journal *journal, const char *path,
                                     const char *what, char *why, size_t size)
{
    snprintf(why, size, "%s: %s", path, what);
    if (journal->fd >= 0)
        close(journal->fd);
    journal->fd = -1;
    return ATTN_JOURNAL_UNREADABLE;
}

/* Opens and locks. The lock is the file's: it goes with the process, however that ends. */
static enum attn_journal_status open_locked(const char *path, int flags,
                                            struct attn_journal *journal, char *why, size_t size)
{
    struct stat info;
    *journal = (struct attn_journal){.fd = -1};
    journal->fd = open(
        path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | flags,
        0644);
    if (journal->fd < 0)
        return fail(journal, path,
                    errno == ELOOP ? "it is a symbolic link, which is not written through"
                                   : strerror(errno),
                    why, size);
    if (fstat(journal->fd, &info) != 0 || !S_ISREG(info.st_mode))
        return fail(journal, path, "it is no regular file", why, size);
    if (flock(journal->fd, LOCK_EX | LOCK_NB) != 0)
        return fail(journal, path,
                    errno == EWOULDBLOCK ? "another attnbench is writing this run"
                                         : strerror(errno),
                    why, size);
    return ATTN_JOURNAL_OK;
}

/* The name of a new file must last, too. */
static int sync_folder(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
    const int fd = folder ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    /* Some file systems know no sync of folders. */
    const int status = fd < 0 || (fsync(fd) != 0 && errno != EINVAL) ? -1 : 0, saved = errno;
    free(folder);
    if (fd >= 0)
        close(fd);
    errno = saved;
    return status;
}

enum attn_journal_status attn_journal_create(const char *path, const char *identity,
                                             const json_t *run, struct attn_journal *journal,
                                             char *why, size_t size)
{
    const enum attn_journal_status status = open_locked(path, O_EXCL, journal, why, size);
    if (status)
        return status;
    if (attn_journal_begin(journal, identity, run) != 0 || sync_folder(path) != 0)
        return fail(journal, path, strerror(errno), why, size);
    return ATTN_JOURNAL_OK;
}

/* Keeps what a salvage cuts off. */
static int keep_cut(const char *path, int fd, uint64_t from)
{
    struct stat info;
    char *name = NULL, *text = NULL;
    int status = -1;
    if (fstat(fd, &info) != 0 || asprintf(&name, "%s.cut", path) < 0)
        return -1;
    const size_t length = (size_t)info.st_size - (size_t)from;
    text = malloc(length + 1);
    if (text && pread(fd, text, length, (off_t)from) == (ssize_t)length)
        status = attn_replace(name, text, length);
    free(text);
    free(name);
    return status;
}

enum attn_journal_status attn_journal_reopen(const char *path, bool salvage,
                                             struct attn_journal *journal,
                                             struct attn_journal_content *content, char *why,
                                             size_t size)
{
    enum attn_journal_status status = open_locked(path, 0, journal, why, size);
    if (status)
        return status;
    status = attn_journal_read_fd(journal->fd, path, salvage, content, why, size);
    if (status) {
        attn_journal_close(journal);
        return status;
    }
    if (content->old)
        status = fail(journal, path,
                      "it is of an earlier version of attnbench, which can be read, but not gone "
                      "on with",
                      why, size);
    else if ((*content->damage && keep_cut(path, journal->fd, content->bytes) != 0) ||
             ((content->torn || *content->damage) &&
              (ftruncate(journal->fd, (off_t)content->bytes) != 0 || fsync(journal->fd) != 0)))
        status = fail(journal, path, strerror(errno), why, size);
    if (status) {
        attn_journal_release(content);
        return status;
    }
    memcpy(journal->identity, content->identity, sizeof journal->identity);
    journal->lines = content->lines;
    journal->ended = content->ended;
    return ATTN_JOURNAL_OK;
}

/* One line, synced. A disk that is full must not leave half of one in front of the next. */
static int put_line(int fd, const json_t *entry)
{
    size_t length = 0;
    char *line = attn_record_seal(entry, &length);
    if (!line)
        return -1;
    const off_t before = lseek(fd, 0, SEEK_END);
    int status = attn_write_all(fd, line, length);
    if (status == 0)
        status = fsync(fd);
    if (status != 0 && before >= 0) {
        int saved = errno;
        if (ftruncate(fd, before) != 0)
            saved = errno;
        errno = saved;
    }
    free(line);
    return status;
}

/* The fields of `head` and then those of the journal, as the next line. */
static int put_entry(struct attn_journal *journal, const json_t *head)
{
    static const char *const own[] = {"seq", "run", "crc32"};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (json_object_get(head, own[i])) {
            errno = EINVAL;
            return -1;
        }
    if (!json_is_object(head) || json_object_size(head) == 0) {
        errno = EINVAL;
        return -1;
    }
    json_t *entry = json_copy((json_t *)(uintptr_t)head);
    int status = -1;
    if (!entry ||
        json_object_set_new(entry, "seq", json_integer((json_int_t)journal->lines + 1)) != 0 ||
        json_object_set_new(entry, "run", json_string(journal->identity)) != 0)
        errno = ENOMEM;
    else
        status = put_line(journal->fd, entry);
    const int saved = errno;
    json_decref(entry);
    errno = saved;
    if (status == 0)
        journal->lines++;
    return status;
}

/* An entry of the journal itself; `more` may be NULL. Of refused memory it begins no new count: the
 * record that waits behind a `resume` would be sealed without what was refused to it. */
static int put_own(struct attn_journal *journal, const char *type, int format, const json_t *more)
{
    json_t *entry = json_pack("{s:s}", "type", type);
    int status = entry ? 0 : -1;
    if (status == 0 && format > 0)
        status = json_object_set_new(entry, "format", json_integer(format));
    if (status == 0 && more)
        status = json_object_update_missing(entry, (json_t *)(uintptr_t)more);
    if (status != 0)
        errno = ENOMEM;
    else
        status = put_entry(journal, entry);
    const int saved = errno;
    json_decref(entry);
    errno = saved;
    return status;
}

int attn_journal_begin(struct attn_journal *journal, const char *identity, const json_t *run)
{
    unsigned char random[ATTN_JOURNAL_IDENTITY / 2];
    if (identity)
        snprintf(journal->identity, sizeof journal->identity, "%s", identity);
    else if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return -1;
    for (size_t i = 0; i < sizeof random && !identity; i++)
        snprintf(journal->identity + 2 * i, 3, "%02x", random[i]);
    attn_record_begin();
    return put_own(journal, "run", ATTN_JOURNAL_FORMAT, run);
}

void attn_journal_resume(struct attn_journal *journal, json_t *resume)
{
    json_decref(journal->resume);
    journal->resume = resume;
}

int attn_journal_append(struct attn_journal *journal, const json_t *record)
{
    if (journal->resume) {
        if (put_own(journal, "resume", 0, journal->resume) != 0)
            return -1;
        attn_journal_resume(journal, NULL);
    }
    if (put_entry(journal, record) != 0)
        return -1;
    journal->ended = false;
    return 0;
}

int attn_journal_end(struct attn_journal *journal)
{
    if (journal->ended)
        return 0;
    attn_record_begin();
    if (put_own(journal, "end", 0, NULL) != 0)
        return -1;
    journal->ended = true;
    return 0;
}

int attn_journal_put(FILE *file, const char *fields, size_t length, uint64_t number,
                     const char *identity)
{
    char place[ATTN_JOURNAL_PLACE];
    const int n = attn_journal_place_text(number, identity, place);
    char *text = malloc(length + (size_t)n + 1), *line = NULL;
    int status = -1;
    size_t size = 0;
    if (text) {
        text[0] = '{';
        memcpy(text + 1, fields, length);
        memcpy(text + 1 + length, place, (size_t)n);
        line = attn_record_seal_text(text, 1 + length + (size_t)n, &size);
    }
    if (line)
        status = fwrite(line, 1, size, file) == size ? 0 : -1;
    const int saved = errno;
    free(line);
    free(text);
    errno = saved;
    return status;
}

void attn_journal_close(struct attn_journal *journal)
{
    if (journal->fd >= 0)
        close(journal->fd);
    json_decref(journal->resume);
    *journal = (struct attn_journal){.fd = -1};
}
