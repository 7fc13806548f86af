/* SPDX-License-Identifier: Apache-2.0 */
/* verb_live.c - attnbench compare --live A B CASE...: two backends in alternation. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "live/compare.h"

/* What the cases have come to. */
struct tally {
    size_t of[ATTN_PAIRED_UNCLEAR + 1];
    size_t compared;
    bool out_of_time; /* the budget was spent before a verdict */
    enum attn_exit code;
};

/* An option that asks something of stored runs; NULL: there is none. */
static const char *of_stored_runs(const struct attn_command *c)
{
    return c->within                    ? "within"
           : c->compare.backends[0]     ? "backends"
           : c->compare.n_map           ? "map"
           : c->compare.anchor          ? "anchor"
           : c->compare.gate            ? "gate"
           : c->compare.cross           ? "cross"
           : c->compare.discoveries > 0 ? "discoveries"
                                        : NULL;
}

/* The first two arguments name backends, as -b does; the rest are cases. */
static enum attn_exit take_arguments(struct attn_command *c, char *why, size_t size)
{
    const char *const option = of_stored_runs(c);
    if (option) {
        snprintf(why, size, "--%s is for stored runs: leave it out beside --live", option);
        return ATTN_EXIT_USAGE;
    }
    if (c->n_arguments < 3) {
        snprintf(why, size, "compare --live needs two backends, A and B, and at least one case");
        return ATTN_EXIT_USAGE;
    }
    for (size_t i = 0; i < 2; i++)
        c->backends[i] = c->arguments[i];
    c->n_backends = 2;
    c->n_arguments -= 2;
    memmove(c->arguments, c->arguments + 2, c->n_arguments * sizeof *c->arguments);
    return ATTN_EXIT_OK;
}

/* One that computes nothing; NULL: both compute. */
static const char *empty_one(const struct attn_session *session)
{
    for (size_t b = 0; b < session->roster.count; b++)
        if (session->roster.items[b].info.exactness == ATTN_NONE)
            return session->roster.items[b].info.name;
    return NULL;
}

static int compare_all(struct attn_session *session, const struct attn_command *c, json_t *results,
                       struct tally *tally, char *why, size_t size)
{
    const struct attn_live_options options = {
        .margin = c->compare.margin,
        .pair_s = c->pair_s,
        .confine = {(enum attn_confine)c->confine[0], (enum attn_confine)c->confine[1]}};
    struct attn_live_result *result = malloc(sizeof *result);
    int status = result ? 0 : -1;
    if (status)
        snprintf(why, size, "no memory for a comparison");
    if (!c->json)
        attn_live_print_head(session, stdout);
    for (size_t i = 0; i < session->cases.count && status == 0 && !attn_interrupted; i++) {
        status = attn_live_compare(session, &session->cases.items[i], &options, result, why, size);
        if (status)
            break;
        if (c->json)
            json_array_append_new(results, attn_live_json(result));
        else
            attn_live_print(result, stdout);
        fflush(stdout);
        tally->compared += result->compared;
        tally->of[result->paired.verdict] += result->compared;
        tally->out_of_time = tally->out_of_time || result->out_of_time;
        tally->code = attn_exit_stronger(tally->code, attn_live_exit(result));
    }
    free(result);
    return status;
}

static void print_tally(const struct tally *tally)
{
    static const enum attn_paired_verdict order[] = {ATTN_PAIRED_SLOWER, ATTN_PAIRED_UNCLEAR,
                                                     ATTN_PAIRED_SAME, ATTN_PAIRED_FASTER};
    const char *between = "\n";
    for (size_t v = 0; v < sizeof order / sizeof order[0]; v++) {
        if (tally->of[order[v]] == 0)
            continue;
        printf("%s%zu %s", between, tally->of[order[v]], attn_paired_name(order[v]));
        between = ", ";
    }
    printf("\n");
}

static void print_json(json_t *results, const struct tally *tally, double margin,
                       enum attn_exit code)
{
    json_t *counts = json_object();
    for (int v = ATTN_PAIRED_SAME; v <= ATTN_PAIRED_UNCLEAR; v++)
        json_object_set_new(counts, attn_paired_name((enum attn_paired_verdict)v),
                            json_integer((json_int_t)tally->of[v]));
    attn_print_json(json_pack("{s:f, s:O, s:o, s:i}", "margin", margin, "results", results,
                              "counts", counts, "exit", (int)code));
}

enum attn_exit attn_verb_compare_live(struct attn_command *c, const struct attn_paths *paths)
{
    struct attn_session session = {0};
    struct tally tally = {.code = ATTN_EXIT_OK};
    char why[1024];
    enum attn_exit code = take_arguments(c, why, sizeof why);
    if (code)
        return attn_complain(code, why);
    json_t *results = json_array();
    code = attn_session_begin(c, paths, &session);
    if (code)
        goto out;
    const char *empty = empty_one(&session);
    if (empty) {
        snprintf(why, sizeof why,
                 "%s computes nothing, so there is nothing to compare: 'attnbench bench -b %s' "
                 "shows what a call costs",
                 empty, empty);
        code = attn_complain(ATTN_EXIT_USAGE, why);
        goto out;
    }
    if (compare_all(&session, c, results, &tally, why, sizeof why)) {
        code = attn_complain(ATTN_EXIT_INTERNAL, why);
        goto out;
    }
    code = attn_exit_stronger(session.code, tally.code);
    if (code == ATTN_EXIT_OK && tally.compared == 0)
        code = ATTN_EXIT_NOTHING;
    if (c->json)
        print_json(results, &tally, c->compare.margin, code);
    else if (tally.compared > 0)
        print_tally(&tally);
    if (tally.compared == 0 && !attn_interrupted) {
        snprintf(why, sizeof why, "exit %d: no case was compared%s", code,
                 code == ATTN_EXIT_NUMERICS     ? ", as a result is wrong"
                 : code == ATTN_EXIT_INCOMPLETE ? ", as a worker failed"
                                                : "");
        attn_complain(code, why);
    } else if (code == ATTN_EXIT_INCONCLUSIVE && tally.out_of_time) {
        attn_complain(code, "exit 5: the budget was spent before a verdict; a larger --budget may "
                            "tell");
    } else if (!attn_interrupted)
        attn_complain_compared(code, true);
out:
    json_decref(results);
    attn_session_close(&session);
    return code;
}
