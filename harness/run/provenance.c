/* SPDX-License-Identifier: Apache-2.0 */
/* provenance.c - describes a session, and holds two descriptions against each other. */
#include "run/provenance.h"

#include <stdlib.h>
#include <string.h>

#include "report/comparable.h"
#include "results/field.h"
#include "results/record.h"
#include "run/machine.h"

json_t *attn_provenance_json(const struct attn_session *session, const char *verb)
{
    const struct attn_settings *s = &session->settings;
    const unsigned refusals = attn_json_refusals();
    json_t *json =
        json_pack("{s:s, s:o, s:{s:s, s:I, s:I, s:f, s:b}}", "verb", verb, "machine",
                  attn_machine_json(session, &(struct attn_roof){0}, 0), "settings", "cache",
                  !s->cold ? "hot"
                  : s->hot ? "both"
                           : "cold",
                  "fills", (json_int_t)s->fills, "checks", (json_int_t)s->checks, "run_limit_s",
                  s->run_limit_s, "count", s->count);
    if (attn_json_refusals() == refusals)
        return json;
    json_decref(json);
    return NULL;
}

/* Adds a difference to a text that is never longer than its room. */
static void add(char *text, size_t size, const char *what, const char *base, const char *next)
{
    const size_t used = strlen(text);
    snprintf(text + used, size - used, "%s%s is %s, now %s", used ? "; " : "", what, base, next);
}

/* Two values of JSON. Returns how many differ, or -1: no memory. */
static int compare_values(const json_t *base, const json_t *next, const char *what, char *text,
                          size_t size)
{
    if ((!base && !next) || (base && next && json_equal(base, next)))
        return 0;
    const size_t flags = JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(9);
    char *a = base ? json_dumps(base, flags) : strdup("not stated");
    char *b = next ? json_dumps(next, flags) : strdup("not stated");
    const int status = a && b ? 1 : -1;
    if (status == 1)
        add(text, size, what, a, b);
    free(a);
    free(b);
    return status;
}

int attn_provenance_compare(const json_t *base, const json_t *next, char *text, size_t size)
{
    static const struct {
        const char *path, *what;
    } more[] = {{"machine.attnbench.commit", "commit"},
                {"machine.protocol.rounds", "number of rounds"},
                {"settings.cache", "cache"},
                {"settings.fills", "set of fills"},
                {"settings.checks", "set of checks"},
                {"settings.run_limit_s", "run limit"},
                {"settings.count", "count of instructions"},
                {"machine.shard.index", "shard"},
                {"machine.shard.count", "number of shards"}};
    /* A queue gives a job that it starts again other processors of the same kind, and heat says
     * nothing about the work that is left. */
    static const char *const ignored[] = {"affinity", "number of throttling events"};
    const struct attn_run_data a = {.machine = json_object_get(base, "machine")};
    const struct attn_run_data b = {.machine = json_object_get(next, "machine")};
    struct attn_differences differences;
    int count = 0;
    *text = '\0';
    for (size_t m = 0; m < sizeof more / sizeof *more && count >= 0; m++) {
        const int differs =
            compare_values(attn_field_at(base, more[m].path), attn_field_at(next, more[m].path),
                           more[m].what, text, size);
        count = differs < 0 ? -1 : count + differs;
    }
    if (count < 0 || attn_differences_find(&a, &b, NULL, &differences))
        return -1;
    for (size_t d = 0; d < differences.count; d++) {
        const struct attn_difference *difference = &differences.items[d];
        bool counts = true;
        for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++)
            counts = counts && strcmp(difference->what, ignored[i]) != 0;
        if (counts)
            add(text, size, difference->what, difference->base, difference->next);
        count += counts;
    }
    attn_differences_free(&differences);
    return count;
}
