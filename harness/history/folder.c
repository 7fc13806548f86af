/* SPDX-License-Identifier: Apache-2.0 */
/* folder.c - reads a run folder and puts its results into an index. */
#include "history/folder.h"

#include <errno.h>
#include <math.h>
#include <sha2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "history/machines.h"
#include "report/text.h"
#include "report/view.h"

/* A file of a run that is larger is damaged, or not ours. A run of the standard suite has 10 MB of
 * records. */
static const struct {
    const char *name;
    off_t most;
} files[] = {
    {"results.ndjson", (off_t)1 << 30}, {"machine.json", 1 << 22}, {"matrix.json", 1 << 26}};

/* Refuses what would take all memory, or block: a pipe. A missing file is reported later. */
static int check_files(const char *folder, char *why, size_t size)
{
    char path[ATTN_INDEX_TEXT_MAX + 32];
    struct stat info;
    for (size_t f = 0; f < sizeof files / sizeof files[0]; f++) {
        snprintf(path, sizeof path, "%s/%s", folder, files[f].name);
        if (stat(path, &info) != 0)
            continue;
        if (!S_ISREG(info.st_mode) || info.st_size > files[f].most) {
            snprintf(why, size, "%s is no regular file, or larger than %lld MB", path,
                     (long long)(files[f].most >> 20));
            return 1;
        }
    }
    return 0;
}

/* Dates sort as text if they have this form; others are unknown. */
static const char *date_of(const json_t *machine)
{
    const char *text = attn_field_text(machine, "date");
    struct tm date;
    const char *end = strptime(text, "%Y-%m-%dT%H:%M:%SZ", &date);
    return end && !*end && strlen(text) == strlen("2026-01-31T12:00:00Z") ? text : "";
}

static bool is_timed(const struct attn_view_row *row)
{
    return row->bench && attn_status_holds(row->status);
}

/* What went wrong, instead of a timing. */
static bool is_trouble(const struct attn_view_row *row)
{
    return row->status == ATTN_FAIL || row->status == ATTN_SUSPECT ||
           (row->status >= ATTN_CRASH && row->status <= ATTN_ERROR);
}

/* A name with its options. */
enum { ANCHOR_MAX = 576 };

/* The ratio to an anchor that took turns with the backend, which newer records have: `live.paired`
 * {anchor, anchor_options, ratio, ci95 [lo, hi]}. The anchor's label goes to `label`. */
static void take_ratio(const json_t *bench, struct attn_index_result *result,
                       char label[ANCHOR_MAX])
{
    const json_t *paired = attn_field_at(bench, "live.paired");
    const json_t *limits = attn_field_at(paired, "ci95");
    const char *options = attn_field_text(paired, "anchor_options");
    const json_t *lo = json_array_get(limits, 0), *hi = json_array_get(limits, 1);
    snprintf(label, ANCHOR_MAX, "%s%s%s", attn_field_text(paired, "anchor"), *options ? ":" : "",
             options);
    result->anchor = label;
    result->ratio = attn_field_number(paired, "ratio");
    result->lo = json_is_number(lo) ? json_number_value(lo) : (double)NAN;
    result->hi = json_is_number(hi) ? json_number_value(hi) : (double)NAN;
}

/* Returns 1 if the row went into the index, 0 if it does not belong there, or -1. */
static int put_row(struct attn_index *index, const struct attn_view *view,
                   const struct attn_view_row *row, char *why, size_t size)
{
    const struct attn_view_backend *backend = &view->backends[row->backend];
    const bool timed = is_timed(row);
    char anchor[ANCHOR_MAX];
    double *rounds = NULL;
    struct attn_index_result result = {.id = row->id,
                                       .name = row->name,
                                       .line = row->line,
                                       .backend = backend->label,
                                       .plugin = attn_field_text(backend->info, "plugin_sha256"),
                                       .version = attn_field_text(backend->info, "version"),
                                       .cache = timed ? row->cache : "",
                                       .status = attn_status_name(row->status),
                                       .threads = row->threads,
                                       .anchor = "",
                                       .ratio = NAN,
                                       .lo = NAN,
                                       .hi = NAN};
    if (!backend->counted || (!timed && !is_trouble(row)))
        return 0;
    if (timed) {
        result.n_rounds = attn_view_round_medians(row->bench, &rounds);
        result.rounds = rounds;
        take_ratio(row->bench, &result, anchor);
    }
    const int status = attn_index_put_result(index, &result, why, size);
    free(rounds);
    return status ? -1 : 1;
}

/* Puts the run, and then its rows. */
static int put_run(struct attn_index *index, const struct attn_run_data *run, const char *path,
                   FILE *notes, char *why, size_t size)
{
    struct attn_view view = {0};
    char digest[SHA256_DIGEST_STRING_LENGTH], file[ATTN_INDEX_TEXT_MAX + 32];
    char copy[ATTN_INDEX_TEXT_MAX + 1];
    int status = 1;
    char *machine = attn_machine_identity(run->machine);
    snprintf(file, sizeof file, "%s/results.ndjson", path);
    if (!machine || strlen(machine) > ATTN_INDEX_MACHINE_MAX || !SHA256File(file, digest)) {
        snprintf(why, size, "%s: machine.json is too long, or a file has changed", path);
        goto out;
    }
    if (attn_view_create(run->records, run->machine, &view, why, size) != 0)
        goto out;
    const struct attn_index_run entry = {path, digest, date_of(run->machine),
                                         attn_field_text(run->machine, "attnbench.commit"),
                                         machine};
    size_t timed = 0;
    for (size_t r = 0; r < view.n_rows; r++)
        timed += is_timed(&view.rows[r]) && view.backends[view.rows[r].backend].counted;
    if (timed == 0) {
        snprintf(why, size, "%s has no timings", path);
        status = ATTN_FOLDER_UNTIMED;
        goto out;
    }
    status = attn_index_put_run(index, &entry, copy, why, size);
    if (status == 0 && *copy)
        fprintf(notes, "%s has the same records as %s, and takes its place\n", path, copy);
    for (size_t r = 0; status == 0 && r < view.n_rows; r++)
        status = put_row(index, &view, &view.rows[r], why, size) < 0 ? -1 : 0;
out:
    attn_view_free(&view);
    free(machine);
    return status;
}

int attn_folder_file(struct attn_index *index, const char *folder, FILE *notes, char *why,
                     size_t size)
{
    struct attn_run_data run;
    char *path = realpath(folder, NULL);
    int status = 1;
    if (!path)
        snprintf(why, size, "%.400s: %s", folder, strerror(errno));
    else if (strlen(path) > ATTN_INDEX_TEXT_MAX)
        snprintf(why, size, "the path %.64s... is too long", path);
    else if (check_files(path, why, size) == 0 &&
             attn_run_read(path, false, &run, why, size) == 0) {
        status = put_run(index, &run, path, notes, why, size);
        attn_run_release(&run);
    }
    free(path);
    return status;
}
