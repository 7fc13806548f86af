/* SPDX-License-Identifier: Apache-2.0 */
/* matrix.c - asks every backend about the grid. */
#include "run/matrix.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pack/make.h"
#include "run/entry.h"
#include "run/seat.h"

static const char *const types[] = {"f64", "f32", "f16", "bf16"};
enum { N_TYPES = sizeof types / sizeof *types };

struct column {
    struct attn_seat seat;
    char reason[1024]; /* why it is not asked, or not asked again; "": it is asked */
    unsigned rules;    /* for empty rows: bit r: a plan declared enum attn_empty_row r */
    bool run_failed;   /* not run again: it may be a hang */
};

/* An answer that is neither yes nor no ends the questions to this backend, and the column says why:
 * a hang would cost the whole time limit for every problem. */
static void give_up(struct column *column, const struct attn_outcome *outcome, const char *line)
{
    snprintf(column->reason, sizeof column->reason, "%s: %s, on '%.400s'; not asked again",
             attn_status_name(outcome->status), outcome->reason, line);
}

/* The rule that the plan of a problem with an empty row declares. The problem is run, because
 * numerics belong to a plan. Whether the result is right is the matter of verification. */
static void ask_rule(struct column *column, struct attn_instance *instance)
{
    struct attn_plan_info info;
    double seconds;
    if (column->run_failed)
        return;
    const struct attn_outcome outcome =
        attn_worker_verify(column->seat.worker, instance, ATTN_PLACE_END, 1, &info, &seconds);
    attn_seat_after(&column->seat, &outcome);
    column->run_failed = outcome.status != ATTN_PASS;
    if (outcome.status == ATTN_PASS && info.has_numerics)
        column->rules |= 1u << info.numerics.empty_row;
}

/* One answer; null if the backend is not asked. */
static json_t *ask(struct column *column, const struct attn_feature *feature,
                   struct attn_instance *instance, const char *line)
{
    if (*column->reason)
        return json_null();
    const struct attn_outcome outcome = attn_seat_supports(&column->seat, instance);
    if (outcome.status != ATTN_PASS && outcome.status != ATTN_SKIP) {
        give_up(column, &outcome, line);
        return json_null();
    }
    if (outcome.status == ATTN_PASS && feature->has_empty_row)
        ask_rule(column, instance);
    return json_pack("{s:b, s:s}", "supported", outcome.status == ATTN_PASS, "reason",
                     outcome.reason);
}

/* A case of the grid made real; `line` is its canonical form. */
static struct attn_instance *instance_of(const struct attn_feature *feature, const char *type,
                                         char line[ATTN_CASE_LINE_MAX], char *why, size_t size)
{
    struct attn_case_list list = {0};
    struct attn_instance *instance = NULL;
    const int n = snprintf(line, ATTN_CASE_LINE_MAX, "%s dtype=%s", feature->line, type);
    if (attn_case_parse_line(line, (size_t)n, NULL, 0, &list, why, size) == 0 &&
        attn_instance_create(&list.items[0], 1, &instance, why, size) == 0) {
        instance->problem.flags |= feature->flags;
        attn_case_canonical(&list.items[0], line, ATTN_CASE_LINE_MAX);
    }
    attn_case_list_free(&list);
    return instance;
}

/* A feature in one type, with the answers in the order of the columns. */
static json_t *problem_json(struct column *columns, size_t n, const struct attn_feature *feature,
                            const char *type, char *why, size_t size)
{
    char line[ATTN_CASE_LINE_MAX];
    struct attn_instance *instance = instance_of(feature, type, line, why, size);
    if (!instance)
        return NULL;
    json_t *answers = json_array();
    for (size_t b = 0; b < n; b++)
        json_array_append_new(answers, ask(&columns[b], feature, instance, line));
    attn_instance_free(instance);
    return json_pack("{s:s, s:s, s:o}", "type", type, "case", line, "answers", answers);
}

static json_t *feature_json(struct column *columns, size_t n, const struct attn_feature *feature,
                            char *why, size_t size)
{
    json_t *problems = json_array();
    for (size_t t = 0; t < N_TYPES; t++) {
        json_t *problem = problem_json(columns, n, feature, types[t], why, size);
        if (!problem || json_array_append_new(problems, problem)) {
            json_decref(problems);
            return NULL;
        }
    }
    return json_pack("{s:s, s:s, s:b, s:o}", "group", feature->group, "feature", feature->name,
                     "deterministic", (feature->flags & ATTN_FLAG_DETERMINISTIC) != 0, "problems",
                     problems);
}

static json_t *rules_json(unsigned rules)
{
    static const char *const names[] = {"zero", "nan", "uniform", "inf"};
    json_t *list = json_array();
    for (unsigned r = 0; r < sizeof names / sizeof *names; r++)
        if (rules >> r & 1)
            json_array_append_new(list, json_string(names[r]));
    return list;
}

/* The columns: the backends of the roster, then the absent ones. */
static json_t *backends_json(const struct attn_roster *roster, const struct column *columns)
{
    json_t *list = json_array();
    for (size_t b = 0; b < roster->count + roster->n_absent; b++) {
        const bool absent = b >= roster->count;
        const struct attn_contestant *c = absent ? NULL : &roster->items[b];
        const char *name = absent ? roster->absent[b - roster->count].name : c->info.name;
        json_array_append_new(list, json_pack("{s:s, s:s, s:b, s:s, s:s, s:o}", "name", name,
                                              "options", absent ? "" : c->options, "available",
                                              !absent && c->info.available, "reason",
                                              columns[b].reason, "exactness",
                                              absent ? "" : attn_exactness_name(c->info.exactness),
                                              "empty_rows", rules_json(columns[b].rules)));
    }
    return list;
}

json_t *attn_matrix_ask(const struct attn_session *session, char *why, size_t size)
{
    const struct attn_roster *roster = &session->roster;
    const size_t n = roster->count + roster->n_absent;
    json_t *features = json_array(), *matrix = NULL;
    struct column *columns = calloc(n + 1, sizeof *columns);
    snprintf(why, size, "no memory for the support matrix");
    bool whole = columns != NULL;
    for (size_t b = 0; columns && b < n; b++) {
        const bool absent = b >= roster->count;
        const struct attn_backend_info *info = absent ? NULL : &roster->items[b].info;
        if (!absent)
            attn_seat_init(&columns[b].seat, session, &roster->items[b]);
        if (absent || !info->available)
            snprintf(columns[b].reason, sizeof columns[b].reason, "%s",
                     absent ? roster->absent[b - roster->count].reason : info->reason);
    }
    for (const struct attn_feature *f = attn_features; whole && f->name && !attn_interrupted; f++)
        whole = json_array_append_new(features, feature_json(columns, n, f, why, size)) == 0;
    if (attn_interrupted) /* the remaining answers say nothing about the backends */
        snprintf(why, size, "interrupted");
    else if (whole)
        matrix = json_pack("{s:o, s:O}", "backends", backends_json(roster, columns), "features",
                           features);
    for (size_t b = 0; columns && b < roster->count; b++)
        attn_seat_free(&columns[b].seat);
    free(columns);
    json_decref(features);
    return matrix;
}
