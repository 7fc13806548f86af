/* SPDX-License-Identifier: Apache-2.0 */
/* run_data.c - a run folder read back. */
#include <stdio.h>
#include <string.h>

#include "report/report.h"
#include "results/record.h"

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
    json_t *value = json_load_file(file, JSON_REJECT_DUPLICATES, &error);
    if (json_is_object(value) || (!value && error.line < 0)) {
        *object = value;
        return 0;
    }
    snprintf(why, size, "%s, line %d: %s", file, error.line < 1 ? 1 : error.line,
             value ? "not a JSON object" : error.text);
    json_decref(value);
    return -1;
}

int attn_run_read(const char *path, struct attn_run_data *run, char *why, size_t size)
{
    char file[sizeof run->path + 32];
    struct attn_run_data read = {.path = ""};
    if (strlen(path) >= sizeof run->path) {
        snprintf(why, size, "the path %.64s... is too long", path);
        return -1;
    }
    if (read_object(path, "machine.json", &read.machine, why, size) != 0)
        return -1;
    if (!read.machine) {
        snprintf(why, size, "%s is not a run folder: machine.json is missing or unreadable", path);
        return -1;
    }
    if (read_object(path, "matrix.json", &read.matrix, why, size) == 0 &&
        join(file, sizeof file, path, "results.ndjson", why, size) == 0)
        read.records = attn_record_read(file, &read.torn, why, size);
    if (!read.records) {
        attn_run_release(&read);
        return -1;
    }
    snprintf(read.path, sizeof read.path, "%s", path);
    *run = read;
    return 0;
}

void attn_run_release(struct attn_run_data *run)
{
    json_decref(run->records);
    json_decref(run->machine);
    json_decref(run->matrix);
    run->records = run->machine = run->matrix = NULL;
}
