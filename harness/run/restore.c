/* SPDX-License-Identifier: Apache-2.0 */
/* restore.c - reads back what entry.c has written. */
#include "run/restore.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "results/field.h"
#include "results/kept.h"
#include "run/instance.h"

enum { KEY_MAX = 1024 };

static void key_of(const char *id, const char *backend, const char *options, int threads,
                   char key[KEY_MAX])
{
    snprintf(key, KEY_MAX, "%s %s %s %d", id, backend, options, threads);
}

static bool is_type(const json_t *record, const char *type)
{
    return strcmp(attn_field_text(record, "type"), type) == 0;
}

static bool begins(const json_t *record, const char *key, const char *start)
{
    return strncmp(attn_field_text(record, key), start, strlen(start)) == 0;
}

json_t *attn_restore_index(const json_t *records)
{
    json_t *index = json_object(), *record;
    size_t i;
    json_array_foreach(records, i, record)
    {
        char key[KEY_MAX];
        key_of(attn_field_text(record, "id"), attn_field_text(record, "backend"),
               attn_field_text(record, "options"),
               (int)json_integer_value(json_object_get(record, "threads")), key);
        json_t *list = index ? json_object_get(index, key) : NULL;
        if (index && !list) {
            list = json_array();
            if (json_object_set_new(index, key, list) != 0)
                list = NULL;
        }
        if (!list || json_array_append(list, record) != 0) {
            json_decref(index);
            return NULL;
        }
    }
    return index;
}

const json_t *attn_restore_records(const struct attn_session *session,
                                   const struct attn_entry *entry)
{
    char key[KEY_MAX];
    if (!session->earlier)
        return NULL;
    key_of(entry->id, entry->contestant->info.name, entry->contestant->options,
           session->settings.threads, key);
    return json_object_get(session->earlier, key);
}

bool attn_restore_has_reference(const struct attn_session *session, const char *id)
{
    char key[KEY_MAX];
    key_of(id, ATTN_KEPT_REFERENCE, "", session->settings.threads, key);
    return session->earlier && json_object_get(session->earlier, key);
}

/* A verdict that says nothing about the backend: there was no time for it, or the harness could not
 * do its part. */
static bool is_none(const json_t *record)
{
    const char *status = attn_field_text(record, "status");
    const char *reason = attn_field_text(record, "reason");
    return (strcmp(status, "skip") == 0 && begins(record, "reason", ATTN_NO_TIME_LEFT)) ||
           (strcmp(status, "error") == 0 &&
            (strstr(reason, ATTN_NO_WORKER) || strstr(reason, ATTN_NO_OPERANDS)));
}

bool attn_restore_stands(const json_t *record)
{
    if (attn_field_true(record, "cut"))
        return false;
    if (is_type(record, "verify"))
        return !is_none(record);
    return !is_type(record, "untimed") || (!begins(record, "reason", ATTN_TIME_USED_UP) &&
                                           !begins(record, "reason", ATTN_WAS_INTERRUPTED));
}

static int64_t integer(const json_t *record, const char *key)
{
    return json_integer_value(json_object_get(record, key));
}

static void take_verdict(const json_t *record, struct attn_entry *entry)
{
    const double seconds = attn_field_number(record, "seconds");
    entry->verified = true;
    entry->harmless = attn_field_true(record, "expected");
    entry->seconds = seconds > 0 ? seconds : 0;
    entry->sample_seed = (uint64_t)integer(record, "sample_seed");
    attn_judgement_set(&entry->verdict,
                       (enum attn_status)attn_status_parse(attn_field_text(record, "status")),
                       attn_field_text(record, "reason"));
    entry->promised = json_object_get(record, "numerics");
    entry->verdict.rows_checked = integer(record, "rows_checked");
    entry->verdict.rows_total = integer(record, "rows_total");
    snprintf(entry->plan.path, sizeof entry->plan.path, "%s", attn_field_text(record, "path"));
}

bool attn_restore_verdict(const struct attn_session *session, struct attn_entry *entry)
{
    const char *last = session->settings.hot ? "hot" : "cold"; /* whose record is the last one */
    const bool none = entry->contestant->info.exactness == ATTN_NONE;
    const json_t *records = attn_restore_records(session, entry);
    size_t i;
    json_t *record;
    bool found = false;
    json_array_foreach(records, i, record)
    {
        if (!attn_restore_stands(record))
            continue;
        if (is_type(record, "verify")) {
            take_verdict(record, entry);
            found = true;
        }
        entry->finished |=
            is_type(record, "untimed") ||
            (is_type(record, "bench") && strcmp(attn_field_text(record, "cache"), last) == 0);
        /* What computes nothing has no record of a verdict that holds. */
        if (none && !found && (is_type(record, "round") || is_type(record, "bench"))) {
            take_verdict(record, entry);
            found = true;
        }
    }
    entry->finished |= found && !attn_status_holds(entry->verdict.status);
    return found;
}

static enum attn_cache cache_of(const json_t *record)
{
    return strcmp(attn_field_text(record, "cache"), "cold") == 0 ? ATTN_COLD : ATTN_HOT;
}

static void take_device(const json_t *device, struct attn_device *out)
{
    if (!device)
        return;
    *out = (struct attn_device){.struct_size = sizeof *out};
    out->cache_bytes = (uint64_t)integer(device, "cache_bytes");
    out->launch_ns = json_number_value(json_object_get(device, "launch_ns"));
    out->copy_gbs = json_number_value(json_object_get(device, "copy_gbs"));
}

/* Rounds come in order, so those there are are the first ones. */
static int take_round(const struct attn_session *session, const json_t *record,
                      struct attn_entry *entry)
{
    const enum attn_cache cache = cache_of(record);
    const int at = entry->n_rounds[cache], most = session->settings.rounds;
    const json_t *samples = json_object_get(record, "samples_ns");
    const size_t n = json_array_size(samples);
    if (integer(record, "round") != at || at >= most || n == 0 || n > ATTN_SAMPLES_MAX)
        return 0;
    if (!entry->rounds[cache] &&
        !(entry->rounds[cache] = calloc((size_t)most, sizeof **entry->rounds)))
        return -1;
    struct attn_round *round = &entry->rounds[cache][entry->n_rounds[cache]++];
    const json_t *processor = json_object_get(record, "cpu_ns");
    double cpu_ns[ATTN_SAMPLES_MAX];
    round->n = (int)n;
    for (size_t s = 0; s < n; s++) {
        round->samples_ns[s] = json_number_value(json_array_get(samples, s));
        cpu_ns[s] = json_number_value(json_array_get(processor, s));
    }
    round->cpu_ns = attn_least_known(cpu_ns, n);
    entry->timing_s[cache] += json_number_value(json_object_get(record, "timing_s"));
    entry->judging_s[cache] += json_number_value(json_object_get(record, "judging_s"));
    entry->plan.workspace_bytes = (uint64_t)integer(record, "workspace_bytes");
    entry->plan.threads_seen = (uint32_t)integer(record, "threads_seen");
    snprintf(entry->plan.path, sizeof entry->plan.path, "%s", attn_field_text(record, "path"));
    take_device(json_object_get(record, "device"), &entry->device);
    return 0;
}

static void take_peak(const json_t *record, struct attn_entry *entry)
{
    entry->peak_known = json_is_integer(json_object_get(record, "peak_bytes"));
    entry->peak_bytes = (uint64_t)integer(record, "peak_bytes");
    entry->taken_bytes = (uint64_t)integer(record, "taken_bytes");
    snprintf(entry->peak_reason, sizeof entry->peak_reason, "%s",
             attn_field_text(record, "peak_reason"));
    entry->peak_done = true;
}

static void take_count(const json_t *record, struct attn_entry *entry)
{
    entry->instructions = (uint64_t)integer(record, "instructions");
    snprintf(entry->count_reason, sizeof entry->count_reason, "%s",
             attn_field_text(record, "instructions_reason"));
    entry->count_done = true;
}

int attn_restore_timing(const struct attn_session *session, struct attn_entry *entry)
{
    size_t i;
    json_t *record;
    json_array_foreach(attn_restore_records(session, entry), i, record)
    {
        if (is_type(record, "round") && take_round(session, record, entry))
            return -1;
        if (is_type(record, "peak"))
            take_peak(record, entry);
        if (is_type(record, "count"))
            take_count(record, entry);
        if (is_type(record, "bench") && attn_restore_stands(record))
            entry->benched[cache_of(record)] = true;
    }
    return 0;
}
