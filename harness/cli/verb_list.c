/* SPDX-License-Identifier: Apache-2.0 */
/* verb_list.c - attnbench list. */
#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "report/matrix.h"
#include "run/checks.h"
#include "run/matrix.h"

static json_t *options_json(const struct attn_backend_info *info)
{
    json_t *list = json_array();
    for (uint32_t o = 0; o < info->n_options; o++)
        json_array_append_new(list,
                              json_pack("{s:s, s:s, s:s, s:s}", "key", info->options[o].key,
                                        "choices", info->options[o].choices, "default",
                                        info->options[o].fallback, "help", info->options[o].help));
    return list;
}

/* Prints what each backend of the roster supports. */
static enum attn_exit list_matrix(const struct attn_command *c, const struct attn_paths *paths,
                                  const struct attn_roster *roster)
{
    const struct attn_session session = {
        .settings = c->settings, .paths = paths, .roster = *roster};
    char why[512];
    json_t *matrix = attn_matrix_ask(&session, why, sizeof why);
    if (!matrix)
        return attn_complain(ATTN_EXIT_INTERNAL, why);
    if (c->json) {
        attn_print_json(matrix);
        return ATTN_EXIT_OK;
    }
    int status = attn_matrix_put_text(stdout, matrix, attn_terminal_columns(ATTN_COLUMNS));
    json_decref(matrix);
    return status ? attn_complain(ATTN_EXIT_INTERNAL, "no memory for the table") : ATTN_EXIT_OK;
}

static enum attn_exit list_backends(struct attn_command *c, const struct attn_paths *paths)
{
    struct attn_roster roster;
    struct attn_roster_wish wish = {.backends = c->backends,
                                    .n_backends = c->n_backends,
                                    .plugins = c->plugins,
                                    .n_plugins = c->n_plugins,
                                    .keep_unavailable = true};
    char why[1024];
    if (attn_worker_check(paths))
        return ATTN_EXIT_INTERNAL;
    enum attn_exit code = attn_roster_load(paths, &wish, &roster, why, sizeof why);
    if (code)
        return attn_complain(code, why);
    if (c->matrix) {
        code = list_matrix(c, paths, &roster);
        attn_roster_free(&roster);
        return code;
    }
    if (roster.count == 0)
        fprintf(stderr,
                "attnbench: there are no plugins in %s: the component 'plugins' of an installation "
                "is missing\n",
                paths->plugins);
    json_t *list = json_array();
    for (size_t b = 0; b < roster.count; b++) {
        const struct attn_backend_info *info = &roster.items[b].info;
        if (c->json) {
            json_array_append_new(
                list, json_pack("{s:s, s:s, s:b, s:s, s:s, s:s, s:o}", "name", info->name, "plugin",
                                roster.items[b].plugin, "available", info->available, "reason",
                                info->reason, "description", info->description, "version",
                                info->version, "options", options_json(info)));
            continue;
        }
        if (info->available)
            printf("%-12s %s%s%s%s\n", info->name, info->description, *info->version ? " (" : "",
                   info->version, *info->version ? ")" : "");
        else
            printf("%-12s not available: %s\n", info->name, info->reason);
        for (uint32_t o = 0; o < info->n_options; o++)
            printf("%-12s   :%s=%s  %s (default %s)\n", "", info->options[o].key,
                   *info->options[o].choices ? info->options[o].choices : "N",
                   info->options[o].help, info->options[o].fallback);
    }
    if (c->json)
        attn_print_json(list);
    else
        json_decref(list);
    attn_roster_free(&roster);
    return ATTN_EXIT_OK;
}

static enum attn_exit list_cases(struct attn_command *c, const struct attn_paths *paths,
                                 size_t first)
{
    struct attn_case_list cases;
    struct attn_selection selection;
    struct attn_suite_wish suite = c->suite;
    suite.cases = c->arguments + first;
    suite.n_cases = c->n_arguments - first;
    char why[1024];
    if (attn_suite_load(paths, &suite, &cases, &selection, why, sizeof why))
        return attn_complain(ATTN_EXIT_USAGE, why);
    attn_print_cases(&cases, c->json ? ATTN_PRINT_JSON : ATTN_PRINT_TABLE);
    attn_shard_note(&suite.shard, cases.count, selection.cases);
    attn_case_list_free(&cases);
    return selection.cases ? ATTN_EXIT_OK : attn_complain(ATTN_EXIT_NOTHING, "no case matches");
}

/* Prints fills or checks: names and their meaning. */
static enum attn_exit list_words(const struct attn_command *c, bool fills)
{
    json_t *list = json_array();
    for (unsigned w = 0; w < (fills ? (unsigned)ATTN_FILL_COUNT : ATTN_CHECK_COUNT); w++) {
        const char *name = fills ? attn_fill_name(w) : attn_check_name(w);
        const char *meaning = fills ? attn_fill_meaning(w) : attn_check_meaning(w);
        if (c->json)
            json_array_append_new(list, json_pack("{s:s, s:s}", "name", name, "meaning", meaning));
        else
            printf("%-13s %s\n", name, meaning);
    }
    if (c->json)
        attn_print_json(list);
    else
        json_decref(list);
    return ATTN_EXIT_OK;
}

enum attn_exit attn_verb_list(struct attn_command *c, const struct attn_paths *paths)
{
    static const char *const topics[] = {"backends", "cases", "fills", "checks", "ops"};
    const char *topic = c->n_arguments ? c->arguments[0] : "backends";
    if (c->matrix && strcmp(topic, "backends") != 0)
        return attn_complain(ATTN_EXIT_USAGE, "--matrix belongs to 'list backends'");
    if (!strcmp(topic, "backends") && c->n_arguments <= 1)
        return list_backends(c, paths);
    if (!strcmp(topic, "cases"))
        return list_cases(c, paths, 1);
    const bool fills = !strcmp(topic, "fills");
    if ((fills || !strcmp(topic, "checks")) && c->n_arguments == 1)
        return list_words(c, fills);
    if (!strcmp(topic, "ops") && c->n_arguments == 1)
        return attn_list_ops(c->json);
    char why[512];
    const char *near = attn_nearest(topic, topics, sizeof topics / sizeof topics[0]);
    if (near && !strcmp(near, topic))
        snprintf(why, sizeof why, "list %s takes no further argument", topic);
    else
        snprintf(why, sizeof why, "'%s' cannot be listed; %s%s%s", topic,
                 near ? "did you mean '" : "legal: backends|cases|fills|checks|ops",
                 near ? near : "", near ? "'?" : "");
    return attn_complain(ATTN_EXIT_USAGE, why);
}
