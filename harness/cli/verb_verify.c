/* SPDX-License-Identifier: Apache-2.0 */
/* verb_verify.c - attnbench verify. */
#include <stdio.h>

#include "cli/command.h"
#include "report/report.h"
#include "run/verify.h"

enum attn_exit attn_verb_verify(struct attn_command *c, const struct attn_places *places)
{
    struct attn_session session;
    char why[1024];
    enum attn_exit code = attn_session_begin(c, places, &session);
    if (code)
        goto out;
    if (c->dry_run) {
        attn_print_cases(&session.cases, c->json ? ATTN_PRINT_JSON : ATTN_PRINT_LINES);
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
        attn_print_records(session.records);
    else
        attn_print_counts(&session);
    code = session.code;
    if (c->junit && attn_junit_write(session.records, c->junit, why, sizeof why))
        code = attn_complain(ATTN_EXIT_INTERNAL, why);
out:
    attn_session_close(&session);
    return code;
}
