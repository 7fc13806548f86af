/* SPDX-License-Identifier: Apache-2.0 */
/* session.c - settings, records and the exit code of one command. */
#include "run/session.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/entropy.h"
#include "results/record.h"
#include "results/replace.h"

volatile int attn_interrupted;

/* Of so many bits that JSON and shells hold it as it is. */
static uint64_t fresh_seed(void)
{
    return attn_entropy() >> 16;
}

void attn_settings_default(struct attn_settings *s)
{
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    *s = (struct attn_settings){
        .threads = 1,
        .host_threads = online > 0 ? (int)online : 1,
        .timeout_s = 60,
        .run_limit_s = 5,
        .rounds = 5,
        .samples = 3,
        .min_time_s = 0.005,
        .hot = true,
        .cold = true,
        .sample_seed = fresh_seed(),
    };
}

bool attn_session_over(const struct attn_session *session)
{
    return session->settings.budget_s > 0 &&
           attn_now() - session->began > session->settings.budget_s - session->reserved_s;
}

bool attn_session_empty(const struct attn_session *session)
{
    return session->cases.count == 0 && json_array_size(session->records) == 0;
}

/* The exit code that one verdict asks for. */
static enum attn_exit claim_of(enum attn_status status, bool harmless, bool strict)
{
    switch (status) {
    case ATTN_FAIL:
    case ATTN_SUSPECT:
        return ATTN_EXIT_NUMERICS;
    case ATTN_MISTRUSTED:
        return strict ? ATTN_EXIT_NUMERICS : ATTN_EXIT_OK;
    case ATTN_APPROX: /* it was measured, and not judged */
        return strict ? ATTN_EXIT_INCONCLUSIVE : ATTN_EXIT_OK;
    case ATTN_SKIP:
        return harmless ? ATTN_EXIT_OK : ATTN_EXIT_NUMERICS;
    case ATTN_CRASH:
    case ATTN_TIMEOUT:
    case ATTN_OOM:
    case ATTN_ERROR:
        return ATTN_EXIT_INCOMPLETE;
    default:
        return ATTN_EXIT_OK;
    }
}

/* Does a record lack checks that its command should have made? */
static bool lacks_checks(const struct attn_settings *settings, const json_t *record)
{
    const char *name;
    json_t *why, *missed = json_object_get(record, "checks_missed");
    json_object_foreach(missed, name, why)
    {
        const char *text = json_string_value(why);
        if (settings->all_checks || !text ||
            (strcmp(text, ATTN_WHY_TEXT_FILLS) != 0 && strcmp(text, ATTN_WHY_TEXT_CHECKS) != 0))
            return true;
    }
    return false;
}

void attn_session_claim(struct attn_session *session, const json_t *record)
{
    int status = attn_status_parse(json_string_value(json_object_get(record, "status")));
    const char *type = json_string_value(json_object_get(record, "type"));
    if (status < 0 || !type || strcmp(type, "verify") != 0)
        return;
    session->counts[status]++;
    const char *exactness = json_string_value(json_object_get(record, "exactness"));
    const bool harmless = json_is_true(json_object_get(record, "expected"));
    enum attn_exit code = claim_of((enum attn_status)status, harmless, session->settings.strict);
    if (session->settings.strict && status == ATTN_PASS && lacks_checks(&session->settings, record))
        code = ATTN_EXIT_NUMERICS;
    /* What computes nothing says nothing about attention, but how its worker ended counts. */
    if (!exactness || strcmp(exactness, "none") != 0 || code == ATTN_EXIT_INCOMPLETE)
        session->code = attn_exit_stronger(session->code, code);
}

int attn_session_record(struct attn_session *session, json_t *record)
{
    if (!record) {
        errno = ENOMEM;
        return -1;
    }
    attn_session_claim(session, record);
    int result = *session->folder ? attn_journal_append(&session->journal, record) : 0;
    if (json_array_append_new(session->records, record))
        result = -1;
    return result;
}

int attn_session_folder(struct attn_session *session, const char *folder,
                        char results[ATTN_PATH_MAX], char *why, size_t size)
{
    if (attn_make_folder(folder)) {
        snprintf(why, size, "folder '%s' cannot be made: %s", folder, strerror(errno));
        return -1;
    }
    if (attn_path_join(results, folder, "results.ndjson") ||
        attn_path_join(session->log, folder, "workers.log")) {
        snprintf(why, size, "the path '%s' is too long", folder);
        return -1;
    }
    return 0;
}

int attn_session_create(struct attn_session *session, const char *folder, json_t *run,
                        const char *taken, char *why, size_t size)
{
    char path[ATTN_PATH_MAX];
    int result = attn_session_folder(session, folder, path, why, size);
    if (!run && result == 0) {
        snprintf(why, size, "no memory for what the run is made with");
        result = -1;
    } else if (result == 0 && access(path, F_OK) == 0) {
        snprintf(why, size, "'%s' holds a run already; %s", folder, taken);
        result = -1;
    }
    if (result == 0 && attn_journal_create(path, NULL, run, &session->journal, why, size))
        result = -1;
    if (result == 0)
        snprintf(session->folder, sizeof session->folder, "%s", folder);
    json_decref(run);
    return result;
}

int attn_session_end(struct attn_session *session, char *why, size_t size)
{
    if (!*session->folder || attn_journal_end(&session->journal) == 0)
        return 0;
    snprintf(why, size, "the end of the run cannot be written: %m");
    return -1;
}

int attn_session_write(const struct attn_session *session, json_t *value, const char *name,
                       size_t flags, char *why, size_t size)
{
    char path[ATTN_PATH_MAX];
    const unsigned refusals = attn_json_refusals();
    char *text = value ? json_dumps(value, flags) : NULL;
    int result = -1;
    errno = ENOMEM;
    if (text && attn_json_refusals() == refusals &&
        attn_path_join(path, session->folder, name) == 0)
        result = attn_replace(path, text, strlen(text));
    if (result)
        snprintf(why, size, "%s cannot be written into '%s': %m", name, session->folder);
    json_decref(value);
    free(text);
    return result;
}

void attn_session_close(struct attn_session *session)
{
    if (*session->folder)
        attn_journal_close(&session->journal);
    json_decref(session->records);
    json_decref(session->earlier);
    session->records = session->earlier = NULL;
    attn_roster_free(&session->roster);
    attn_case_list_free(&session->cases);
}
