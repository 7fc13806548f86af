/* SPDX-License-Identifier: Apache-2.0 */
/* roster.c - from plugin files to the list of backends that take part. */
#include "run/roster.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "case/case.h"
#include "case/regular.h"
#include "case/text.h"

enum { MAX_CONTESTANTS = 256 };

/* For a plugin to say what it is to one who only asks for a list. Nothing heavy is loaded for it.
 */
#define LIST_TIMEOUT_S 10.0

/* One more backend, or NULL with the reason. */
static struct attn_contestant *add(struct attn_roster *roster, char *why, size_t size)
{
    if (roster->count == MAX_CONTESTANTS) {
        snprintf(why, size, "more than %d backends", MAX_CONTESTANTS);
        return NULL;
    }
    struct attn_contestant *grown =
        realloc(roster->items, (roster->count + 1) * sizeof *roster->items);
    if (!grown) {
        snprintf(why, size, "no memory for a list of backends");
        return NULL;
    }
    roster->items = grown;
    struct attn_contestant *c = &grown[roster->count++];
    memset(c, 0, sizeof *c);
    return c;
}

static struct attn_contestant *find(const struct attn_roster *roster, const char *name)
{
    for (size_t i = 0; i < roster->count; i++)
        if (!strcmp(roster->items[i].info.name, name))
            return &roster->items[i];
    return NULL;
}

/* "dir/name.so" -> "name". */
static void stem_of(const char *path, char *stem, size_t size)
{
    const char *slash = strrchr(path, '/');
    snprintf(stem, size, "%s", slash ? slash + 1 : path);
    char *dot = strrchr(stem, '.');
    if (dot)
        *dot = '\0';
    attn_text_clean(stem);
}

static bool is_lost(enum attn_status status)
{
    return status == ATTN_CRASH || status == ATTN_TIMEOUT || status == ATTN_OOM;
}

/* Splits NAME=FILE. Returns the file; `label` gets the name, or "" if there is none. */
static const char *split_label(const char *word, char label[32])
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789_";
    const size_t length = strspn(word, letters);
    const bool named = length > 0 && length < 32 && word[length] == '=' && word[0] >= 'a';
    snprintf(label, 32, "%.*s", named ? (int)length : 0, word);
    return named ? word + length + 1 : word;
}

/* Gives a backend the name that the command line has for it. Returns 0, or -1: it is too long. */
static int rename_backend(struct attn_contestant *c, bool only)
{
    char name[64];
    memcpy(c->offered, c->info.name, sizeof c->offered);
    if (!*c->label)
        return 0;
    const int n = only ? snprintf(name, sizeof name, "%s", c->label)
                       : snprintf(name, sizeof name, "%s_%s", c->label, c->offered);
    snprintf(c->info.name, sizeof c->info.name, "%.31s", name);
    return n < (int)sizeof c->info.name ? 0 : -1;
}

/* What a variable, lines of NAME=TEXT, says of a backend. The Python package sets two for its
 * functions: a rerun of one is "attnbench verify TARGET", which makes the backend again. */
static void look_up(const char *variable, const char *name, char text[ATTN_PATH_MAX])
{
    const size_t n = strlen(name);
    for (const char *line = getenv(variable); line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, n) == 0 && line[n] == '=')
            snprintf(text, ATTN_PATH_MAX, "%.*s", (int)strcspn(line + n + 1, "\n"), line + n + 1);
    }
}

/* `word` is a file or, if it must be one, NAME=FILE. */
static enum attn_exit add_plugin(const struct attn_paths *paths, const char *word,
                                 const struct attn_roster_wish *wish, bool must,
                                 struct attn_roster *roster, char *why, size_t size)
{
    char label[32] = "";
    const char *path = must ? split_label(word, label) : word;
    struct attn_plugin_info *info = calloc(1, sizeof *info);
    if (!info) {
        snprintf(why, size, "no memory to look into %s", path);
        return ATTN_EXIT_USAGE;
    }
    char worker[ATTN_PATH_MAX];
    attn_paths_worker(paths, path, worker);
    struct attn_worker_config config = {.worker_path = worker,
                                        .plugin_path = path,
                                        .options = "",
                                        .threads = 1,
                                        .rss_limit = wish->memory,
                                        .timeout_s =
                                            wish->timeout_s > 0 ? wish->timeout_s : LIST_TIMEOUT_S};
    struct attn_outcome outcome = attn_worker_inspect(&config, info);
    enum attn_exit result = ATTN_EXIT_USAGE;
    if (outcome.status != ATTN_PASS) {
        if (outcome.short_of) {
            snprintf(why, size, "%s: %s", path, outcome.reason);
            goto out;
        }
        if (must) {
            const bool lost = is_lost(outcome.status);
            snprintf(why, size, "%s%s%s", lost ? path : "", lost ? ": " : "", outcome.reason);
            result = lost ? ATTN_EXIT_INCOMPLETE : ATTN_EXIT_USAGE;
            goto out;
        }
        info->n_backends = 1;
        stem_of(path, info->backends[0].name, sizeof info->backends[0].name);
        snprintf(info->backends[0].reason, sizeof info->backends[0].reason, "%.255s",
                 outcome.reason);
    }
    for (uint32_t b = 0; b < info->n_backends; b++) {
        struct attn_contestant next = {.info = info->backends[b],
                                       .named = must,
                                       .lost =
                                           is_lost(outcome.status) ? outcome.status : ATTN_PASS};
        memcpy(next.label, label, sizeof label);
        if (rename_backend(&next, info->n_backends == 1)) {
            snprintf(why, size, "--plugin %s: the name %s_%s has more than 31 characters", word,
                     label, next.offered);
            goto out;
        }
        const struct attn_contestant *twin = find(roster, next.info.name);
        if (twin) {
            snprintf(why, size, "backend '%s' is offered by both %s and %s%s", twin->info.name,
                     twin->plugin, path,
                     must ? "; --plugin NAME=FILE gives the second one a name" : "");
            goto out;
        }
        struct attn_contestant *c = add(roster, why, size);
        if (!c)
            goto out;
        *c = next;
        snprintf(c->plugin, sizeof c->plugin, "%s", path);
        memcpy(c->worker, worker, sizeof worker);
        look_up("ATTNBENCH_TARGETS", c->info.name, c->target);
        look_up("ATTNBENCH_SOURCES", c->info.name, c->source);
        if (!*c->source && attn_adapter_file(c->plugin, c->offered, c->source)) {
            snprintf(why, size, "no memory for the file of %s", c->info.name);
            goto out;
        }
        if (attn_expected_skips_load(c->plugin, c->offered, &c->skips, &c->n_skips, why, size))
            goto out;
    }
    result = ATTN_EXIT_OK;
out:
    free(info);
    return result;
}

/* Names in a folder; a folder that does not exist has none. Returns 0, or -1 with the reason. */
static int names_in(const char *folder, const char *suffix, char ***names, size_t *n, char *why,
                    size_t size)
{
    if (attn_names_in(folder, suffix, names, n) == 0 || errno != ENOMEM)
        return 0;
    snprintf(why, size, "no memory to look into %s", folder);
    return -1;
}

static int add_folder(const struct attn_paths *paths, const char *folder,
                      const struct attn_roster_wish *wish, struct attn_roster *roster, char *why,
                      size_t size)
{
    char **names;
    size_t n;
    int result = names_in(folder, ".so", &names, &n, why, size);
    for (size_t i = 0; i < n && result == 0; i++) {
        char path[ATTN_PATH_MAX];
        if (attn_path_join(path, folder, names[i]) == 0)
            result = add_plugin(paths, path, wish, false, roster, why, size) ? -1 : 0;
    }
    attn_names_free(names, n);
    return result;
}

static int add_path(const struct attn_paths *paths, const char *list,
                    const struct attn_roster_wish *wish, struct attn_roster *roster, char *why,
                    size_t size)
{
    char *copy = strdup(list), *rest = copy;
    int result = copy ? 0 : -1;
    if (result)
        snprintf(why, size, "no memory for ATTNBENCH_PLUGIN_PATH");
    for (char *folder; result == 0 && (folder = strsep(&rest, ":"));)
        if (*folder)
            result = add_folder(paths, folder, wish, roster, why, size);
    free(copy);
    return result;
}

/* Is NAME.so next to NAME.missing? Then the line is from an earlier installation. */
static bool came_later(const char *missing)
{
    char plugin[ATTN_PATH_MAX];
    snprintf(plugin, sizeof plugin, "%.*s.so", (int)(strrchr(missing, '.') - missing), missing);
    return access(plugin, F_OK) == 0;
}

/* Adds what NAME.missing tells of: why a plugin was left out of this build, and then the names of
 * its backends, one a line. Without any, there is one with the name of the plugin. */
static int add_left_out(const char *path, FILE *file, struct attn_roster *roster, char *why,
                        size_t size)
{
    struct attn_backend_info info;
    char name[sizeof info.name];
    info.reason[0] = '\0';
    if (fgets(info.reason, sizeof info.reason, file))
        info.reason[strcspn(info.reason, "\n")] = '\0';
    if (!fgets(name, sizeof name, file))
        stem_of(path, name, sizeof name);
    do {
        struct attn_contestant *c = add(roster, why, size);
        if (!c)
            return -1;
        snprintf(c->info.name, sizeof c->info.name, "%.*s", (int)strcspn(name, "\n"), name);
        snprintf(c->info.reason, sizeof c->info.reason, "%s", info.reason);
        snprintf(c->plugin, sizeof c->plugin, "%s", path);
        c->missing = true;
    } while (fgets(name, sizeof name, file));
    return 0;
}

static int add_missing(const char *folder, struct attn_roster *roster, char *why, size_t size)
{
    char **names;
    size_t n;
    int result = names_in(folder, ".missing", &names, &n, why, size);
    for (size_t i = 0; i < n && result == 0; i++) {
        char path[ATTN_PATH_MAX];
        if (attn_path_join(path, folder, names[i]) || came_later(path))
            continue;
        const char *reason;
        FILE *file = attn_regular_open(path, &reason);
        if (!file)
            continue;
        result = add_left_out(path, file, roster, why, size);
        fclose(file);
    }
    attn_names_free(names, n);
    return result;
}

/* The backends of the plugin that --plugin or its file's name calls `name`: "two_avx2, two_amx". */
static void offered_by(const struct attn_roster *roster, const char *name, char *text, size_t size)
{
    size_t used = 0;
    *text = '\0';
    for (size_t i = 0; i < roster->count && used < size; i++) {
        const struct attn_contestant *c = &roster->items[i];
        char stem[ATTN_PATH_MAX];
        stem_of(c->plugin, stem, sizeof stem);
        if (!c->missing && strcmp(*c->label ? c->label : stem, name) == 0)
            used +=
                (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : "", c->info.name);
    }
}

/* Adapters in Python come from these folders. One that is not there has no backends. */
static void note_lost_folder(char *why, size_t size)
{
    const size_t used = strlen(why);
    char folder[ATTN_PATH_MAX];
    struct stat about;
    for (const char *list = getenv("ATTNBENCH_PYTHON_ADAPTERS"); list && *list;
         list += *list == ':') {
        snprintf(folder, sizeof folder, "%.*s", (int)strcspn(list, ":"), list);
        list += strcspn(list, ":");
        if (*folder && (stat(folder, &about) || !S_ISDIR(about.st_mode))) {
            snprintf(why + used, size - used, "; '%s' of ATTNBENCH_PYTHON_ADAPTERS is no folder",
                     folder);
            return;
        }
    }
}

void attn_roster_unknown(const struct attn_roster *roster, const char *name, char *why, size_t size)
{
    const char *names[MAX_CONTESTANTS];
    char offered[256];
    for (size_t i = 0; i < roster->count; i++)
        names[i] = roster->items[i].info.name;
    offered_by(roster, name, offered, sizeof offered);
    const char *near = attn_nearest(name, names, roster->count);
    if (*offered)
        snprintf(why, size, "there is no backend '%s'; the plugin '%s' offers %s", name, name,
                 offered);
    else if (near)
        snprintf(why, size, "there is no backend '%s'; did you mean '%s'?", name, near);
    else
        snprintf(why, size, "there is no backend '%s'; 'attnbench list backends' names them", name);
    note_lost_folder(why, size);
}

/* Does the backend accept the options? Only its plugin can tell, so a worker is asked. Anything
 * else that goes wrong there becomes a verdict of its cases. */
static int check_options(const struct attn_roster_wish *wish, const struct attn_contestant *c,
                         char *why, size_t size)
{
    struct attn_worker_config config = {.worker_path = c->worker,
                                        .plugin_path = c->plugin,
                                        .backend = c->offered,
                                        .options = c->options,
                                        .threads = 1,
                                        .rss_limit = wish->memory,
                                        .timeout_s = wish->timeout_s};
    struct attn_worker *worker;
    if (!*c->options || !c->info.available)
        return 0;
    struct attn_outcome outcome = attn_worker_start(&config, &worker);
    attn_worker_stop(worker);
    if (outcome.status != ATTN_ERROR)
        return 0;
    snprintf(why, size, "-b %s:%s: %s", c->info.name, c->options, outcome.reason);
    return -1;
}

/* A copy of a backend with the options that -b gives it. Returns 0, or -1 with the reason. */
static int enter(struct attn_roster *chosen, const struct attn_contestant *from,
                 const char *options, char *why, size_t size)
{
    struct attn_contestant *to = add(chosen, why, size);
    if (!to)
        return -1;
    *to = *from;
    to->asked = true;
    to->skips = from->n_skips ? malloc(from->n_skips * sizeof *from->skips) : NULL;
    if (from->n_skips && !to->skips) {
        to->n_skips = 0;
        snprintf(why, size, "no memory for the expected skips of %s", from->info.name);
        return -1;
    }
    if (to->skips)
        memcpy(to->skips, from->skips, from->n_skips * sizeof *from->skips);
    snprintf(to->options, sizeof to->options, "%s", options);
    if (strlen(options) < sizeof to->options)
        return 0;
    snprintf(why, size, "-b %s: more than %zu bytes of options", from->info.name,
             sizeof to->options - 1);
    return -1;
}

/* Keeps the backends that -b names, in that order, with their options. The same backend may be
 * named twice with different options. */
static int choose(struct attn_roster *roster, const struct attn_roster_wish *wish, char *why,
                  size_t size)
{
    struct attn_roster chosen = {0};
    for (size_t w = 0; w < wish->n_backends; w++) {
        char name[64];
        const char *colon = strchr(wish->backends[w], ':');
        size_t length = colon ? (size_t)(colon - wish->backends[w]) : strlen(wish->backends[w]);
        snprintf(name, sizeof name, "%.*s", (int)length, wish->backends[w]);
        const struct attn_contestant *from = find(roster, name);
        if (!from)
            attn_roster_unknown(roster, name, why, size);
        if (!from || enter(&chosen, from, colon ? colon + 1 : "", why, size) ||
            check_options(wish, &chosen.items[chosen.count - 1], why, size)) {
            attn_roster_free(&chosen);
            return -1;
        }
    }
    attn_roster_free(roster);
    *roster = chosen;
    return 0;
}

/* Without -b: everything that can run, or, if --plugin names files, what these offer. */
static bool takes_part(const struct attn_contestant *c, const struct attn_roster_wish *wish)
{
    if (wish->keep_unavailable)
        return true;
    if (!c->info.available && !c->lost)
        return false;
    return c->named || wish->n_plugins == 0;
}

/* Keeps the name and the reason of a backend that cannot run here. Without memory it is left out.
 */
static void note_absent(struct attn_roster *roster, const struct attn_contestant *c,
                        const struct attn_roster_wish *wish)
{
    if (c->info.available || c->lost || (wish->n_plugins > 0 && !c->named))
        return;
    struct attn_absent *grown =
        realloc(roster->absent, (roster->n_absent + 1) * sizeof *roster->absent);
    if (!grown)
        return;
    roster->absent = grown;
    struct attn_absent *absent = &grown[roster->n_absent++];
    memcpy(absent->name, c->info.name, sizeof absent->name);
    memcpy(absent->reason, c->info.reason, sizeof absent->reason);
    absent->missing = c->missing;
}

enum attn_exit attn_roster_load(const struct attn_paths *paths, const struct attn_roster_wish *wish,
                                struct attn_roster *roster, char *why, size_t size)
{
    struct attn_roster found = {0};
    enum attn_exit code = ATTN_EXIT_USAGE;
    const char *extra = getenv("ATTNBENCH_PLUGIN_PATH");
    if (add_folder(paths, paths->plugins, wish, &found, why, size) ||
        (extra && add_path(paths, extra, wish, &found, why, size)))
        goto failed;
    for (size_t i = 0; i < wish->n_plugins; i++) {
        const enum attn_exit refused =
            add_plugin(paths, wish->plugins[i], wish, true, &found, why, size);
        if (refused) {
            code = refused;
            goto failed;
        }
    }
    if (add_missing(paths->plugins, &found, why, size))
        goto failed;
    if (wish->n_backends) {
        if (choose(&found, wish, why, size))
            goto failed;
    } else {
        size_t kept = 0;
        for (size_t i = 0; i < found.count; i++) {
            if (takes_part(&found.items[i], wish)) {
                found.items[kept++] = found.items[i];
                continue;
            }
            note_absent(&found, &found.items[i], wish);
            free(found.items[i].skips);
        }
        found.count = kept;
    }
    *roster = found;
    return ATTN_EXIT_OK;
failed:
    attn_roster_free(&found);
    return code;
}

void attn_roster_free(struct attn_roster *roster)
{
    for (size_t i = 0; i < roster->count; i++)
        free(roster->items[i].skips);
    free(roster->items);
    free(roster->absent);
    memset(roster, 0, sizeof *roster);
}
