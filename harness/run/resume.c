/* SPDX-License-Identifier: Apache-2.0 */
/* resume.c - reads what a run folder already holds. */
#include "run/resume.h"

#include <string.h>

#include "results/field.h"
#include "run/provenance.h"
#include "run/restore.h"

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

/* Is this session given the cases of a run that was cut off? With others it would end as if those
 * had been done. What is finished may have more. */
static int check_selection(const struct attn_session *session,
                           const struct attn_journal_content *content,
                           const struct attn_resume_wish *wish, char *why, size_t size)
{
    const char *begun = attn_field_text(content->selection, "sha256");
    if (content->ended || wish->cross || !*begun || strcmp(begun, session->selection.sha256) == 0)
        return 0;
    snprintf(
        why, size,
        "'%s' is not finished, and its list of cases was another one (%.0f, now %zu): give the "
        "same list, or --cross",
        session->folder, attn_field_number(content->selection, "cases"), session->selection.cases);
    return -1;
}

/* Takes over the records that stand. */
static int take_records(struct attn_session *session, const json_t *records)
{
    size_t i;
    json_t *record;
    json_array_foreach(records, i, record)
    {
        if (!attn_restore_stands(record))
            continue;
        attn_session_claim(session, record);
        if (json_array_append(session->records, record) != 0)
            return -1;
    }
    session->earlier = attn_restore_index(records);
    return session->earlier ? 0 : -1;
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
    } else if (content.lines > 0 && (check_provenance(session, &content, wish, why, size) ||
                                     check_selection(session, &content, wish, why, size))) {
        code = ATTN_EXIT_USAGE;
    } else if (take_records(session, content.records)) {
        snprintf(why, size, "no memory for the records of '%s'", session->folder);
        code = ATTN_EXIT_INTERNAL;
    } else if (content.lines == 0) {
        fprintf(stderr, "attnbench: '%s' has no run to continue: a new one begins\n",
                session->folder);
    } else if (*content.damage) {
        fprintf(stderr, "attnbench: %s: %s; what follows was moved to results.ndjson.cut\n", path,
                content.damage);
    }
    attn_journal_release(&content);
    return code;
}
