/* SPDX-License-Identifier: Apache-2.0 */
/* lean.c - copies of records that hold what compare reads, each text once. */
#include "report/lean.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "report/view.h"
#include "results/field.h"

/* What compare reads of a round, of another record, and of any object in them. Its turns come
 * first: only two backends of one run are compared by them. */
static const char *const of_round[] = {"type", "backend", "options", "device", NULL};
static const char *const of_result[] = {
    "live",      "type",       "id",         "backend",      "options",
    "threads",   "status",     "reason",     "case",         "name",
    "exactness", "sizes",      "seconds",    "max_ratio",    "cache",
    "time_ns",   "samples_ns", "peak_bytes", "instructions", "instructions_reason",
    NULL};
static const char *const of_object[] = {"sq",     "sk",        "dtype",          "median",
                                        "paired", "anchor",    "anchor_options", "in_rounds",
                                        "round",  "ratio",     "disturbed",      "before",
                                        "after",  "throttled", "clock_mhz",      "memory_clock_mhz",
                                        NULL};

struct lean {
    json_t *records, *texts, *sizes; /* text -> itself; id -> the sizes of its case */
    bool turns;
};

static json_t *one_text(struct lean *lean, const json_t *text)
{
    const char *key = json_string_value(text);
    if (!json_object_get(lean->texts, key) &&
        json_object_set(lean->texts, key, (json_t *)(uintptr_t)text) != 0)
        return NULL;
    return json_incref(json_object_get(lean->texts, key));
}

/* A copy with these fields alone; NULL: no memory. */
static json_t *copy(struct lean *lean, const json_t *value, const char *const *names)
{
    if (json_is_string(value))
        return one_text(lean, value);
    if (!json_is_array(value) && !json_is_object(value))
        return json_incref((json_t *)(uintptr_t)value);
    json_t *small = json_is_array(value) ? json_array() : json_object();
    int status = 0;
    for (size_t i = 0; i < json_array_size(value) && status == 0; i++)
        status = json_array_append_new(small, copy(lean, json_array_get(value, i), of_object));
    for (; json_is_object(value) && *names && status == 0; names++) {
        const json_t *item = json_object_get(value, *names);
        if (item)
            status = json_object_set_new(small, *names, copy(lean, item, of_object));
    }
    if (status == 0)
        return small;
    json_decref(small);
    return NULL;
}

/* Of each round its median alone. */
static int keep_medians(json_t *record)
{
    double *medians = NULL;
    const size_t n = attn_view_round_medians(record, &medians);
    json_t *rounds = n ? json_array() : NULL;
    int status = n && !rounds ? -1 : 0;
    for (size_t r = 0; r < n && status == 0; r++)
        status = json_array_append_new(rounds, json_real(medians[r]));
    free(medians);
    if (n && status == 0)
        return json_object_set_new(record, "samples_ns", rounds);
    json_decref(rounds);
    return status;
}

/* All records of a case share its sizes. */
static int share_sizes(struct lean *lean, json_t *record)
{
    const char *id = attn_field_text(record, "id");
    json_t *sizes = json_object_get(record, "sizes"), *known = json_object_get(lean->sizes, id);
    if (!sizes)
        return 0;
    return known && json_equal(known, sizes) ? json_object_set(record, "sizes", known)
                                             : json_object_set(lean->sizes, id, sizes);
}

static int keep_lean(const json_t *record, const struct attn_journal_place *place, void *context)
{
    struct lean *lean = context;
    const bool round = strcmp(attn_field_text(record, "type"), "round") == 0;
    (void)place;
    if (round && !json_object_get(record, "device"))
        return 0;
    json_t *small = copy(lean, record, round ? of_round : of_result + !lean->turns);
    if (!small || keep_medians(small) != 0 || share_sizes(lean, small) != 0) {
        json_decref(small);
        return -1;
    }
    return json_array_append_new(lean->records, small);
}

enum attn_journal_status attn_lean_read(const char *file, bool salvage, bool turns,
                                        struct attn_journal_content *content, char *why,
                                        size_t size)
{
    const int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct lean lean = {json_array(), json_object(), json_object(), turns};
    enum attn_journal_status status = ATTN_JOURNAL_UNREADABLE;
    if (fd < 0 || !lean.records || !lean.texts || !lean.sizes)
        snprintf(why, size, "%s: %s", file, fd < 0 ? strerror(errno) : "no memory");
    else
        status = attn_journal_scan(fd, file, salvage, keep_lean, &lean, content, why, size);
    if (fd >= 0)
        close(fd);
    json_decref(lean.texts);
    json_decref(lean.sizes);
    if (status)
        json_decref(lean.records);
    else
        content->records = lean.records;
    return status;
}
