/* SPDX-License-Identifier: Apache-2.0 */
/* verb_doctor.c - attnbench doctor; verb_calibrate.c has --calibrate. */
#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "host/confine.h"
#include "live/calibrate.h"
#include "run/findings.h"

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

/* What the machine and this installation are like. */
static json_t *machine_json(void)
{
    char strict[512];
    struct attn_finding findings[ATTN_FINDINGS_MAX];
    const size_t n = attn_findings("", findings);
    const bool plots = attn_on_path("gnuplot");
    json_t *machine = json_array();
    for (size_t f = 0; f < n; f++)
        add(machine, findings[f].level, findings[f].what, findings[f].text, findings[f].hint);
    add(machine, plots ? ATTN_LEVEL_OK : ATTN_LEVEL_WARN, "gnuplot",
        plots ? "found" : "missing: reports have no plots", plots ? "" : "install gnuplot-nox");
    const bool counts = attn_on_path("valgrind");
    add(machine, counts ? ATTN_LEVEL_OK : ATTN_LEVEL_WARN, "valgrind",
        counts ? "found" : "missing: no bench --count", counts ? "" : "install valgrind");
    /* Not a WARN: it does not make times worse. */
    attn_confine_describe(ATTN_CONFINE_STRICT, strict, sizeof strict);
    add(machine, strstr(strict, "refused") ? ATTN_LEVEL_UNKNOWN : ATTN_LEVEL_OK, "confinement",
        strict,
        strstr(strict, "refused")
            ? "plugins could do more than harness/host/README.md says of strict"
            : "");
    return machine;
}

static json_t *backends_json(const struct attn_roster *roster)
{
    json_t *backends = json_array();
    for (size_t b = 0; b < roster->count; b++) {
        const struct attn_backend_info *info = &roster->items[b].info;
        json_array_append_new(backends, json_pack("{s:s, s:b, s:s}", "name", info->name,
                                                  "available", info->available, "text",
                                                  !info->available ? info->reason
                                                  : *info->version ? info->version
                                                                   : "nothing is missing"));
    }
    return backends;
}

static void print_all(const json_t *machine, const json_t *backends)
{
    size_t i;
    const json_t *item;
    json_array_foreach(machine, i, item)
    {
        put(item);
    }
    printf("\n");
    json_array_foreach(backends, i, item)
    {
        printf("%-8s %-15s %s\n", json_is_true(json_object_get(item, "available")) ? "OK" : "none",
               json_string_value(json_object_get(item, "name")),
               json_string_value(json_object_get(item, "text")));
    }
    fflush(stdout);
}

/* The findings that --strict does not accept, "governor, steal"; "": there are none. */
static void list_refused(const json_t *machine, char *text, size_t size)
{
    size_t i, used = 0;
    const json_t *item;
    *text = '\0';
    json_array_foreach(machine, i, item)
    {
        const char *level = json_string_value(json_object_get(item, "level"));
        if (used < size && (!strcmp(level, attn_level_name(ATTN_LEVEL_WARN)) ||
                            !strcmp(level, attn_level_name(ATTN_LEVEL_FAIL))))
            used += (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : "",
                                     json_string_value(json_object_get(item, "what")));
    }
}

/* Options that only a calibration has; NULL: none is given. */
static const char *misplaced(const struct attn_command *c)
{
    return c->calibrate                         ? NULL
           : c->n_backends > 0                  ? "backend"
           : c->pair_s != ATTN_PAIR_LEAST_S     ? "pair-time"
           : c->calibrate_s != ATTN_CALIBRATE_S ? "time"
                                                : NULL;
}

static enum attn_exit check_usage(const struct attn_command *c)
{
    char why[128];
    if (misplaced(c)) {
        snprintf(why, sizeof why, "--%s needs --calibrate", misplaced(c));
        return attn_complain(ATTN_EXIT_USAGE, why);
    }
    if (c->n_arguments)
        return attn_complain(ATTN_EXIT_USAGE, "doctor takes no arguments");
    if (c->n_backends > 1 || (c->n_backends == 1 && strchr(c->backends[0], ':')))
        return attn_complain(ATTN_EXIT_USAGE, "--calibrate takes one backend, without options");
    return ATTN_EXIT_OK;
}

enum attn_exit attn_verb_doctor(struct attn_command *c, const struct attn_paths *paths)
{
    struct attn_roster roster;
    struct attn_roster_wish wish = {
        .plugins = c->plugins, .n_plugins = c->n_plugins, .keep_unavailable = true};
    char why[1024];
    enum attn_exit code = check_usage(c);
    if (code)
        return code;
    if (attn_worker_check(paths))
        return ATTN_EXIT_INTERNAL;
    code = attn_roster_load(paths, &wish, &roster, why, sizeof why);
    if (code)
        return attn_complain(code, why);
    json_t *machine = machine_json(), *backends = backends_json(&roster), *calibration = NULL;
    if (!c->json)
        print_all(machine, backends);
    if (c->calibrate)
        code = attn_doctor_calibrate(c, paths, &roster, &calibration);
    attn_roster_free(&roster);
    if (c->json) {
        json_t *all = json_pack("{s:O, s:O}", "machine", machine, "backends", backends);
        if (calibration)
            json_object_set(all, "calibration", calibration);
        attn_print_json(all);
    }
    char refused[512];
    list_refused(machine, refused, sizeof refused);
    if (c->settings.strict && *refused) {
        snprintf(why, sizeof why, "exit 5: %s: --strict accepts no WARN and no FAIL", refused);
        code = attn_exit_stronger(code, attn_complain(ATTN_EXIT_INCONCLUSIVE, why));
    }
    json_decref(machine);
    json_decref(backends);
    json_decref(calibration);
    return code;
}
