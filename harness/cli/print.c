/* SPDX-License-Identifier: Apache-2.0 */
/* print.c - output that several verbs share. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/command.h"

void attn_print_json(json_t *value)
{
    json_dumpf(value, stdout, JSON_INDENT(2));
    printf("\n");
    json_decref(value);
}

void attn_print_records(const json_t *records)
{
    size_t i;
    json_t *record;
    json_array_foreach(records, i, record)
    {
        json_dumpf(record, stdout, JSON_COMPACT | JSON_REAL_PRECISION(9));
        printf("\n");
    }
}

/* One object of an array that is printed piece by piece, so that a million cases never form one
 * value. */
static void print_case(const char *id, const char *name, const char *line, bool first)
{
    json_t *object = json_pack("{s:s, s:s, s:s}", "id", id, "name", name, "case", line);
    char *text = json_dumps(object, JSON_INDENT(2));
    printf(first ? "[" : ",");
    for (char *at = text, *next; at; at = next) { /* a newline in a string is escaped */
        next = strchr(at, '\n');
        if (next)
            *next++ = '\0';
        printf("\n  %s", at);
    }
    free(text);
    json_decref(object);
}

void attn_print_cases(const struct attn_case_list *cases, enum attn_print form)
{
    char line[ATTN_CASE_LINE_MAX], id[ATTN_CASE_ID_LEN + 1];
    for (size_t i = 0; i < cases->count; i++) {
        const struct attn_case *c = &cases->items[i];
        attn_case_id(c, id);
        attn_case_canonical(c, line, sizeof line);
        if (form == ATTN_PRINT_JSON)
            print_case(id, c->name, line, i == 0);
        else if (form == ATTN_PRINT_TABLE)
            printf("%s  %-28s %s\n", id, c->name, line);
        else
            printf("%s\n", line);
    }
    if (form == ATTN_PRINT_JSON)
        printf(cases->count ? "\n]\n" : "[]\n");
}

void attn_shard_note(const struct attn_shard *shard, size_t cases, size_t of)
{
    if (shard->count == 0 || of == 0)
        return;
    fprintf(stderr, "attnbench: shard %d of %d (%s): %zu of %zu case%s%s\n", shard->index,
            shard->count, shard->from, cases, of, of == 1 ? "" : "s",
            cases ? "" : ", so there is nothing to do");
}

void attn_print_draws(const struct attn_draws *draws)
{
    if (draws->drawn == draws->taken && !*draws->ended)
        return;
    fprintf(stderr, "attnbench: random cases drawn: %zu, taken by a backend: %zu, passed over: %zu",
            draws->drawn, draws->taken, draws->drawn - draws->taken);
    if (*draws->ended)
        fprintf(stderr, "; drawing ended because %s", draws->ended);
    if (*draws->refusal)
        fprintf(stderr, "; last refusal: %s", draws->refusal);
    fputc('\n', stderr);
}

int attn_terminal_columns(int otherwise)
{
    enum { LEAST = 40, MOST = 10000 };
    struct winsize window;
    const char *given = getenv("COLUMNS");
    const long wished = given ? strtol(given, NULL, 10) : 0;
    if (wished > LEAST && wished <= MOST)
        return (int)wished;
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > LEAST ? window.ws_col
                                                                                   : otherwise;
}

void attn_print_counts(const struct attn_session *session)
{
    int total = 0;
    for (int s = 0; s < ATTN_STATUS_COUNT; s++)
        total += session->counts[s];
    printf("\n%d result%s:", total, total == 1 ? "" : "s");
    const char *separator = " ";
    for (int s = 0; s < ATTN_STATUS_COUNT; s++)
        if (session->counts[s]) {
            printf("%s%d %s", separator, session->counts[s], attn_status_name((enum attn_status)s));
            separator = ", ";
        }
    printf("\n");
}
