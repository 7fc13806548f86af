/* SPDX-License-Identifier: Apache-2.0 */
/* merge.c - reads the runs, settles what they say, writes one. */
#include "merge/merge.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "merge/machines.h"
#include "merge/parts.h"
#include "merge/source.h"
#include "merge/write.h"
#include "results/field.h"
#include "run/provenance.h"

/* Every run keeps its file open until it is written. */
static void allow_open_files(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static int read_again(const struct attn_merge_entry *a, const struct attn_merge_entry *b,
                      void *context)
{
    const struct attn_merge_sources *sources = context;
    if (a->crc != b->crc || a->length != b->length)
        return 0;
    char *x = attn_merge_source_text(&sources->items[a->run], a);
    char *y = attn_merge_source_text(&sources->items[b->run], b);
    const int same = x && y ? memcmp(x, y, a->length) == 0 : -1;
    free(x);
    free(y);
    return same;
}

/* "two runs differ: ..." */
static void say_conflict(const struct attn_merge_sources *sources,
                         const struct attn_merge_settled *settled, char *why, size_t size)
{
    const struct attn_merge_entry *one = settled->one, *other = settled->other;
    char *text = attn_merge_source_text(&sources->items[one->run], one), *whole = NULL;
    json_t *record = text && asprintf(&whole, "{%s}", text) > 0 ? json_loads(whole, 0, NULL) : NULL;
    snprintf(why, size,
             "'%.200s' and '%.200s' have different records under one key: %s of %.200s (%s) on "
             "%.64s; they are no parts of one run",
             sources->items[one->run].path, sources->items[other->run].path,
             attn_field_text(record, "type"), attn_field_text(record, "case"),
             attn_field_text(record, "id"), attn_field_text(record, "backend"));
    json_decref(record);
    free(whole);
    free(text);
}

/* Holds every run against the first: being alike is transitive. Returns ATTN_EXIT_OK, or the code
 * with the reason. */
static enum attn_exit compare_runs(const struct attn_merge_sources *sources, char *why, size_t size)
{
    char what[512];
    const struct attn_merge_source *first = sources->items;
    for (size_t i = 1; i < sources->count; i++) {
        const struct attn_merge_source *other = &sources->items[i];
        const int n =
            attn_provenance_compare(first->provenance, other->provenance, what, sizeof what);
        if (n < 0) {
            snprintf(why, size, "no memory to compare the runs");
            return ATTN_EXIT_INTERNAL;
        }
        if (n > 0) {
            snprintf(why, size, "'%.200s' and '%.200s' are not parts of one run: %s", first->path,
                     other->path, what);
            return ATTN_EXIT_BASELINE;
        }
    }
    return ATTN_EXIT_OK;
}

/* Unites what the runs say beside their records. Returns 0, or -1: no memory. */
static int unite(const struct attn_merge_sources *sources, struct attn_merge_about *about)
{
    for (size_t i = 0; i < sources->count; i++) {
        const struct attn_merge_source *source = &sources->items[i];
        json_t *origin = json_object_get(source->provenance, "machine");
        if (attn_merge_fold(&about->machine, source->machine) ||
            attn_merge_fold(&about->origin, origin) ||
            attn_merge_least(&about->settings, json_object_get(source->provenance, "settings")) ||
            attn_merge_least(&about->verb, json_object_get(source->provenance, "verb")) ||
            attn_merge_least(&about->matrix, source->matrix))
            return -1;
        json_t *parts = about->parts ? attn_parts_unite(about->parts, source->parts)
                                     : json_incref(source->parts);
        json_decref(about->parts);
        about->parts = parts;
        if (!parts)
            return -1;
    }
    return 0;
}

enum attn_exit attn_merge(const char *const *runs, size_t count, const char *out,
                          struct attn_merged *merged, char *why, size_t size)
{
    struct attn_merge_sources sources = {0};
    struct attn_merge_index index = {0};
    struct attn_merge_settled settled;
    struct attn_merge_about about = {0};
    enum attn_exit code = ATTN_EXIT_OK;
    *merged = (struct attn_merged){0};
    allow_open_files();
    for (size_t i = 0; i < count && !code; i++)
        if (attn_merge_sources_add(&sources, runs[i], why, size))
            code = ATTN_EXIT_USAGE;
    for (size_t i = 0; i < sources.count && !code; i++)
        code = attn_merge_source_read(&sources.items[i], (uint32_t)i, &index, why, size);
    if (!code)
        code = compare_runs(&sources, why, size);
    if (!code && unite(&sources, &about)) {
        snprintf(why, size, "no memory to unite the runs");
        code = ATTN_EXIT_INTERNAL;
    }
    if (!code) {
        attn_merge_index_unchecked(&index, about.machine, merged->unchecked,
                                   sizeof merged->unchecked);
        if (attn_merge_index_settle(&index, read_again, &sources, &settled, why, size))
            code = ATTN_EXIT_INTERNAL;
    }
    if (!code && settled.other) {
        say_conflict(&sources, &settled, why, size);
        code = ATTN_EXIT_USAGE;
    }
    if (!code) {
        merged->missing = attn_parts_missing(about.parts, merged->shards, sizeof merged->shards);
        code = attn_merge_write(out, &sources, &index, &about, merged->missing == 0, why, size);
    }
    merged->runs = sources.count;
    if (!code) {
        merged->records = index.count;
        merged->cases = settled.cases;
        merged->repeated = settled.repeated;
        merged->superseded = settled.superseded;
    }
    attn_merge_about_free(&about);
    attn_merge_index_free(&index);
    attn_merge_sources_free(&sources);
    return code;
}
