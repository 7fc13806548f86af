/* SPDX-License-Identifier: Apache-2.0 */
/* resume.c - reads what a run folder already holds. */
#include "run/resume.h"

#include <string.h>

#include "results/field.h"
#include "run/provenance.h"

static void key_of(const char *id, const char *backend, const char *options, int threads, char *key,
                   size_t size)
{
    snprintf(key, size, "%s %s %s %d", id, backend, options, threads);
}

/* Does the record end the work on its key? A timing does that was not cut off, and a verdict
 * after which nothing is timed. A case for which an earlier command had no time left is not done.
 * last: the cache state whose timing is recorded last. */
static bool ends_key(const json_t *record, const char *last)
{
    if (!strcmp(attn_field_text(record, "type"), "bench"))
        return !strcmp(attn_field_text(record, "cache"), last) && !attn_field_true(record, "cut");
    int status = attn_status_parse(attn_field_text(record, "status"));
    if (status == ATTN_SKIP &&
        !strncmp(attn_field_text(record, "reason"), ATTN_NO_TIME_LEFT, strlen(ATTN_NO_TIME_LEFT)))
        return false;
    return !strcmp(attn_field_text(record, "type"), "verify") &&
           !(status >= 0 && attn_status_holds((enum attn_status)status));
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

/* Notes a key. Returns 0, or -1: no memory. */
static int note(json_t *keys, const char *key)
{
    return json_object_set_new(keys, key, json_true());
}

/* Removes the cases that are done. Returns the ids of those that remain, or NULL: no memory. */
static json_t *keep_open(struct attn_session *session, const json_t *done)
{
    char id[ATTN_CASE_ID_LEN + 1];
    json_t *open = json_object();
    size_t kept = 0;
    bool ok = open != NULL;
    for (size_t i = 0; open && i < session->cases.count; i++) {
        struct attn_case *c = &session->cases.items[i];
        if (is_complete(session, c, done)) {
            attn_case_free(c);
            continue;
        }
        attn_case_id(c, id);
        ok = ok && note(open, id) == 0;
        session->cases.items[kept++] = *c;
    }
    if (open)
        session->cases.count = kept;
    if (ok)
        return open;
    json_decref(open);
    return NULL;
}

/* Keys that are done, from all records. NULL: no memory. */
static json_t *keys_done(const json_t *records, const char *last)
{
    char key[1024];
    size_t i;
    json_t *record, *done = json_object();
    json_array_foreach(records, i, record)
    {
        key_of(attn_field_text(record, "id"), attn_field_text(record, "backend"),
               attn_field_text(record, "options"),
               (int)json_integer_value(json_object_get(record, "threads")), key, sizeof key);
        if (done && ends_key(record, last) && note(done, key)) {
            json_decref(done);
            done = NULL;
        }
    }
    return done;
}

/* Is this session like the one that began the run? If not, that must be wanted. */
static int check_provenance(struct attn_session *session,
                            const struct attn_journal_content *content,
                            const struct attn_resume_wish *wish, char *why, size_t size)
{
    char differs[768];
    const int count = attn_provenance_compare(content->run, wish->run, differs, sizeof differs);
    json_t *entry = count < 0
                        ? NULL
                        : json_pack("{s:O?, s:s}", "machine", json_object_get(wish->run, "machine"),
                                    "differs", differs);
    if (!entry) {
        snprintf(why, size, "no memory to compare this session with the run");
        return -1;
    }
    attn_journal_resume(&session->journal, entry);
    if (count == 0 || wish->cross)
        return 0;
    snprintf(why, size, "'%s' was not begun like this: %s; --cross continues it nevertheless",
             session->folder, differs);
    return -1;
}

/* Takes over the records of a run. */
static int take_records(struct attn_session *session, const json_t *records)
{
    json_t *done = keys_done(records, session->settings.hot ? "hot" : "cold"),
           *open = done ? keep_open(session, done) : NULL;
    size_t i;
    json_t *record;
    int result = open ? 0 : -1;
    /* Old records of cases that are measured again neither count nor are shown. */
    json_array_foreach(records, i, record)
    {
        if (result || json_object_get(open, attn_field_text(record, "id")))
            continue;
        attn_session_claim(session, record);
        result = json_array_append(session->records, record);
    }
    json_decref(open);
    json_decref(done);
    return result;
}

enum attn_exit attn_resume(struct attn_session *session, const char *folder,
                           const struct attn_resume_wish *wish, char *why, size_t size)
{
    char path[ATTN_PATH_MAX];
    struct attn_journal_content content;
    if (attn_session_folder(session, folder, path, why, size))
        return ATTN_EXIT_USAGE;
    const enum attn_journal_status status =
        attn_journal_reopen(path, wish->salvage, &session->journal, &content, why, size);
    if (status) {
        if (status == ATTN_JOURNAL_DAMAGED && !wish->salvage)
            snprintf(why + strlen(why), size - strlen(why),
                     "; --salvage goes on after the lines before it");
        return status == ATTN_JOURNAL_DAMAGED ? ATTN_EXIT_INCOMPLETE : ATTN_EXIT_USAGE;
    }
    snprintf(session->folder, sizeof session->folder, "%s", folder);
    enum attn_exit code = ATTN_EXIT_OK;
    if (!wish->run) {
        snprintf(why, size, "no memory for what the run is made with");
        code = ATTN_EXIT_INTERNAL;
    } else if (content.lines == 0 && attn_journal_begin(&session->journal, NULL, wish->run)) {
        snprintf(why, size, "%s: %m", path);
        code = ATTN_EXIT_INTERNAL;
    } else if (content.lines > 0 && check_provenance(session, &content, wish, why, size)) {
        code = ATTN_EXIT_USAGE;
    } else if (take_records(session, content.records)) {
        snprintf(why, size, "no memory for the records of '%s'", session->folder);
        code = ATTN_EXIT_INTERNAL;
    } else if (*content.damage) {
        fprintf(stderr, "attnbench: %s: %s; what follows was moved to results.ndjson.cut\n", path,
                content.damage);
    }
    attn_journal_release(&content);
    return code;
}
