/* SPDX-License-Identifier: Apache-2.0 */
/* journal_read.c - reads a journal line by line, and tells what does not belong there. */
#include "results/journal_read.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "results/field.h"
#include "results/record.h"
#include "results/status.h"

/* More than a run of 10^6 results takes; what is larger is no results file. */
#define FILE_LIMIT (4ull << 30)

/* A file's bytes; NULL with the reason. An empty file gives a buffer of length 0. */
static char *slurp(int fd, const char *path, size_t *length, char *why, size_t size)
{
    struct stat info;
    if (fstat(fd, &info) != 0) {
        snprintf(why, size, "%s: %s", path, strerror(errno));
        return NULL;
    }
    if (!S_ISREG(info.st_mode) || (unsigned long long)info.st_size > FILE_LIMIT) {
        snprintf(why, size, "%s: not a results file (no regular file, or over 4 GiB)", path);
        return NULL;
    }
    char *text = malloc((size_t)info.st_size + 1);
    if (!text) {
        snprintf(why, size, "%s: no memory to read it", path);
        return NULL;
    }
    size_t have = 0;
    while (have < (size_t)info.st_size) {
        ssize_t n = pread(fd, text + have, (size_t)info.st_size - have, (off_t)have);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            snprintf(why, size, "%s: %s", path, strerror(errno));
            free(text);
            return NULL;
        }
        if (n == 0)
            break;
        have += (size_t)n;
    }
    *length = have;
    return text;
}

/* A line's place, checked: its number and its run. `record` loses both fields. Returns 0, or -1
 * with what is wrong, as words that follow "line 3". */
static int take_place(struct attn_journal_content *content, json_t *record, char *wrong,
                      size_t size)
{
    const json_t *seq = json_object_get(record, "seq");
    const char *run = attn_field_text(record, "run");
    const uint64_t expected = content->lines + 1;
    if (content->lines == 0 && !seq && !*run)
        content->old = true;
    if (content->old) {
        if (!seq && !*run)
            return 0;
        snprintf(wrong, size, "has a number, though those before it have none");
        return -1;
    }
    if (!json_is_integer(seq) || strlen(run) != ATTN_JOURNAL_IDENTITY) {
        snprintf(wrong, size, "lacks its number or its run");
        return -1;
    }
    if (content->lines > 0 && strcmp(run, content->identity) != 0) {
        snprintf(wrong, size, "is of another run (%s, not %s)", run, content->identity);
        return -1;
    }
    const json_int_t number = json_integer_value(seq);
    if ((uint64_t)number != expected) {
        snprintf(wrong, size, "has the number %lld: lines are %s", (long long)number,
                 (uint64_t)number > expected ? "missing or out of order"
                                             : "doubled or out of order");
        return -1;
    }
    snprintf(content->identity, sizeof content->identity, "%s", run);
    json_object_del(record, "seq");
    json_object_del(record, "run");
    return 0;
}

/* Is this what a result must be: of a case, on a backend, with a status? */
static bool is_result(const json_t *record)
{
    return *attn_field_text(record, "type") && *attn_field_text(record, "id") &&
           *attn_field_text(record, "backend") &&
           attn_status_parse(attn_field_text(record, "status")) >= 0;
}

/* An entry of the journal itself, or a record that is kept. Takes the reference. Returns 0, or -1
 * with what is wrong. */
static int take_entry(struct attn_journal_content *content, json_t *record, char *wrong,
                      size_t size)
{
    const char *type = attn_field_text(record, "type");
    const bool begins = !content->old && strcmp(type, "run") == 0;
    const bool resumes = !content->old && strcmp(type, "resume") == 0;
    const bool ends = !content->old && strcmp(type, "end") == 0;
    const json_t *format = json_object_get(record, "format");
    int status = 0;
    if (!content->old && begins != (content->lines == 0)) {
        snprintf(wrong, size, begins ? "begins a run within a run" : "does not begin the run");
        status = -1;
    } else if (begins && json_integer_value(format) != ATTN_JOURNAL_FORMAT) {
        snprintf(wrong, size, "says format %lld; this attnbench reads %d",
                 (long long)json_integer_value(format), ATTN_JOURNAL_FORMAT);
        status = -1;
    } else if (content->ended && !resumes) {
        snprintf(wrong, size, "comes after the end of the run");
        status = -1;
    } else if (begins) {
        json_object_del(record, "type");
        json_object_del(record, "format");
        content->run = json_incref(record);
    } else if (!resumes && !ends) {
        if (!is_result(record)) {
            snprintf(wrong, size, "is no result: it lacks a type, id, backend or known status");
            status = -1;
        } else if (json_array_append(content->records, record) != 0) {
            snprintf(wrong, size, "found no memory");
            status = -1;
        }
    }
    content->ended = ends;
    json_decref(record);
    return status;
}

/* All whole lines of a text. Returns 0, or -1 with what is wrong with line `lines` + 1. */
static int take_lines(struct attn_journal_content *content, const char *text, size_t length,
                      char *wrong, size_t size)
{
    const char *line = text, *end = text + length;
    while (line < end) {
        const char *stop = memchr(line, '\n', (size_t)(end - line)), *what;
        if (!stop) {
            content->torn = true; /* the newline is written last: the line was cut short */
            return 0;
        }
        json_t *record = attn_record_unseal(line, (size_t)(stop - line), &what);
        if (!record) {
            snprintf(wrong, size, "%s", what);
            return -1;
        }
        const bool ended = content->ended;
        if (take_place(content, record, wrong, size) != 0) {
            json_decref(record);
            return -1;
        }
        if (take_entry(content, record, wrong, size) != 0) {
            content->ended = ended;
            return -1;
        }
        line = stop + 1;
        content->lines++;
        content->bytes = (uint64_t)(line - text);
    }
    return 0;
}

enum attn_journal_status attn_journal_read_fd(int fd, const char *path, bool salvage,
                                              struct attn_journal_content *content, char *why,
                                              size_t size)
{
    char wrong[160];
    size_t length = 0;
    const unsigned refusals = attn_json_refusals();
    struct attn_journal_content read = {.records = json_array()};
    char *text = read.records ? slurp(fd, path, &length, why, size) : NULL;
    enum attn_journal_status status = ATTN_JOURNAL_OK;
    if (!text) {
        if (!read.records)
            snprintf(why, size, "%s: no memory to read it", path);
        status = ATTN_JOURNAL_UNREADABLE;
    } else if (take_lines(&read, text, length, wrong, sizeof wrong) != 0) {
        snprintf(read.damage, sizeof read.damage, "line %llu %s",
                 (unsigned long long)read.lines + 1, wrong);
        if (attn_json_refusals() != refusals)
            status = ATTN_JOURNAL_UNREADABLE;
        else if (!salvage || read.lines == 0)
            status = ATTN_JOURNAL_DAMAGED;
        if (status)
            snprintf(why, size, "%s: %s", path, read.damage);
    }
    free(text);
    if (status)
        attn_journal_release(&read);
    else
        *content = read;
    return status;
}

enum attn_journal_status attn_journal_read(const char *path, bool salvage,
                                           struct attn_journal_content *content, char *why,
                                           size_t size)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY); /* not on a pipe */
    if (fd < 0) {
        snprintf(why, size, "%s: %s", path, strerror(errno));
        return ATTN_JOURNAL_UNREADABLE;
    }
    const enum attn_journal_status status =
        attn_journal_read_fd(fd, path, salvage, content, why, size);
    close(fd);
    return status;
}

void attn_journal_release(struct attn_journal_content *content)
{
    json_decref(content->records);
    json_decref(content->run);
    content->records = content->run = NULL;
}
