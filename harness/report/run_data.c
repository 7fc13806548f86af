/* SPDX-License-Identifier: Apache-2.0 */
/* run_data.c - a run folder read back. */
#include <stdio.h>
#include <string.h>

#include "report/lean.h"
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

/* The object in a file of the run. Returns 0, with NULL where there is no such file, or -1 with the
 * reason. */
static int read_object(const char *folder, const char *name, json_t **object, char *why,
                       size_t size)
{
    char file[sizeof((struct attn_run_data *)0)->path + 32];
    *object = NULL;
    return join(file, sizeof file, folder, name, why, size) == 0
               ? attn_json_load_object(file, object, why, size)
               : -1;
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

/* Of the records: all, what a comparison of two backends reads, or what one of two runs does. */
enum part { ALL, TURNS, NO_TURNS };

/* The records, and the machine of their first line where there is no machine.json yet. */
static int read_records(const char *file, bool salvage, enum part part, struct attn_run_data *run,
                        char *why, size_t size)
{
    struct attn_journal_content content;
    const enum attn_journal_status status =
        part == ALL ? attn_journal_read(file, salvage, &content, why, size)
                    : attn_lean_read(file, salvage, part == TURNS, &content, why, size);
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

static int read_run(const char *path, bool salvage, enum part part, struct attn_run_data *run,
                    char *why, size_t size)
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
        status = read_records(file, salvage, part, &read, why, size);
    if (status)
        attn_run_release(&read);
    else
        *run = read;
    return status;
}

int attn_run_read(const char *path, bool salvage, struct attn_run_data *run, char *why, size_t size)
{
    return read_run(path, salvage, ALL, run, why, size);
}

int attn_run_read_lean(const char *path, bool salvage, bool turns, struct attn_run_data *run,
                       char *why, size_t size)
{
    return read_run(path, salvage, turns ? TURNS : NO_TURNS, run, why, size);
}

void attn_run_release(struct attn_run_data *run)
{
    json_decref(run->records);
    json_decref(run->machine);
    json_decref(run->matrix);
    run->records = run->machine = run->matrix = NULL;
}

enum attn_exit attn_run_exit(const struct attn_run_data *run, enum attn_exit code)
{
    return *run->lacking ? attn_exit_stronger(code, ATTN_EXIT_INCOMPLETE) : code;
}
