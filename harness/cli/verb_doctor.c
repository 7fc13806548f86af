/* SPDX-License-Identifier: Apache-2.0 */
/* verb_doctor.c - attnbench doctor. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"
#include "run/findings.h"

/* Is a program on PATH? */
static bool on_path(const char *program)
{
    const char *path = getenv("PATH");
    char *copy = path ? strdup(path) : NULL, *rest = copy, file[ATTN_PATH_MAX];
    bool found = false;
    for (char *folder; copy && !found && (folder = strsep(&rest, ":"));)
        found = attn_path_join(file, folder, program) == 0 && access(file, X_OK) == 0;
    free(copy);
    return found;
}

static void add(json_t *list, enum attn_level level, const char *what, const char *text,
                const char *hint)
{
    json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:s}", "level", attn_level_name(level),
                                          "what", what, "text", text, "hint", hint));
}

static void put(const json_t *item)
{
    const char *hint = json_string_value(json_object_get(item, "hint"));
    printf("%-8s %-15s %s\n", json_string_value(json_object_get(item, "level")),
           json_string_value(json_object_get(item, "what")),
           json_string_value(json_object_get(item, "text")));
    if (hint && *hint)
        printf("%-24s %s\n", "", hint);
}

enum attn_exit attn_verb_doctor(struct attn_command *c, const struct attn_paths *paths)
{
    struct attn_finding findings[ATTN_FINDINGS_MAX];
    struct attn_roster roster;
    struct attn_roster_wish wish = {
        .plugins = c->plugins, .n_plugins = c->n_plugins, .keep_unavailable = true};
    char why[1024];
    if (c->n_arguments)
        return attn_complain(ATTN_EXIT_USAGE, "doctor takes no arguments");
    if (attn_worker_check(paths))
        return ATTN_EXIT_INTERNAL;
    const enum attn_exit code = attn_roster_load(paths, &wish, &roster, why, sizeof why);
    if (code)
        return attn_complain(code, why);
    const size_t n = attn_findings("", findings);
    json_t *machine = json_array(), *backends = json_array();
    for (size_t f = 0; f < n; f++)
        add(machine, findings[f].level, findings[f].what, findings[f].text, findings[f].hint);
    const bool plots = on_path("gnuplot");
    add(machine, plots ? ATTN_LEVEL_OK : ATTN_LEVEL_WARN, "gnuplot",
        plots ? "found" : "missing: reports have no plots", plots ? "" : "install gnuplot-nox");
    for (size_t b = 0; b < roster.count; b++) {
        const struct attn_backend_info *info = &roster.items[b].info;
        json_array_append_new(backends, json_pack("{s:s, s:b, s:s}", "name", info->name,
                                                  "available", info->available, "text",
                                                  !info->available ? info->reason
                                                  : *info->version ? info->version
                                                                   : "nothing is missing"));
    }
    attn_roster_free(&roster);
    if (c->json) {
        json_t *all = json_pack("{s:O, s:O}", "machine", machine, "backends", backends);
        json_dumpf(all, stdout, JSON_INDENT(2));
        printf("\n");
        json_decref(all);
    } else {
        size_t i;
        json_t *item;
        json_array_foreach(machine, i, item)
        {
            put(item);
        }
        printf("\n");
        json_array_foreach(backends, i, item)
        {
            printf("%-8s %-15s %s\n",
                   json_is_true(json_object_get(item, "available")) ? "OK" : "none",
                   json_string_value(json_object_get(item, "name")),
                   json_string_value(json_object_get(item, "text")));
        }
    }
    json_decref(machine);
    json_decref(backends);
    return ATTN_EXIT_OK;
}
