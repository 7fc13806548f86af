/* SPDX-License-Identifier: Apache-2.0 */
/* begin.c - backends and cases of a command. */
#include "cli/command.h"

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
    if (attn_suite_load(places, &suite, &session->cases, why, sizeof why) ||
        attn_roster_load(places, &wish, &session->roster, why, sizeof why))
        return attn_complain(ATTN_EXIT_USAGE, why);
    if (session->cases.count == 0)
        return attn_complain(ATTN_EXIT_NOTHING, "no case matches");
    if (session->roster.count == 0)
        return attn_complain(ATTN_EXIT_NOTHING, "no backend can run on this machine; 'attnbench "
                                                "doctor' says why");
    return ATTN_EXIT_OK;
}
