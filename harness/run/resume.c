/* SPDX-License-Identifier: Apache-2.0 */
/* resume.c - what a run folder already holds. */
#include "run/resume.h"

#include <string.h>

#include "results/record.h"

static const char *text_of(const json_t *record, const char *key)
{
    const char *text = json_string_value(json_object_get(record, key));
    return text ? text : "";
}

static void key_of(const char *id, const char *backend, const char *options, int threads, char *key,
                   size_t size)
{
    snprintf(key, size, "%s %s %s %d", id, backend, options, threads);
}

/* Does the record end the work on its key: a timing, or a verdict after which nothing is timed. */
static bool ends_key(const json_t *record)
{
    if (!strcmp(text_of(record, "type"), "bench"))
        return true;
    int status = attn_status_parse(text_of(record, "status"));
    return !strcmp(text_of(record, "type"), "verify") && status != ATTN_PASS &&
           status != ATTN_MISTRUSTED && status != ATTN_APPROX;
}

static bool is_complete(const struct attn_session *session, const struct attn_case *c,
                        const json_t *done)
{
    char id[ATTN_CASE_ID_LEN + 1], key[1024];
    attn_case_id(c, id);
    for (size_t b = 0; b < session->roster.count; b++) {
        const struct attn_contestant *who = &session->roster.items[b];
        if (who->info.exactness == ATTN_NONE)
            continue;
        key_of(id, who->info.name, who->options, session->settings.threads, key, sizeof key);
        if (!json_object_get(done, key))
            return false;
    }
    return true;
}

int attn_resume(struct attn_session *session, char *why, size_t size)
{
    char path[ATTN_PATH_MAX], key[1024];
    if (attn_path_join(path, session->folder, "results.ndjson")) {
        snprintf(why, size, "'%s' is too long a path", session->folder);
        return -1;
    }
    json_t *records = attn_record_read(path, NULL, why, size);
    json_t *done = json_object();
    if (!records || !done) {
        json_decref(records);
        json_decref(done);
        return -1;
    }
    size_t i;
    json_t *record;
    json_array_foreach(records, i, record)
    {
        attn_session_claim(session, record);
        json_array_append(session->records, record);
        key_of(text_of(record, "id"), text_of(record, "backend"), text_of(record, "options"),
               (int)json_integer_value(json_object_get(record, "threads")), key, sizeof key);
        if (ends_key(record))
            json_object_set_new(done, key, json_true());
    }
    size_t kept = 0;
    for (i = 0; i < session->cases.count; i++) {
        if (is_complete(session, &session->cases.items[i], done))
            attn_case_free(&session->cases.items[i]);
        else
            session->cases.items[kept++] = session->cases.items[i];
    }
    session->cases.count = kept;
    json_decref(done);
    json_decref(records);
    return 0;
}
