/* SPDX-License-Identifier: Apache-2.0 */
/* print.c - what several verbs write to standard output. */
#include <stdio.h>

#include "cli/command.h"

void attn_print_cases(const struct attn_session *session)
{
    char line[ATTN_CASE_LINE_MAX];
    for (size_t i = 0; i < session->cases.count; i++) {
        attn_case_canonical(&session->cases.items[i], line, sizeof line);
        printf("%s\n", line);
    }
}

void attn_print_records(const struct attn_session *session)
{
    size_t i;
    json_t *record;
    json_array_foreach(session->records, i, record)
    {
        json_dumpf(record, stdout, JSON_COMPACT | JSON_REAL_PRECISION(9));
        printf("\n");
    }
}

void attn_print_counts(const struct attn_session *session)
{
    int total = 0;
    for (int s = 0; s < ATTN_STATUS_COUNT; s++)
        total += session->counts[s];
    printf("\n%d results:", total);
    const char *separator = " ";
    for (int s = 0; s < ATTN_STATUS_COUNT; s++)
        if (session->counts[s]) {
            printf("%s%d %s", separator, session->counts[s], attn_status_name((enum attn_status)s));
            separator = ", ";
        }
    printf("\n");
}
