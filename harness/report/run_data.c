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

int attn_run_read(const char *path, struct attn_run_data *run, char *why, size_t size)
{
    char file[sizeof run->path + 32];
    int torn = 0;
    if (strlen(path) >= sizeof run->path) {
        snprintf(why, size, "the path %.64s... is too long", path);
        return -1;
    }
    if (join(file, sizeof file, path, "machine.json", why, size) != 0)
        return -1;
    json_error_t error;
    json_t *machine = json_load_file(file, JSON_REJECT_DUPLICATES, &error);
    if (!machine && error.line < 0) {
        snprintf(why, size, "%s is not a run folder: it has no readable machine.json", path);
        return -1;
    }
    if (!json_is_object(machine)) {
        snprintf(why, size, "%s, line %d: %s", file, error.line < 1 ? 1 : error.line,
                 machine ? "not a JSON object" : error.text);
        json_decref(machine);
        return -1;
    }
    json_t *records = NULL;
    if (join(file, sizeof file, path, "results.ndjson", why, size) == 0)
        records = attn_record_read(file, &torn, why, size);
    if (!records) {
        json_decref(machine);
        return -1;
    }
    run->records = records;
    run->machine = machine;
    run->torn = torn;
    snprintf(run->path, sizeof run->path, "%s", path);
    return 0;
}

void attn_run_release(struct attn_run_data *run)
{
    json_decref(run->records);
    json_decref(run->machine);
    run->records = run->machine = NULL;
}
