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
#include "results/lines.h"
#include "results/record.h"
#include "results/status.h"

/* More than a run of 10^7 results takes; what is larger is no results file. */
#define FILE_LIMIT (16ull << 30)

/* A journal that is being read: what it holds, and who takes its records. */
struct reading {
    struct attn_journal_content content;
    attn_journal_visit *visit;
    void *context;
};

int attn_journal_place_text(uint64_t number, const char *identity, char text[ATTN_JOURNAL_PLACE])
{
    return snprintf(text, ATTN_JOURNAL_PLACE, ",\"seq\":%llu,\"run\":\"%s\"",
                    (unsigned long long)number, identity);
}

/* The fields of a line that has been checked. */
static struct attn_journal_place place_of(const struct attn_journal_content *content,
                                          const char *line, size_t length)
{
    struct attn_journal_place place = {.offset = content->bytes + 1};
    char tail[ATTN_JOURNAL_PLACE] = "";
    size_t behind = ATTN_RECORD_SEAL;
    if (!content->old)
        behind += (size_t)attn_journal_place_text(content->lines + 1, content->identity, tail);
    if (length > behind && line[0] == '{' &&
        memcmp(line + length - behind, tail, behind - ATTN_RECORD_SEAL) == 0) {
        place.text = line + 1;
        place.length = length - 1 - behind;
    }
    return place;
}

/* The visitor of attn_journal_read. */
static int keep(const json_t *record, const struct attn_journal_place *place, void *context)
{
    (void)place;
    return json_array_append(context, (json_t *)(uintptr_t)record);
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
static int take_entry(struct reading *reading, json_t *record,
                      const struct attn_journal_place *place, char *wrong, size_t size)
{
    struct attn_journal_content *content = &reading->content;
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
        } else {
            status = reading->visit(record, place, reading->context);
            if (status)
                snprintf(wrong, size,
                         status < 0 ? "found no memory" : "does not end as attnbench ends a line");
        }
    }
    if (status == 0 && (begins || resumes)) {
        json_decref(content->selection);
        content->selection =
            json_incref(json_object_get(json_object_get(record, "machine"), "selection"));
    }
    content->ended = ends;
    json_decref(record);
    return status;
}

/* One line. Returns 0, or -1 with what is wrong with it. */
static int take_line(struct reading *reading, const char *line, size_t length, char *wrong,
                     size_t size)
{
    struct attn_journal_content *content = &reading->content;
    const char *what;
    json_t *record = attn_record_unseal(line, length, &what);
    if (!record) {
        snprintf(wrong, size, "%s", what);
        return -1;
    }
    const bool ended = content->ended;
    if (take_place(content, record, wrong, size) != 0) {
        json_decref(record);
        return -1;
    }
    const struct attn_journal_place place = place_of(content, line, length);
    if (take_entry(reading, record, &place, wrong, size) != 0) {
        content->ended = ended;
        return -1;
    }
    content->lines++;
    content->bytes += length + 1;
    return 0;
}

/* All whole lines of a file. Returns 0; 1 with what is wrong with line `lines` + 1; -1 with errno.
 */
static int take_lines(struct reading *reading, int fd, char *wrong, size_t size)
{
    struct attn_lines lines = attn_lines_of(fd);
    const char *line;
    size_t length;
    int status;
    while ((status = attn_lines_next(&lines, &line, &length)) > 0 &&
           take_line(reading, line, length, wrong, size) == 0)
        ;
    /* The newline is written last: without it a line was cut short. */
    reading->content.torn = status == 0 && length > 0;
    const int saved = errno;
    attn_lines_free(&lines);
    errno = saved;
    return status;
}

static enum attn_journal_status read_all(struct reading *reading, int fd, const char *path,
                                         bool salvage, char *why, size_t size)
{
    char wrong[160];
    struct stat info;
    struct attn_journal_content *content = &reading->content;
    const unsigned refusals = attn_json_refusals();
    if (fstat(fd, &info) != 0) {
        snprintf(why, size, "%s: %s", path, strerror(errno));
        return ATTN_JOURNAL_UNREADABLE;
    }
    if (!S_ISREG(info.st_mode) || (unsigned long long)info.st_size > FILE_LIMIT) {
        snprintf(why, size, "%s: not a results file (no regular file, or over 16 GiB)", path);
        return ATTN_JOURNAL_UNREADABLE;
    }
    const int taken = take_lines(reading, fd, wrong, sizeof wrong);
    if (taken < 0) {
        snprintf(why, size, "%s: %s", path,
                 errno == ENOMEM  ? "no memory to read it"
                 : errno == EFBIG ? "a line is over 64 MiB"
                                  : strerror(errno));
        return ATTN_JOURNAL_UNREADABLE;
    }
    if (taken == 0)
        return ATTN_JOURNAL_OK;
    snprintf(content->damage, sizeof content->damage, "line %llu %s",
             (unsigned long long)content->lines + 1, wrong);
    if (attn_json_refusals() == refusals && salvage && content->lines > 0)
        return ATTN_JOURNAL_OK;
    snprintf(why, size, "%s: %s", path, content->damage);
    return attn_json_refusals() == refusals ? ATTN_JOURNAL_DAMAGED : ATTN_JOURNAL_UNREADABLE;
}

enum attn_journal_status attn_journal_read_fd(int fd, const char *path, bool salvage,
                                              struct attn_journal_content *content, char *why,
                                              size_t size)
{
    json_t *records = json_array();
    struct reading reading = {.content.records = records, .visit = keep, .context = records};
    enum attn_journal_status status = ATTN_JOURNAL_UNREADABLE;
    if (!records)
        snprintf(why, size, "%s: no memory to read it", path);
    else
        status = read_all(&reading, fd, path, salvage, why, size);
    if (status)
        attn_journal_release(&reading.content);
    else
        *content = reading.content;
    return status;
}

enum attn_journal_status attn_journal_scan(int fd, const char *path, bool salvage,
                                           attn_journal_visit *visit, void *context,
                                           struct attn_journal_content *content, char *why,
                                           size_t size)
{
    struct reading reading = {.visit = visit, .context = context};
    const enum attn_journal_status status = read_all(&reading, fd, path, salvage, why, size);
    if (status)
        attn_journal_release(&reading.content);
    else
        *content = reading.content;
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
    json_decref(content->selection);
    content->records = content->run = content->selection = NULL;
}
