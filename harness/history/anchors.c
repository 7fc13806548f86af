/* SPDX-License-Identifier: Apache-2.0 */
/* anchors.c - chooses the anchor of a case. */
#include "history/anchors.h"

#include <stdio.h>
#include <string.h>

#include "report/text.h"

bool attn_anchor_named(const char *backend, const char *name)
{
    const size_t n = strlen(name);
    return n > 0 && strncmp(backend, name, n) == 0 && (backend[n] == '\0' || backend[n] == ':');
}

/* What speaks for a backend as the anchor: in how many runs it was timed, and its last time. */
struct claim {
    double runs, time;
};

static bool is_better(struct claim a, struct claim b)
{
    return a.runs > b.runs || (a.runs == b.runs && a.time > b.time);
}

/* Counts a run for a name; the time of the last one stays. Results come by run. */
static void count(json_t *claims, const char *name, const char *run, double time)
{
    json_t *claim = json_object_get(claims, name);
    if (!*name)
        return;
    if (!claim) {
        json_object_set_new(claims, name,
                            json_pack("{s:s,s:i,s:f}", "run", run, "runs", 1, "time", time));
        return;
    }
    const double runs = attn_field_number(claim, "runs");
    if (strcmp(attn_field_text(claim, "run"), run) != 0)
        json_object_set_new(claim, "runs", json_real(runs + 1));
    json_object_set_new(claim, "run", json_string(run));
    json_object_set_new(claim, "time", json_real(time));
}

static const char *best_of(json_t *claims)
{
    const char *best = "", *name;
    struct claim most = {0, 0};
    json_t *item;
    json_object_foreach(claims, name, item)
    {
        const struct claim claim = {attn_field_number(item, "runs"),
                                    attn_field_number(item, "time")};
        if (is_better(claim, most)) {
            most = claim;
            best = name;
        }
    }
    return best;
}

static bool is_asked_for(const char *backend, const struct attn_history_wish *wish)
{
    for (size_t b = 0; b < wish->n_backends; b++)
        if (attn_anchor_named(backend, wish->backends[b]))
            return true;
    return false;
}

void attn_anchor_choose(const json_t *results, const struct attn_history_wish *wish,
                        char anchor[ATTN_ANCHOR_MAX])
{
    json_t *named = json_object(), *timed = json_object(), *row;
    size_t i;
    json_array_foreach(results, i, row)
    {
        const char *run = attn_field_text(row, "run"), *backend = attn_field_text(row, "backend");
        const json_t *first = json_array_get(json_object_get(row, "rounds"), 0);
        if (wish->n_backends == 0 || is_asked_for(backend, wish))
            count(named, attn_field_text(row, "anchor"), run, 0);
        if (first && !is_asked_for(backend, wish))
            count(timed, backend, run, json_number_value(first));
    }
    const char *best = wish->anchor ? wish->anchor : best_of(named);
    if (!*best)
        best = best_of(timed);
    snprintf(anchor, ATTN_ANCHOR_MAX, "%s", best);
    json_decref(named);
    json_decref(timed);
}
