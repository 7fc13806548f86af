/* SPDX-License-Identifier: Apache-2.0 */
/* begin.c - loads the backends and cases of a command. */
#include <errno.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cli/command.h"
#include "host/memory.h"

/* Of a run with one worker, 20 are open at once; a plugin opens files, too. */
enum { FILES_LEAST = 64 };

/* Are there as many processors as threads? */
static int check_threads(int threads, char *why, size_t size)
{
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) || threads <= CPU_COUNT(&allowed))
        return 0;
    snprintf(why, size, "--threads %d: only %d processors may be used", threads,
             CPU_COUNT(&allowed));
    return -1;
}

/* Allows this program and its workers as many open files as they need. Returns 0, or -1: a limit
 * is in the way. */
static int raise_files(char *why, size_t size)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur >= FILES_LEAST)
        return 0;
    const rlim_t allowed = files.rlim_cur;
    files.rlim_cur = FILES_LEAST;
    if (setrlimit(RLIMIT_NOFILE, &files) == 0)
        return 0;
    snprintf(why, size, "'ulimit -n' allows %llu open files; %d are needed",
             (unsigned long long)allowed, FILES_LEAST);
    return -1;
}

int attn_worker_check(const struct attn_paths *paths)
{
    char why[ATTN_PATH_MAX + 128];
    if (access(paths->worker, X_OK) != 0)
        snprintf(why, sizeof why, "%s cannot be run: %s", paths->worker, strerror(errno));
    else if (raise_files(why, sizeof why) == 0)
        return 0;
    attn_complain(ATTN_EXIT_INTERNAL, why);
    return -1;
}

/* Says what is assumed where the kernel does not say how much memory there is. */
static void name_memory(const struct attn_settings *settings)
{
    if (!settings->memory && !attn_memory_is_told())
        fprintf(stderr,
                "attnbench: /proc/meminfo does not say what memory is available; %.1f GiB are "
                "assumed, unless --memory says otherwise\n",
                ldexp((double)attn_memory_available(), -30));
}

/* Says which backends of this build do not take part, though nobody left them out. */
static void name_absent(const struct attn_roster *roster)
{
    for (size_t b = 0; b < roster->n_absent; b++)
        if (!roster->absent[b].missing)
            fprintf(stderr, "attnbench: without %s: %s\n", roster->absent[b].name,
                    roster->absent[b].reason);
}

static int load_cases(struct attn_session *session, const struct attn_suite_wish *suite, char *why,
                      size_t size)
{
    return attn_suite_load(session->paths, suite, &session->cases, &session->selection, why, size);
}

/* Does the word of --plugin, FILE or NAME=FILE, mean this file? */
static bool is_plugin(const char *word, const char *file)
{
    const size_t w = strlen(word), n = strlen(file);
    return w >= n && strcmp(word + w - n, file) == 0 && (w == n || word[w - n - 1] == '=');
}

/* Names the plugins that were given, of which -b asks for nothing. */
static void name_unasked(const struct attn_command *c, const struct attn_roster *roster)
{
    for (size_t p = 0; p < c->n_plugins && c->n_backends > 0; p++) {
        bool any = false;
        for (size_t b = 0; b < roster->count; b++)
            any = any || is_plugin(c->plugins[p], roster->items[b].plugin);
        if (!any)
            fprintf(stderr, "attnbench: --plugin %s: -b asks for none of its backends\n",
                    c->plugins[p]);
    }
}

/* Says that no random case can be checked. */
static enum attn_exit name_no_draw(const struct attn_draws *draws)
{
    char line[640];
    snprintf(line, sizeof line,
             "exit 7: nothing can be checked: random cases drawn: %zu, taken by a backend: 0; %s%s",
             draws->drawn, *draws->refusal ? "last refusal: " : "",
             *draws->refusal ? draws->refusal : draws->ended);
    return attn_interrupted ? ATTN_EXIT_NOTHING : attn_complain(ATTN_EXIT_NOTHING, line);
}

enum attn_exit attn_session_begin(struct attn_command *c, const struct attn_paths *paths,
                                  struct attn_session *session)
{
    char why[1024];
    *session = (struct attn_session){.settings = c->settings, .paths = paths};
    session->began = attn_now();
    session->records = json_array();
    struct attn_roster_wish wish = {.backends = c->backends,
                                    .n_backends = c->n_backends,
                                    .plugins = c->plugins,
                                    .n_plugins = c->n_plugins,
                                    .timeout_s = c->settings.timeout_s,
                                    .memory = c->settings.memory};
    struct attn_suite_wish suite = c->suite;
    suite.cases = c->arguments;
    suite.n_cases = c->n_arguments;
    suite.session = session;
    if (!session->records)
        return attn_complain(ATTN_EXIT_INTERNAL, "no memory");
    if (attn_worker_check(paths))
        return ATTN_EXIT_INTERNAL;
    if (check_threads(c->settings.threads, why, sizeof why) ||
        (suite.fuzz == 0 && load_cases(session, &suite, why, sizeof why)))
        return attn_complain(ATTN_EXIT_USAGE, why);
    const enum attn_exit code = attn_roster_load(paths, &wish, &session->roster, why, sizeof why);
    if (code)
        return attn_complain(code, why);
    name_absent(&session->roster);
    name_unasked(c, &session->roster);
    name_memory(&c->settings);
    session->shard = suite.shard;
    /* The backends are asked about random cases. */
    if (suite.fuzz > 0 && load_cases(session, &suite, why, sizeof why))
        return attn_complain(ATTN_EXIT_USAGE, why);
    if (suite.fuzz > 0 && session->draws.taken == 0)
        return name_no_draw(&session->draws);
    if (session->selection.cases == 0)
        return attn_complain(ATTN_EXIT_NOTHING, "no case matches");
    attn_shard_note(&session->shard, session->cases.count, session->selection.cases);
    if (session->roster.count == 0)
        return attn_complain(ATTN_EXIT_NOTHING, "no backend can run on this machine; 'attnbench "
                                                "doctor' says why");
    return ATTN_EXIT_OK;
}
