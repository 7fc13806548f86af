/* SPDX-License-Identifier: Apache-2.0 */
/* random_cases.c - draws a case, asks who takes it, keeps it or passes it over. */
#include "run/random_cases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "case/generate.h"
#include "case/xorshift.h"
#include "run/instance.h"
#include "run/progress.h"
#include "run/seat.h"

/* Those who are asked. */
struct panel {
    struct attn_session session; /* the command's, with settings for asking */
    struct attn_draws *draws;
    struct attn_seat *seats; /* one a backend */
    bool *silent;            /* [backends]: it is not asked, or not again */
};

static uint64_t state_of(uint64_t seed)
{
    /* Never 0, and far apart for seeds that are close. */
    uint64_t state = seed * UINT64_C(0x9e3779b97f4a7c15) ^ 1;
    state = state ? state : 1;
    for (int i = 0; i < 8; i++)
        attn_draw(&state);
    return state;
}

static void refuse(struct panel *panel, size_t b, const char *reason)
{
    snprintf(panel->draws->refusal, sizeof panel->draws->refusal, "%s: %.300s",
             panel->session.roster.items[b].info.name, reason);
}

static void panel_free(struct panel *panel)
{
    for (size_t b = 0; b < panel->session.roster.count && panel->seats; b++)
        attn_seat_free(&panel->seats[b]);
    free(panel->seats);
    free(panel->silent);
}

static int panel_begin(struct panel *panel, struct attn_session *session, char *why, size_t size)
{
    const size_t n = session->roster.count;
    *panel = (struct panel){.session = *session,
                            .draws = &session->draws,
                            .seats = calloc(n + 1, sizeof *panel->seats),
                            .silent = calloc(n + 1, sizeof *panel->silent)};
    panel->session.settings.debug = false; /* asking needs no debugger */
    panel->session.began = attn_now();     /* loading plugins is no drawing */
    panel->session.reserved_s = (1 - ATTN_RANDOM_SHARE) * session->settings.budget_s;
    if (!panel->seats || !panel->silent) {
        panel_free(panel);
        snprintf(why, size, "no memory for %zu backends", n);
        return -1;
    }
    for (size_t b = 0; b < n; b++) {
        attn_seat_init(&panel->seats[b], &panel->session, &panel->session.roster.items[b]);
        panel->silent[b] = panel->session.roster.items[b].info.exactness == ATTN_NONE;
        if (panel->silent[b])
            refuse(panel, b, "it computes nothing, so it can be timed, not verified");
    }
    return 0;
}

/* Is anybody left to be asked? */
static bool is_open(const struct panel *panel)
{
    bool open = false;
    for (size_t b = 0; b < panel->session.roster.count; b++)
        open = open || !panel->silent[b];
    return open;
}

/* Does one of them take the case? */
static bool is_taken(struct panel *panel, const struct attn_case *c)
{
    bool taken = false;
    struct attn_instance *instance = attn_instance_blank(&panel->session, c);
    for (size_t b = 0; instance && b < panel->session.roster.count && !taken; b++) {
        if (panel->silent[b])
            continue;
        const struct attn_outcome outcome = attn_seat_supports(&panel->seats[b], instance);
        taken = outcome.status != ATTN_SKIP;
        if (!taken)
            refuse(panel, b, outcome.reason);
        /* No worker could be started: this machine lacks what the backend needs. */
        panel->silent[b] = !taken && !panel->seats[b].worker;
    }
    if (!instance)
        snprintf(panel->draws->refusal, sizeof panel->draws->refusal, "no memory for its operands");
    attn_instance_free(instance);
    return taken;
}

/* Does drawing end before there are enough cases? draws->ended says why. */
static bool is_over(const struct panel *panel, size_t in_vain)
{
    struct attn_draws *draws = panel->draws;
    if (in_vain == ATTN_RANDOM_IN_VAIN)
        snprintf(draws->ended, sizeof draws->ended, "%d in a row were passed over",
                 ATTN_RANDOM_IN_VAIN);
    else if (draws->taken > 0 && attn_session_over(&panel->session))
        snprintf(draws->ended, sizeof draws->ended, "its share of --budget was used up");
    else if (attn_interrupted)
        snprintf(draws->ended, sizeof draws->ended, "it was interrupted");
    else if (!is_open(panel))
        snprintf(draws->ended, sizeof draws->ended, "no backend can be asked");
    return *draws->ended != '\0';
}

static int draw(uint64_t *state, struct attn_case_list *list, char *why, size_t size)
{
    char line[ATTN_CASE_LINE_MAX];
    attn_case_generate(state, false, line, sizeof line);
    return attn_case_parse_line(line, strlen(line), NULL, 0, list, why, size);
}

static int draw_taken(struct panel *panel, uint64_t *state, size_t wanted,
                      struct attn_case_list *list, char *why, size_t size)
{
    struct attn_draws *draws = panel->draws;
    struct attn_progress progress;
    attn_progress_begin(&progress, wanted, 0);
    int result = 0;
    for (size_t in_vain = 0; draws->taken < wanted && !is_over(panel, in_vain);) {
        result = draw(state, list, why, size);
        if (result)
            break;
        attn_progress_drawing(&progress, draws->taken, draws->drawn++);
        in_vain++;
        if (is_taken(panel, &list->items[list->count - 1])) {
            draws->taken++;
            in_vain = 0;
        } else {
            attn_case_free(&list->items[--list->count]);
        }
    }
    attn_progress_clear();
    return result;
}

int attn_random_cases_draw(struct attn_session *session, uint64_t seed, size_t wanted,
                           struct attn_case_list *list, char *why, size_t size)
{
    uint64_t state = state_of(seed);
    if (session) {
        struct panel panel;
        if (panel_begin(&panel, session, why, size))
            return -1;
        const int result = draw_taken(&panel, &state, wanted, list, why, size);
        panel_free(&panel);
        return result;
    }
    int result = 0;
    for (size_t n = 0; n < wanted && result == 0; n++)
        result = draw(&state, list, why, size);
    return result;
}
