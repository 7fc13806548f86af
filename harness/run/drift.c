/* SPDX-License-Identifier: Apache-2.0 */
/* drift.c - compares errors over bounds with those of an earlier run.
 *
 * The earlier error of a case with few elements is no measure: the error of one element may by luck
 * be a thousandth of the usual rounding error. The median over a backend's cases of a type is the
 * usual error, so an error is never compared with less than that. */
#include "run/drift.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "results/field.h"
#include "results/journal_read.h"
#include "results/statistics.h"
#include "run/paths.h"

/* A verdict that passed, with a figure. */
static bool passed(const json_t *record)
{
    const char *status = attn_field_text(record, "status");
    return !strcmp(attn_field_text(record, "type"), "verify") &&
           (!strcmp(status, "pass") || !strcmp(status, "mistrusted")) &&
           json_is_number(json_object_get(record, "max_ratio"));
}

static double ratio_of(const json_t *record)
{
    return json_number_value(json_object_get(record, "max_ratio"));
}

static bool same_backend(const json_t *a, const json_t *b)
{
    return !strcmp(attn_field_text(a, "backend"), attn_field_text(b, "backend")) &&
           !strcmp(attn_field_text(a, "options"), attn_field_text(b, "options")) &&
           json_equal(json_object_get(a, "threads"), json_object_get(b, "threads"));
}

static bool same_type(const json_t *a, const json_t *b)
{
    return !strcmp(attn_field_text(a, "sizes.dtype"), attn_field_text(b, "sizes.dtype"));
}

json_t *attn_drift_passed(const json_t *records)
{
    json_t *kept = json_array(), *record;
    size_t i;
    json_array_foreach(records, i, record)
    {
        if (kept && passed(record))
            json_array_append(kept, record);
    }
    return kept;
}

json_t *attn_drift_read(const char *path, char *why, size_t size)
{
    char file[ATTN_PATH_MAX];
    struct stat info;
    const bool folder = stat(path, &info) == 0 && S_ISDIR(info.st_mode);
    if (folder ? attn_path_join(file, path, "results.ndjson") : strlen(path) >= sizeof file) {
        snprintf(why, size, "the path '%.64s...' is too long", path);
        return NULL;
    }
    if (!folder)
        snprintf(file, sizeof file, "%s", path);
    struct attn_journal_content content;
    if (attn_journal_read(file, false, &content, why, size))
        return NULL;
    json_t *kept = attn_drift_passed(content.records);
    attn_journal_release(&content);
    if (json_array_size(kept) > 0)
        return kept;
    snprintf(why, size, "%s holds no verdict that passed", file);
    json_decref(kept);
    return NULL;
}

/* The median of errors over bounds, for this backend in this type. `scratch` has room for one
 * number per earlier record. */
static double usual(const json_t *earlier, const json_t *like, double *scratch)
{
    size_t i, n = 0;
    json_t *record;
    json_array_foreach(earlier, i, record)
    {
        if (same_backend(record, like) && same_type(record, like))
            scratch[n++] = ratio_of(record);
    }
    attn_sort_doubles(scratch, n);
    return n ? scratch[n / 2] : 0;
}

/* The last matching record: a run that was continued may hold two. */
static const json_t *counterpart(const json_t *earlier, const json_t *of)
{
    size_t i;
    json_t *record;
    const json_t *found = NULL;
    json_array_foreach(earlier, i, record)
    {
        if (!strcmp(attn_field_text(record, "id"), attn_field_text(of, "id")) &&
            same_backend(record, of))
            found = record;
    }
    return found;
}

int attn_drift_judge(const json_t *earlier, const json_t *records, double factor, FILE *out,
                     struct attn_drift *drift)
{
    double *scratch = calloc(json_array_size(earlier) + 1, sizeof *scratch);
    size_t i;
    json_t *record;
    *drift = (struct attn_drift){0};
    if (!scratch)
        return -1;
    json_array_foreach(records, i, record)
    {
        if (!passed(record))
            continue;
        drift->compared++;
        const json_t *before = counterpart(earlier, record);
        if (!before) {
            drift->unmatched++;
            continue;
        }
        const double now = ratio_of(record), was = ratio_of(before);
        if (now <= factor * was)
            continue;
        const double floor = usual(earlier, record, scratch);
        if (now <= factor * floor)
            continue;
        drift->drifted++;
        fprintf(out,
                "drift: %s on %s: the error was %.3g of its bound and is %.3g now, more than %g "
                "times %.3g\n",
                attn_field_text(record, "backend"), attn_field_text(record, "case"), was, now,
                factor, was > floor ? was : floor);
    }
    free(scratch);
    return 0;
}
