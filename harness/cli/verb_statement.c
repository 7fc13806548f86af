/* SPDX-License-Identifier: Apache-2.0 */
/* verb_statement.c - verify --statement FILE writes a statement of conformance; attnbench statement
 * check FILE repeats the verification that it is about. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "case/text.h"
#include "cli/statement.h"
#include "report/conformance.h"
#include "report/conformance_text.h"
#include "report/text.h"
#include "results/field.h"
#include "run/conclusion.h"
#include "run/machine.h"
#include "run/verify.h"

static bool ends_with(const char *text, const char *suffix)
{
    const size_t n = strlen(text), s = strlen(suffix);
    return n > s && strcmp(text + n - s, suffix) == 0;
}

/* mine.md -> mine.svg */
static int badge_path(const char *path, char badge[ATTN_PATH_MAX])
{
    const size_t stem = strlen(path) - (ends_with(path, ".md") ? 3 : 5);
    return snprintf(badge, ATTN_PATH_MAX, "%.*s.svg", (int)stem, path) < ATTN_PATH_MAX ? 0 : -1;
}

static bool is_statement_file(const char *path)
{
    return ends_with(path, ".md") || ends_with(path, ".json");
}

int attn_statement_check_command(const struct attn_command *c, char *why, size_t size)
{
    const struct attn_suite_wish *suite = &c->suite;
    char badge[ATTN_PATH_MAX];
    const char *option = suite->filter               ? "filter"
                         : suite->shard.count        ? "shard"
                         : suite->seed_given         ? "seed"
                         : suite->fuzz               ? "fuzz"
                         : c->settings.budget_s > 0  ? "budget"
                         : c->settings.fills != ~0u  ? "fills"
                         : c->settings.checks != ~0u ? "checks"
                         : c->settings.debug         ? "debug"
                                                     : NULL;
    if (option) {
        snprintf(why, size,
                 "--statement is about whole cases and all of their checks: leave --%s out",
                 option);
        return -1;
    }
    if (!is_statement_file(c->statement) || badge_path(c->statement, badge)) {
        snprintf(why, size, "--statement %.200s: the file must end in .md or .json", c->statement);
        return -1;
    }
    return 0;
}

/* The statement of a session; without records that of its suite, machine and plugins alone. */
static json_t *make(const struct attn_command *c, const struct attn_session *session,
                    const json_t *records, char *why, size_t size)
{
    json_t *ids = json_array(), *lines = json_array();
    json_t *machine = attn_machine_json(session, &(struct attn_roof){0}, 0);
    const struct attn_conformance_suite suite = {.name = c->n_arguments  ? "cases"
                                                         : c->suite.full ? "full"
                                                                         : "standard",
                                                 .ids = ids,
                                                 .lines = lines};
    for (size_t i = 0; i < session->cases.count; i++) {
        char id[ATTN_CASE_ID_LEN + 1], line[ATTN_CASE_LINE_MAX];
        attn_case_id(&session->cases.items[i], id);
        attn_case_canonical(&session->cases.items[i], line, sizeof line);
        json_array_append_new(ids, json_string(id));
        json_array_append_new(lines, json_string(line));
    }
    json_t *statement = attn_conformance_make(records, machine, &suite, why, size);
    json_decref(machine);
    json_decref(ids);
    json_decref(lines);
    return statement;
}

static int put_json(FILE *out, const json_t *statement)
{
    const int status =
        json_dumpf(statement, out, JSON_INDENT(1) | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(9));
    fputc('\n', out);
    return status;
}

/* A document in memory; NULL: no memory. */
static char *document(int (*put)(FILE *, const json_t *), const json_t *statement, size_t *length)
{
    char *text = NULL;
    FILE *out = attn_text_open(&text, length);
    const int status = out ? put(out, statement) : -1;
    if (out && fclose(out) == 0 && status == 0)
        return text;
    free(text);
    return NULL;
}

static int write_document(const char *path, int (*put)(FILE *, const json_t *),
                          const json_t *statement, char *why, size_t size)
{
    size_t length;
    char *text = document(put, statement, &length);
    int status = -1;
    if (text)
        status = attn_file_write(path, text, length, why, size);
    else
        snprintf(why, size, "no memory for %s", path);
    free(text);
    return status;
}

int attn_statement_write(const struct attn_command *c, const struct attn_session *session,
                         char *why, size_t size)
{
    char badge[ATTN_PATH_MAX];
    json_t *statement = make(c, session, session->records, why, size);
    int status = -1;
    if (!statement)
        return -1;
    if (badge_path(c->statement, badge) == 0)
        status = write_document(
            c->statement, ends_with(c->statement, ".md") ? attn_conformance_put_markdown : put_json,
            statement, why, size);
    if (status == 0)
        status = write_document(badge, attn_conformance_put_badge, statement, why, size);
    json_decref(statement);
    return status;
}

/* A badge beside the file must be that of the statement. Without one there is nothing to check. */
static int check_badge(const char *path, const json_t *statement, char *why, size_t size)
{
    char badge[ATTN_PATH_MAX], ignored[256];
    size_t length, had;
    if (badge_path(path, badge))
        return 0;
    char *text = attn_file_read(badge, &had, ignored, sizeof ignored);
    char *made = text ? document(attn_conformance_put_badge, statement, &length) : NULL;
    const bool equal = made && had == length && memcmp(text, made, length) == 0;
    const int status = !text || equal ? 0 : -1;
    if (status)
        snprintf(why, size, "the badge %.200s is not that of the statement", badge);
    free(text);
    free(made);
    return status;
}

/* Asks for what the statement is about: its cases, threads and backends. The strings stay its. */
static int ask_for(struct attn_command *c, const json_t *statement, json_t *words, char *why,
                   size_t size)
{
    const char *suite = attn_field_text(statement, "suite.name");
    const double threads = attn_field_number(statement, "machine.threads");
    size_t i;
    json_t *item;
    c->n_arguments = 0;
    c->suite.full = strcmp(suite, "full") == 0;
    c->settings.threads = threads >= 1 && threads <= 4096 ? (int)threads : 1;
    c->settings.all_checks = true;
    c->settings.fills = c->settings.checks = ~0u;
    json_array_foreach(attn_field_at(statement, "suite.lines"), i, item)
    {
        if (!json_is_string(item) || c->n_arguments == ATTN_ARGS_MAX)
            break;
        c->arguments[c->n_arguments++] = json_string_value(item);
    }
    json_array_foreach(json_object_get(statement, "backends"), i, item)
    {
        const char *options = attn_field_text(item, "options");
        if (c->n_backends == ATTN_ARGS_MAX)
            break;
        json_array_append_new(words, json_sprintf("%s%s%s", attn_field_text(item, "name"),
                                                  *options ? ":" : "", options));
        c->backends[c->n_backends++] = json_string_value(json_array_get(words, i));
    }
    if (c->n_backends > 0 && (strcmp(suite, "cases") == 0) == (c->n_arguments > 0))
        return 0;
    snprintf(why, size, "the statement names no backends, or no cases");
    return -1;
}

/* Verifies once more and holds the statement against it. */
static enum attn_exit repeat(struct attn_command *c, struct attn_session *session,
                             const json_t *statement, char *why, size_t size)
{
    json_t *here = make(c, session, NULL, why, size);
    if (!here)
        return ATTN_EXIT_INTERNAL;
    enum attn_exit code = attn_conformance_fits(statement, here, c->compare.cross, why, size);
    json_decref(here);
    if (code)
        return code;
    if (attn_verify_all(session, c->json ? NULL : stdout, why, size))
        return ATTN_EXIT_INTERNAL;
    if (attn_interrupted)
        return ATTN_EXIT_INCOMPLETE;
    json_t *again = make(c, session, session->records, why, size);
    if (!again)
        return ATTN_EXIT_INTERNAL;
    code = attn_conformance_agrees(statement, again, why, size);
    if (c->json)
        attn_print_json(again);
    else
        json_decref(again);
    return code;
}

/* Says which plugin has to be given: that of the first backend. An adapter in Python is found in
 * its folder. */
static void name_plugin(const json_t *statement)
{
    const json_t *b = json_array_get(json_object_get(statement, "backends"), 0);
    const char *name = attn_field_text(b, "name"), *plugin = attn_field_text(b, "plugin");
    const bool named = strcmp(name, attn_field_text(b, "offered")) != 0;
    char clean[2][128];
    if (*attn_field_text(b, "source_sha256"))
        return;
    attn_text_take(clean[0], sizeof clean[0], name, strlen(name));
    attn_text_take(clean[1], sizeof clean[1], plugin, strlen(plugin));
    fprintf(stderr,
            "attnbench: the statement is about %s of the plugin %s; --plugin %sFILE gives it\n",
            clean[0], clean[1], named ? "NAME=" : "");
}

static enum attn_exit check(struct attn_command *c, const struct attn_paths *paths,
                            const json_t *statement)
{
    struct attn_session session;
    char why[1024];
    json_t *words = json_array();
    enum attn_exit code = ATTN_EXIT_USAGE;
    c->suite.more = "covering"; /* as verify */
    if (ask_for(c, statement, words, why, sizeof why)) {
        json_decref(words);
        return attn_complain(code, why);
    }
    code = attn_session_begin(c, paths, &session);
    if (code == ATTN_EXIT_USAGE && session.cases.count > 0 && c->n_plugins == 0)
        name_plugin(statement); /* the cases are known, so a backend is not */
    if (code == ATTN_EXIT_OK) {
        code = repeat(c, &session, statement, why, sizeof why);
        if (code)
            attn_complain(code, why);
        else
            fprintf(
                stderr,
                "the statement agrees with what was found here (not checked: its date, the commit "
                "of attnbench, %s)\n",
                c->compare.cross ? "the machine" : "kernel, C library and compiler");
    }
    attn_session_close(&session);
    json_decref(words);
    return code;
}

enum attn_exit attn_verb_statement(struct attn_command *c, const struct attn_paths *paths)
{
    char why[1024], line[1024 + ATTN_PATH_MAX];
    const char *path = c->n_arguments > 1 ? c->arguments[1] : "";
    enum attn_exit code = ATTN_EXIT_USAGE;
    size_t length;
    if (c->n_arguments != 2 || strcmp(c->arguments[0], "check") != 0 || !is_statement_file(path))
        return attn_complain(code, "statement needs 'check' and one FILE.md or FILE.json");
    char *text = attn_file_read(path, &length, why, sizeof why);
    if (!text)
        return attn_complain(code, why);
    json_t *statement = attn_conformance_parse(text, length, &code, why, sizeof why);
    free(text);
    if (statement && check_badge(path, statement, why, sizeof why)) {
        code = ATTN_EXIT_NUMERICS;
        json_decref(statement);
        statement = NULL;
    }
    if (!statement) {
        snprintf(line, sizeof line, "%s: %s", path, why);
        return attn_complain(code, line);
    }
    code = check(c, paths, statement);
    json_decref(statement);
    return code;
}
