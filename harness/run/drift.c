/* SPDX-License-Identifier: Apache-2.0 */
/* drift.c - compares errors over bounds with those of an earlier run.
 *
 * The earlier error of a case with few elements is no measure: the error of one element may by luck
 * be a thousandth of the usual rounding error. The median over a backend's cases of a type is the
 * usual error, so an error is never compared with less than that. */
#include "run/drift.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "results/field.h"
#include "results/journal_read.h"
#include "results/statistics.h"
#include "results/status.h"
#include "run/paths.h"

/* A verdict that passed, or of an approximate backend, with a figure. */
static bool passed(const json_t *record)
{
    const int status = attn_status_parse(attn_field_text(record, "status"));
    return !strcmp(attn_field_text(record, "type"), "verify") && status >= 0 &&
           attn_status_holds((enum attn_status)status) &&
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

/* What is looked up: the last matching record of an earlier run, since one that was continued may
 * hold two, and the usual error of a backend in a type, once it was asked for. */
struct earlier {
    const json_t *records;
    json_t *last, *usual; /* by key_of: a record, a number */
    double *scratch;      /* room for one number per record */
};

/* The id of a case or its type, with the backend, its options and threads; to be freed. */
static char *key_of(const json_t *record, const char *of_case)
{
    char *key = NULL;
    const int length =
        asprintf(&key, "%s\n%s\n%s\n%" JSON_INTEGER_FORMAT, attn_field_text(record, of_case),
                 attn_field_text(record, "backend"), attn_field_text(record, "options"),
                 json_integer_value(json_object_get(record, "threads")));
    return length < 0 ? NULL : key;
}

/* Returns -1: no memory. */
static int index_last(struct earlier *earlier)
{
    size_t i;
    json_t *record;
    json_array_foreach(earlier->records, i, record)
    {
        char *key = key_of(record, "id");
        const int status = key ? json_object_set(earlier->last, key, record) : -1;
        free(key);
        if (status)
            return -1;
    }
    return 0;
}

/* The median of errors over bounds, for this backend in this type. NULL: no memory. */
static const json_t *usual(struct earlier *earlier, const json_t *like)
{
    size_t i, n = 0;
    json_t *record;
    char *key = key_of(like, "sizes.dtype");
    if (key && !json_object_get(earlier->usual, key)) {
        json_array_foreach(earlier->records, i, record)
        {
            if (same_backend(record, like) && same_type(record, like))
                earlier->scratch[n++] = ratio_of(record);
        }
        attn_sort_doubles(earlier->scratch, n);
        json_object_set_new(earlier->usual, key, json_real(n ? earlier->scratch[n / 2] : 0));
    }
    const json_t *found = key ? json_object_get(earlier->usual, key) : NULL;
    free(key);
    return found;
}

/* Returns -1: no memory. */
static int judge_one(struct earlier *earlier, const json_t *record, double factor, FILE *out,
                     struct attn_drift *drift)
{
    char *key = key_of(record, "id");
    if (!key)
        return -1;
    const json_t *before = json_object_get(earlier->last, key);
    free(key);
    drift->compared++;
    drift->unmatched += !before;
    const double now = ratio_of(record), was = ratio_of(before);
    if (!before || now <= factor * was)
        return 0;
    const json_t *floor = usual(earlier, record);
    if (!floor)
        return -1;
    const double least = fmax(was, json_real_value(floor));
    if (now <= factor * least)
        return 0;
    drift->drifted++;
    fprintf(out,
            "drift: %s on %s: the error was %.3g of its bound and is %.3g now, more than %g "
            "times %.3g\n",
            attn_field_text(record, "backend"), attn_field_text(record, "case"), was, now, factor,
            least);
    return 0;
}

int attn_drift_judge(const json_t *records_before, const json_t *records, double factor, FILE *out,
                     struct attn_drift *drift)
{
    struct earlier earlier = {records_before, json_object(), json_object(),
                              calloc(json_array_size(records_before) + 1, sizeof(double))};
    int status = earlier.scratch && earlier.last && earlier.usual ? index_last(&earlier) : -1;
    size_t i;
    json_t *record;
    *drift = (struct attn_drift){0};
    json_array_foreach(records, i, record)
    {
        if (status == 0 && passed(record))
            status = judge_one(&earlier, record, factor, out, drift);
    }
    json_decref(earlier.last);
    json_decref(earlier.usual);
    free(earlier.scratch);
    return status;
}
