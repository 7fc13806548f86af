/* SPDX-License-Identifier: Apache-2.0 */
/* begin.c - backends and cases of a command. */
#include <sched.h>
#include <stdio.h>

#include "cli/command.h"

/* Every case would fail on the same mistake: it is told once, before any is run. */
static bool too_many_threads(int threads, char *why, size_t size)
{
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) || threads <= CPU_COUNT(&allowed))
        return false;
    snprintf(why, size, "--threads: %d were asked for, but only %d processors may be used", threads,
             CPU_COUNT(&allowed));
    return true;
}

/* A backend that is not there is no reason to stop, but none to be silent either. */
static void report_absent(const struct attn_roster *roster)
{
    for (size_t i = 0; i < roster->absent; i++) {
        const struct attn_backend_info *info = &roster->items[roster->count + i].info;
        fprintf(stderr, "attnbench: backend %s takes no part: %s\n", info->name, info->reason);
    }
}

enum attn_exit attn_session_begin(struct attn_command *c, const struct attn_places *places,
                                  struct attn_session *session)
{
    char why[1024];
    *session = (struct attn_session){.settings = c->settings, .places = places, .results = -1};
    session->began = attn_now();
    session->records = json_array();
    struct attn_roster_wish wish = {.backends = c->backends,
                                    .n_backends = c->n_backends,
                                    .plugins = c->plugins,
                                    .n_plugins = c->n_plugins};
    struct attn_suite_wish suite = c->suite;
    suite.cases = c->arguments;
    suite.n_cases = c->n_arguments;
    if (!session->records)
        return attn_complain(ATTN_EXIT_INTERNAL, "no memory");
    if (too_many_threads(c->settings.threads, why, sizeof why) ||
        attn_suite_load(places, &suite, &session->cases, why, sizeof why) ||
        attn_roster_load(places, &wish, &session->roster, why, sizeof why))
        return attn_complain(ATTN_EXIT_USAGE, why);
    report_absent(&session->roster);
    if (session->cases.count == 0)
        return attn_complain(ATTN_EXIT_NOTHING, "no case matches");
    if (session->roster.count == 0)
        return attn_complain(ATTN_EXIT_NOTHING, "no backend can run on this machine");
    return ATTN_EXIT_OK;
}
