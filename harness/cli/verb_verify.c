/* SPDX-License-Identifier: Apache-2.0 */
/* verb_verify.c - attnbench verify. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/statement.h"
#include "report/report.h"
#include "run/conclusion.h"
#include "run/drift.h"
#include "run/machine.h"
#include "run/provenance.h"
#include "run/verify.h"

/* Can the file be written? Checked before any case runs. Leaves no new file behind. */
static int check_writable(const char *path, char *why, size_t size)
{
    const bool there = access(path, F_OK) == 0;
    FILE *file = fopen(path, "a");
    if (!file) {
        snprintf(why, size, "%s cannot be written: %s", path, strerror(errno));
        return -1;
    }
    fclose(file);
    if (!there)
        unlink(path);
    return 0;
}

/* Reports results that are less accurate than the baseline. They fail like wrong numbers. all: had
 * each a counterpart? */
static enum attn_exit judge_drift(const struct attn_command *c, const struct attn_session *session,
                                  const json_t *earlier, bool *all)
{
    struct attn_drift drift;
    *all = false;
    FILE *out = c->json ? stderr : stdout;
    if (attn_drift_judge(earlier, session->records, c->drift, out, &drift))
        return attn_complain(ATTN_EXIT_INTERNAL, "no memory to compare the run with the baseline");
    if (drift.unmatched > 0)
        fprintf(stderr, "attnbench: %d of %d results have no counterpart in %s\n", drift.unmatched,
                drift.compared, c->baseline);
    *all = drift.unmatched == 0;
    if (drift.drifted > 0)
        return ATTN_EXIT_NUMERICS;
    return drift.compared > 0 && drift.unmatched == drift.compared ? ATTN_EXIT_BASELINE
                                                                   : ATTN_EXIT_OK;
}

/* After the line about the verdicts, whose exit code this one takes the place of. */
static enum attn_exit not_written(const char *why)
{
    fprintf(stderr, "attnbench: exit %d: %s\n", ATTN_EXIT_INTERNAL, why);
    return ATTN_EXIT_INTERNAL;
}

enum attn_exit attn_verb_verify(struct attn_command *c, const struct attn_paths *paths)
{
    struct attn_session session;
    char why[1024], line[1280];
    json_t *earlier = NULL;
    if (c->statement && (attn_statement_check_command(c, why, sizeof why) ||
                         check_writable(c->statement, why, sizeof why)))
        return attn_complain(ATTN_EXIT_USAGE, why);
    c->suite.more = "covering"; /* for verdicts, not for times */
    enum attn_exit code = attn_session_begin(c, paths, &session);
    if (code)
        goto out;
    if (c->dry_run) {
        attn_print_cases(&session.cases, c->json ? ATTN_PRINT_JSON : ATTN_PRINT_LINES);
        attn_print_draws(&session.draws);
        goto out;
    }
    const char *file = c->settings.reproducer;
    if ((file && check_writable(file, why, sizeof why)) ||
        (c->junit && check_writable(c->junit, why, sizeof why)) ||
        (c->baseline && !(earlier = attn_drift_read(c->baseline, why, sizeof why))) ||
        (c->out &&
         attn_session_create(&session, c->out, attn_provenance_json(&session, c->verb->name),
                             "name another folder", why, sizeof why))) {
        code = attn_complain(ATTN_EXIT_USAGE, why);
        goto out;
    }
    if (c->out && attn_machine_write(&session, &(struct attn_roof){0}, 0, why, sizeof why)) {
        code = attn_complain(ATTN_EXIT_INTERNAL, why);
        goto out;
    }
    if (attn_verify_all(&session, c->json ? NULL : stdout, why, sizeof why) ||
        (!attn_interrupted && attn_session_end(&session, why, sizeof why))) {
        code = attn_complain(ATTN_EXIT_INTERNAL, why);
        goto out;
    }
    if (c->json)
        attn_print_records(session.records);
    else
        attn_print_counts(&session);
    attn_print_draws(&session.draws);
    code = attn_conclude(&session, line, sizeof line);
    if (earlier) {
        bool all;
        const enum attn_exit drift = judge_drift(c, &session, earlier, &all);
        if (code == ATTN_EXIT_INCONCLUSIVE && all) { /* so approximate results were judged, too */
            code = ATTN_EXIT_OK;
            line[0] = '\0';
        }
        code = attn_exit_stronger(code, drift);
        if (drift && !*line)
            snprintf(line, sizeof line, "exit %d: %s", drift,
                     drift == ATTN_EXIT_NUMERICS ? "errors have grown since the baseline"
                                                 : "no result has a counterpart in the baseline");
    }
    if (file && !session.reproduced)
        fprintf(stderr, "attnbench: nothing was written to %s\n", file);
    if (*line && !attn_interrupted)
        attn_complain(code, line);
    if (c->junit && attn_junit_write(session.records, c->junit, why, sizeof why))
        code = not_written(why);
    if (c->statement && !attn_interrupted && attn_statement_write(c, &session, why, sizeof why))
        code = not_written(why);
out:
    json_decref(earlier);
    attn_session_close(&session);
    return code;
}
