/* SPDX-License-Identifier: Apache-2.0 */
/* show.c - finds the cases that were asked for, and shows their history. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "case/case.h"
#include "history/history.h"
#include "history/index.h"
#include "history/print.h"
#include "history/trend.h"
#include "report/text.h"
#include "results/changes.h"

struct showing {
    struct attn_index *index;
    const struct attn_history_wish *wish;
    json_t *cases, *machines; /* of the index */
    json_t *found;            /* histories */
};

/* Adds the ids of cases that are called so. */
static void find_words(const json_t *cases, const char *word, json_t *ids)
{
    static const char *const keys[] = {"id", "name", "case"};
    size_t i;
    json_t *item;
    json_array_foreach(cases, i, item)
    {
        bool same = false;
        for (size_t k = 0; k < 3; k++)
            same = same || strcmp(attn_field_text(item, keys[k]), word) == 0;
        if (same)
            json_object_set_new(ids, attn_field_text(item, "id"), json_true());
    }
}

/* Adds the ids of the cases that a line in the case language means. */
static void find_line(const char *line, json_t *ids)
{
    struct attn_case_list list = {0};
    char why[256], id[ATTN_CASE_ID_LEN + 1];
    if (attn_case_parse_line(line, strlen(line), NULL, 0, &list, why, sizeof why) != 0)
        return;
    for (size_t c = 0; c < list.count; c++) {
        attn_case_id(&list.items[c], id);
        json_object_set_new(ids, id, json_true());
    }
    attn_case_list_free(&list);
}

static void explain_unknown(const json_t *cases, const char *index, const char *word, char *why,
                            size_t size)
{
    const char *near = NULL;
    size_t i;
    json_t *item;
    json_array_foreach(cases, i, item)
    {
        const char *candidates[] = {attn_field_text(item, "name"), near};
        if (*candidates[0])
            near = attn_nearest(word, candidates, near ? 2 : 1);
    }
    snprintf(why, size, "no case of the index '%.200s' is called '%.200s'%s%.100s%s", index, word,
             near ? "; did you mean '" : "", near ? near : "",
             near ? "'?" : "; 'attnbench history' lists them");
}

/* The machines that some results come from. */
static json_t *machines_of(const json_t *all, const json_t *results)
{
    json_t *used = json_object(), *list = json_array(), *item;
    char number[32];
    size_t i;
    json_array_foreach(results, i, item)
    {
        snprintf(number, sizeof number, "%.0f", attn_field_number(item, "machine"));
        json_object_set_new(used, number, json_true());
    }
    json_array_foreach(all, i, item)
    {
        snprintf(number, sizeof number, "%.0f", attn_field_number(item, "machine"));
        if (json_object_get(used, number))
            json_array_append(list, item);
    }
    json_decref(used);
    return list;
}

/* The history of one case, if it has any. Returns 0 or -1. */
static int find_case(struct showing *s, const char *id, char *why, size_t size)
{
    json_t *named = NULL, *results = attn_index_results(s->index, id, why, size);
    if (!results)
        return -1;
    json_t *machines = machines_of(s->machines, results);
    json_t *names = machines ? attn_machines_name(machines, &named) : NULL;
    json_t *history = names ? attn_trend_find(results, names, s->wish) : NULL;
    json_decref(results);
    json_decref(machines);
    json_decref(names);
    if (!history) {
        json_decref(named);
        snprintf(why, size, "no memory for the history");
        return -1;
    }
    json_object_set_new(history, "id", json_string(id));
    json_object_set_new(history, "machines", named);
    if (json_array_size(json_object_get(history, "series")) > 0)
        json_array_append(s->found, history);
    json_decref(history);
    return 0;
}

static enum attn_exit find(struct showing *s, const char *index, char *why, size_t size)
{
    json_t *ids = json_object(), *value;
    const char *id;
    enum attn_exit code = ATTN_EXIT_OK;
    size_t known = 0, i;
    json_t *item;
    find_words(s->cases, s->wish->word, ids);
    if (json_object_size(ids) == 0)
        find_line(s->wish->word, ids);
    json_array_foreach(s->cases, i, item)
    {
        known += json_object_get(ids, attn_field_text(item, "id")) != NULL;
    }
    if (known == 0) {
        explain_unknown(s->cases, index, s->wish->word, why, size);
        code = ATTN_EXIT_NOTHING;
    }
    json_object_foreach(ids, id, value)
    {
        if (!code && find_case(s, id, why, size) != 0)
            code = ATTN_EXIT_INTERNAL;
    }
    if (!code && json_array_size(s->found) == 0) {
        snprintf(why, size,
                 "no result of '%.200s' %s%.100s%s in the same run, threads and cache state%s",
                 s->wish->word,
                 s->wish->anchor ? "has the anchor '" : "has another backend beside it",
                 s->wish->anchor ? s->wish->anchor : "", s->wish->anchor ? "'" : "",
                 s->wish->n_backends ? " for the backends asked for" : "");
        code = ATTN_EXIT_NOTHING;
    }
    json_decref(ids);
    return code;
}

static void put_json(FILE *out, const struct showing *s)
{
    json_t *all =
        json_pack("{s:f,s:f,s:i,s:O,s:O}", "margin", s->wish->margin, "p", ATTN_CHANGE_P, "window",
                  ATTN_CHANGE_WINDOW, "machines", s->machines, "cases", s->found);
    json_dumpf(all, out, JSON_INDENT(1));
    fputc('\n', out);
    json_decref(all);
}

static void put(FILE *out, const struct showing *s)
{
    size_t i;
    json_t *history;
    if (s->wish->json) {
        put_json(out, s);
        return;
    }
    json_array_foreach(s->found, i, history)
    {
        attn_history_put(out, history);
    }
    attn_history_put_legend(out, s->wish->margin);
}

static enum attn_exit list_cases(const struct showing *s, FILE *out)
{
    if (s->wish->json) {
        json_dumpf(s->cases, out, JSON_INDENT(1));
        fputc('\n', out);
    } else {
        attn_history_put_cases(out, s->cases);
    }
    return ATTN_EXIT_OK;
}

enum attn_exit attn_history_show(const char *index, const struct attn_history_wish *wish, FILE *out,
                                 char *why, size_t size)
{
    struct showing s = {.wish = wish, .found = json_array()};
    enum attn_exit code;
    const int status = attn_index_open(index, ATTN_INDEX_READ, &s.index, why, size);
    if (status != 0)
        code = status > 0 ? ATTN_EXIT_USAGE : ATTN_EXIT_INTERNAL;
    else if (!(s.cases = attn_index_cases(s.index, why, size)) ||
             !(s.machines = attn_index_machines(s.index, why, size)))
        code = ATTN_EXIT_INTERNAL;
    else if (!wish->word)
        code = list_cases(&s, out);
    else
        code = find(&s, index, why, size);
    if (code == ATTN_EXIT_OK && wish->word)
        put(out, &s);
    json_decref(s.cases);
    json_decref(s.machines);
    json_decref(s.found);
    attn_index_close(s.index);
    return code;
}
