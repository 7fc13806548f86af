/* SPDX-License-Identifier: Apache-2.0 */
/* verb_verify.c - attnbench verify. */
#include <stdio.h>

#include "cli/command.h"
#include "report/report.h"
#include "run/verify.h"

/* Counts of every status that occurred, one line. */
static void print_counts(FILE *out, const struct attn_session *session)
{
    int total = 0;
    for (int s = 0; s < ATTN_STATUS_COUNT; s++)
        total += session->counts[s];
    fprintf(out, "\n%d result%s:", total, total == 1 ? "" : "s");
    const char *separator = " ";
    for (int s = 0; s < ATTN_STATUS_COUNT; s++)
        if (session->counts[s]) {
            fprintf(out, "%s%d %s", separator, session->counts[s],
                    attn_status_name((enum attn_status)s));
            separator = ", ";
        }
    fprintf(out, "\n");
}

static enum attn_exit dry_run(const struct attn_session *session)
{
    char line[ATTN_CASE_LINE_MAX];
    for (size_t i = 0; i < session->cases.count; i++) {
        attn_case_canonical(&session->cases.items[i], line, sizeof line);
        printf("%s\n", line);
    }
    return ATTN_EXIT_OK;
}

static void print_records(const json_t *records)
{
    size_t i;
    json_t *record;
    json_array_foreach(records, i, record)
    {
        json_dumpf(record, stdout, JSON_COMPACT | JSON_REAL_PRECISION(9));
        printf("\n");
    }
}

enum attn_exit attn_verb_verify(struct attn_command *c, const struct attn_places *places)
{
    struct attn_session session;
    char why[1024];
    enum attn_exit code = attn_session_begin(c, places, &session);
    if (code)
        goto out;
    if (c->dry_run) {
        code = dry_run(&session);
        goto out;
    }
    if (c->out && attn_session_open(&session, c->out, false, why, sizeof why)) {
        code = attn_complain(ATTN_EXIT_USAGE, why);
        goto out;
    }
    if (attn_verify_all(&session, c->json ? NULL : stdout, why, sizeof why)) {
        code = attn_complain(ATTN_EXIT_INTERNAL, why);
        goto out;
    }
    if (c->json)
        print_records(session.records);
    else
        print_counts(stdout, &session);
    code = session.code;
    if (c->junit && attn_junit_write(session.records, c->junit, why, sizeof why))
        code = attn_complain(ATTN_EXIT_INTERNAL, why);
out:
    attn_session_close(&session);
    return code;
}
