/* SPDX-License-Identifier: Apache-2.0 */
/* verb_bench.c - attnbench bench and run. */
#include <stdio.h>
#include <string.h>

#include "bench/bench.h"
#include "cli/command.h"
#include "report/report.h"
#include "results/field.h"
#include "run/conclusion.h"
#include "run/provenance.h"
#include "run/restore.h"
#include "run/resume.h"

/* More timings than these are not listed unless --rows asks for them. */
enum { ROWS_MOST = 40 };

/* Of more troubles than these the file of results has the rest. */
enum { TROUBLES_MOST = 5 };

/* The verdicts that prevented a timing, and nobody expected. */
static void print_troubles(const struct attn_session *session)
{
    size_t i, n = 0;
    json_t *r;
    json_array_foreach(session->records, i, r)
    {
        const char *status = attn_field_text(r, "status");
        if (strcmp(attn_field_text(r, "type"), "verify") != 0 || strcmp(status, "pass") == 0 ||
            json_is_true(json_object_get(r, "expected")))
            continue;
        if (++n > TROUBLES_MOST)
            continue;
        printf("%s: %s on %s: %s\n    rerun: %s\n", status, attn_field_text(r, "backend"),
               *attn_field_text(r, "name") ? attn_field_text(r, "name")
                                           : attn_field_text(r, "case"),
               attn_field_text(r, "reason"), attn_field_text(r, "repro"));
    }
    if (n > TROUBLES_MOST)
        printf("and %zu more, each with 'reason' and 'repro' in results.ndjson\n",
               n - TROUBLES_MOST);
}

/* What a run says, on stdout. `report`: where its pages are, or NULL. */
static enum attn_exit print_screen(const struct attn_command *c, const struct attn_session *session,
                                   const char *report)
{
    struct attn_run_data run = {.records = session->records};
    const struct attn_screen screen = {
        .rows = c->rows || attn_timings_count(run.records) <= ROWS_MOST,
        .counts = session->settings.count,
        .columns = attn_terminal_columns(100),
        .fewer = !session->settings.fills || !session->settings.checks,
        .report = report};
    char why[1024], path[ATTN_PATH_MAX];
    int status = 0;
    if (attn_path_join(path, session->folder, "machine.json") == 0)
        status = attn_json_load_object(path, &run.machine, why, sizeof why);
    if (status == 0 && attn_path_join(path, session->folder, "matrix.json") == 0)
        status = attn_json_load_object(path, &run.matrix, why, sizeof why);
    snprintf(run.path, sizeof run.path, "%s", session->folder);
    print_troubles(session);
    if (status == 0)
        status = attn_screen_put(&run, &screen, stdout, why, sizeof why);
    json_decref(run.machine);
    json_decref(run.matrix);
    if (status)
        return attn_complain(ATTN_EXIT_INTERNAL, why);
    return ATTN_EXIT_OK;
}

/* How many cases have no record of any backend. */
static size_t count_unbegun(const struct attn_session *session)
{
    size_t i, n = 0;
    json_t *record, *begun = json_object();
    json_array_foreach(session->records, i, record)
        json_object_set_new(begun, attn_field_text(record, "id"), json_true());
    for (size_t c = 0; c < session->cases.count; c++) {
        char id[ATTN_CASE_ID_LEN + 1];
        attn_case_id(&session->cases.items[c], id);
        n += !json_object_get(begun, id);
    }
    json_decref(begun);
    return n;
}

static void say_interrupted(const struct attn_session *session, enum attn_exit code)
{
    char line[160], unbegun[80] = "";
    const size_t n = count_unbegun(session);
    if (n)
        snprintf(unbegun, sizeof unbegun, " before %zu of %zu cases were begun", n,
                 session->cases.count);
    snprintf(line, sizeof line, "interrupted%s; the same command with --resume goes on", unbegun);
    attn_complain(code, line);
}

/* What a command that times ends with: `run` with a report. */
static enum attn_exit conclude(struct attn_command *c, const struct attn_paths *paths,
                               const struct attn_session *session)
{
    char line[1280], report[ATTN_PATH_MAX];
    const bool reports =
        c->verb->run == attn_verb_run && !attn_interrupted && !attn_session_empty(session);
    enum attn_exit code = attn_conclude(session, line, sizeof line);
    if (reports && attn_path_join(report, c->out, "report"))
        code = attn_complain(ATTN_EXIT_USAGE, "the run's path is too long");
    else if (reports)
        code = attn_exit_stronger(code, attn_report_of(c, c->out, report, paths));
    if (c->json)
        attn_print_records(session->records);
    else if (!attn_session_empty(session) &&
             !(attn_interrupted && json_array_size(session->records) == 0))
        code = attn_exit_stronger(code, print_screen(c, session, reports ? report : NULL));
    if (attn_interrupted)
        say_interrupted(session, code);
    else if (*line)
        attn_complain(code, line);
    return code;
}

/* Results of a run that is continued may be of cases that are not asked for this time: they stay.
 */
static void say_others(const struct attn_session *session)
{
    char id[ATTN_CASE_ID_LEN + 1];
    json_t *asked = json_object(), *others = json_object(), *record;
    size_t i;
    for (i = 0; i < session->cases.count; i++) {
        attn_case_id(&session->cases.items[i], id);
        json_object_set_new(asked, id, json_true());
    }
    json_array_foreach(session->records, i, record)
    {
        const char *of = attn_field_text(record, "id");
        if (*of && !json_object_get(asked, of))
            json_object_set_new(others, of, json_true());
    }
    if (json_object_size(others) > 0)
        fprintf(stderr,
                "attnbench: '%s' has results of %zu more case%s than asked for now; they "
                "stay\n",
                session->folder, json_object_size(others),
                json_object_size(others) == 1 ? "" : "s");
    json_decref(asked);
    json_decref(others);
}

/* The run folder: a new one, or one to continue. */
static enum attn_exit open_run(const struct attn_command *c, struct attn_session *session,
                               char *why, size_t size)
{
    json_t *run = attn_provenance_json(session, c->verb->name);
    if (!c->resume)
        return attn_session_create(session, c->out, run, "--resume continues it", why, size)
                   ? ATTN_EXIT_USAGE
                   : ATTN_EXIT_OK;
    const struct attn_resume_wish wish = {run, c->compare.cross, c->salvage};
    const enum attn_exit code = attn_resume(session, c->out, &wish, why, size);
    json_decref(run);
    if (code == ATTN_EXIT_OK)
        say_others(session);
    return code;
}

/* Has an earlier command done all that this one asks for? */
static bool is_done(struct attn_session *session)
{
    bool done = session->earlier && session->journal.ended;
    for (size_t i = 0; i < session->cases.count && done; i++)
        for (size_t b = 0; b < session->roster.count && done; b++) {
            struct attn_entry entry = {.c = &session->cases.items[i],
                                       .contestant = &session->roster.items[b]};
            attn_case_id(entry.c, entry.id);
            done = entry.contestant->info.exactness == ATTN_NONE ||
                   (attn_restore_verdict(session, &entry) && entry.finished);
        }
    return done;
}

/* bench and run. */
enum attn_exit attn_verb_bench(struct attn_command *c, const struct attn_paths *paths)
{
    struct attn_session session;
    char why[1024];
    if (!c->out && !c->dry_run)
        return attn_complain(ATTN_EXIT_USAGE, "give -o RUN, the folder for the results");
    if (!c->resume && (c->compare.cross || c->salvage))
        return attn_complain(ATTN_EXIT_USAGE, "--cross and --salvage need --resume");
    c->suite.more = "long"; /* for times */
    enum attn_exit code = attn_session_begin(c, paths, &session);
    if (code)
        goto out;
    if (c->dry_run) {
        attn_print_cases(&session.cases, c->json ? ATTN_PRINT_JSON : ATTN_PRINT_LINES);
        goto out;
    }
    code = open_run(c, &session, why, sizeof why);
    if (code) {
        attn_complain(code, why);
        goto out;
    }
    if ((!is_done(&session) && attn_bench_all(&session, why, sizeof why)) ||
        (!attn_interrupted && attn_session_end(&session, why, sizeof why)))
        code = attn_complain(ATTN_EXIT_INTERNAL, why);
    else
        code = conclude(c, paths, &session);
out:
    attn_session_close(&session);
    return code;
}

enum attn_exit attn_verb_run(struct attn_command *c, const struct attn_paths *paths)
{
    return attn_verb_bench(c, paths);
}
