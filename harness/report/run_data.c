/* SPDX-License-Identifier: Apache-2.0 */
/* run_data.c - a run folder read back. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "report/report.h"
#include "results/field.h"
#include "results/journal_read.h"

static int join(char *out, size_t room, const char *folder, const char *file, char *why,
                size_t size)
{
    int n = snprintf(out, room, "%s/%s", folder, file);
    if (n >= 0 && (size_t)n < room)
        return 0;
    snprintf(why, size, "the path %.64s... is too long", folder);
    return -1;
}

/* The object in a file of the run. Returns 0, with NULL where the file cannot be read, or -1 with
 * the reason. */
static int read_object(const char *folder, const char *name, json_t **object, char *why,
                       size_t size)
{
    char file[sizeof((struct attn_run_data *)0)->path + 32];
    json_error_t error;
    *object = NULL;
    if (join(file, sizeof file, folder, name, why, size) != 0)
        return -1;
    json_t *value = attn_json_load(file, JSON_REJECT_DUPLICATES, &error);
    if (json_is_object(value) || (!value && error.line < 0)) {
        *object = value;
        return 0;
    }
    snprintf(why, size, "%s, line %d: %s", file, error.line < 1 ? 1 : error.line,
             value ? "not a JSON object" : error.text);
    json_decref(value);
    return -1;
}

/* Says why the records are not those of a whole run. */
static void say_lacking(const struct attn_journal_content *content, struct attn_run_data *run)
{
    if (*content->damage)
        snprintf(run->lacking, sizeof run->lacking,
                 "damaged: %s; only the %llu lines before it are used", content->damage,
                 (unsigned long long)content->lines);
    else if (!content->old && !content->ended)
        snprintf(run->lacking, sizeof run->lacking,
                 json_object_get(content->run, "parts")
                     ? "unfinished: shards are missing%s; merge them in"
                     : "unfinished: it was cut short%s; bench "
                       "--resume goes on with it",
                 content->torn ? " and left half a record, which was dropped" : "");
    else if (content->torn)
        snprintf(run->lacking, sizeof run->lacking,
                 "cut short: half a record at its end was dropped");
    run->old = content->old;
}

/* Records that are kept in little memory. */
struct lean {
    json_t *records, *first; /* id -> its first record */
};

/* Takes values that the first record of the same case has, too, from there: its line, its sizes. */
static int share(struct lean *lean, json_t *record)
{
    const char *id = attn_field_text(record, "id");
    const json_t *first = json_object_get(lean->first, id);
    if (!first)
        return json_object_set(lean->first, id, record);
    for (void *at = json_object_iter(record); at; at = json_object_iter_next(record, at)) {
        json_t *known = json_object_get(first, json_object_iter_key(at));
        if (known && (json_is_string(known) || json_is_object(known)) &&
            json_equal(known, json_object_iter_value(at)) &&
            json_object_iter_set(record, at, known))
            return -1;
    }
    return 0;
}

/* What compare reads of a record: all but rounds, of which it asks how devices were throttled, and
 * the fields below, which are half of a verdict. */
static int keep_lean(const json_t *record, const struct attn_journal_place *place, void *context)
{
    static const char *const left_out[] = {
        "checks", "checks_missed", "checks_refused", "power",        "numerics",
        "repro",  "path",          "protection",     "declared_off", "approximation"};
    (void)place;
    if (strcmp(attn_field_text(record, "type"), "round") == 0 && !json_object_get(record, "device"))
        return 0;
    struct lean *lean = context;
    json_t *small = (json_t *)(uintptr_t)record;
    for (size_t f = 0; f < sizeof left_out / sizeof *left_out; f++)
        json_object_del(small, left_out[f]);
    return share(lean, small) == 0 ? json_array_append(lean->records, small) : -1;
}

static enum attn_journal_status read_lean(const char *file, bool salvage,
                                          struct attn_journal_content *content, char *why,
                                          size_t size)
{
    const int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct lean lean = {json_array(), json_object()};
    enum attn_journal_status status = ATTN_JOURNAL_UNREADABLE;
    if (fd < 0 || !lean.records || !lean.first)
        snprintf(why, size, "%s: %s", file, fd < 0 ? strerror(errno) : "no memory");
    else
        status = attn_journal_scan(fd, file, salvage, keep_lean, &lean, content, why, size);
    if (fd >= 0)
        close(fd);
    json_decref(lean.first);
    if (status)
        json_decref(lean.records);
    else
        content->records = lean.records;
    return status;
}

/* The records, and the machine of their first line where there is no machine.json yet. */
static int read_records(const char *file, bool salvage, bool lean, struct attn_run_data *run,
                        char *why, size_t size)
{
    struct attn_journal_content content;
    const enum attn_journal_status status =
        lean ? read_lean(file, salvage, &content, why, size)
             : attn_journal_read(file, salvage, &content, why, size);
    if (status == ATTN_JOURNAL_DAMAGED)
        return ATTN_RUN_DAMAGED;
    if (status && run->machine)
        return -1;
    if (status) {
        snprintf(why, size, "%s is not a run folder: machine.json is missing or unreadable",
                 run->path);
        return -1;
    }
    run->records = json_incref(content.records);
    if (!run->machine) /* a run that was cut short before it wrote it */
        run->machine = json_incref(json_object_get(content.run, "machine"));
    if (!run->machine)
        run->machine = json_object();
    say_lacking(&content, run);
    attn_journal_release(&content);
    return 0;
}

static int read_run(const char *path, bool salvage, bool lean, struct attn_run_data *run, char *why,
                    size_t size)
{
    char file[sizeof run->path + 32];
    struct attn_run_data read = {.path = ""};
    if (strlen(path) >= sizeof run->path) {
        snprintf(why, size, "the path %.64s... is too long", path);
        return -1;
    }
    snprintf(read.path, sizeof read.path, "%s", path);
    int status = read_object(path, "machine.json", &read.machine, why, size);
    if (status == 0)
        status = read_object(path, "matrix.json", &read.matrix, why, size);
    if (status == 0)
        status = join(file, sizeof file, path, "results.ndjson", why, size);
    if (status == 0)
        status = read_records(file, salvage, lean, &read, why, size);
    if (status)
        attn_run_release(&read);
    else
        *run = read;
    return status;
}

int attn_run_read(const char *path, bool salvage, struct attn_run_data *run, char *why, size_t size)
{
    return read_run(path, salvage, false, run, why, size);
}

int attn_run_read_lean(const char *path, bool salvage, struct attn_run_data *run, char *why,
                       size_t size)
{
    return read_run(path, salvage, true, run, why, size);
}

void attn_run_release(struct attn_run_data *run)
{
    json_decref(run->records);
    json_decref(run->machine);
    json_decref(run->matrix);
    run->records = run->machine = run->matrix = NULL;
}
