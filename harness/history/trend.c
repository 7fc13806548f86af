/* SPDX-License-Identifier: Apache-2.0 */
/* trend.c - groups the results of a case, divides by the anchor, and finds change points. */
#include "history/trend.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "history/anchors.h"
#include "report/text.h"
#include "results/changes.h"
#include "results/record.h"
#include "results/statistics.h"

struct ratio {
    double value, lo, hi; /* NAN: none */
    const char *source;
};

static bool is_positive(double value)
{
    return value > 0 && isfinite(value);
}

/* The ratio that a record states, if it is to this anchor. */
static struct ratio stated(const json_t *row, const char *anchor)
{
    struct ratio r = {NAN, NAN, NAN, "paired"};
    const double value = attn_field_number(row, "ratio"), lo = attn_field_number(row, "low"),
                 hi = attn_field_number(row, "high");
    if (!is_positive(value) || !attn_anchor_named(attn_field_text(row, "anchor"), anchor))
        return r;
    r.value = value;
    if (is_positive(lo) && lo <= value && is_positive(hi) && hi >= value)
        r.lo = lo, r.hi = hi;
    return r;
}

/* Summarises n ratios, each of which stands for a round of its own. */
static int summarise(const double *ratios, size_t n, struct attn_summary *summary)
{
    const double **samples = calloc(n, sizeof *samples);
    size_t *counts = calloc(n, sizeof *counts);
    int status = -1;
    if (samples && counts) {
        for (size_t i = 0; i < n; i++) {
            samples[i] = &ratios[i];
            counts[i] = 1;
        }
        status = attn_summarise(samples, counts, n, summary);
    }
    free(samples);
    free(counts);
    return status;
}

/* The median of the ratios of rounds, and its interval, as attn_summarise gives them. */
static struct ratio of_rounds(const json_t *row, const json_t *other)
{
    struct ratio r = {NAN, NAN, NAN, "rounds"};
    const json_t *own = json_object_get(row, "rounds"), *base = json_object_get(other, "rounds");
    const size_t n = json_array_size(own);
    double *values = n && json_array_size(base) == n ? calloc(n, sizeof *values) : NULL;
    struct attn_summary summary;
    bool clean = values != NULL;
    for (size_t i = 0; clean && i < n; i++) {
        values[i] =
            json_number_value(json_array_get(own, i)) / json_number_value(json_array_get(base, i));
        clean = is_positive(values[i]);
    }
    if (clean && summarise(values, n, &summary) == 0) {
        r.value = summary.median;
        if (summary.lo > 0 && isfinite(summary.hi))
            r.lo = summary.lo, r.hi = summary.hi;
    }
    free(values);
    return r;
}

static bool same_text(const json_t *a, const json_t *b, const char *key)
{
    return strcmp(attn_field_text(a, key), attn_field_text(b, key)) == 0;
}

static bool same_threads(const json_t *a, const json_t *b)
{
    const double x = attn_field_number(a, "threads"), y = attn_field_number(b, "threads");
    return x == y || (isnan(x) && isnan(y));
}

/* The result of the anchor beside row i: of the same run, threads and cache. Results of a run lie
 * side by side. */
static const json_t *anchor_of(const json_t *results, size_t i, const char *anchor)
{
    const json_t *row = json_array_get(results, i);
    size_t first = i;
    while (first > 0 && same_text(json_array_get(results, first - 1), row, "run"))
        first--;
    for (size_t k = first; k < json_array_size(results); k++) {
        const json_t *other = json_array_get(results, k);
        if (!same_text(other, row, "run"))
            break;
        if (attn_anchor_named(attn_field_text(other, "backend"), anchor) &&
            same_text(other, row, "cache") && same_threads(other, row))
            return other;
    }
    return NULL;
}

static const char *machine_of(const json_t *names, const json_t *row)
{
    char number[32];
    snprintf(number, sizeof number, "%.0f", attn_field_number(row, "machine"));
    return attn_field_text(names, number);
}

/* Whether a row belongs to a series. One that was not timed has no cache state: it belongs to
 * each. */
static bool belongs(const json_t *series, const json_t *row, const char *machine)
{
    return strcmp(attn_field_text(series, "machine"), machine) == 0 &&
           same_text(series, row, "backend") && same_threads(series, row) &&
           (!*attn_field_text(row, "cache") || same_text(series, row, "cache"));
}

static json_t *series_of(json_t *all, const json_t *row, const char *machine)
{
    size_t i;
    json_t *series;
    json_array_foreach(all, i, series)
    {
        if (belongs(series, row, machine))
            return series;
    }
    return NULL;
}

static bool is_wanted(const json_t *row, const struct attn_history_wish *wish, const char *anchor)
{
    const char *backend = attn_field_text(row, "backend"), *cache = attn_field_text(row, "cache");
    bool named = wish->n_backends == 0;
    for (size_t b = 0; b < wish->n_backends; b++)
        named = named || attn_anchor_named(backend, wish->backends[b]);
    return named && !attn_anchor_named(backend, anchor) &&
           (strcmp(cache, "cold") == 0 ? wish->cold : !*cache || wish->hot);
}

/* Opens a series for each kind of timed result. */
static json_t *open_series(const json_t *results, const json_t *names,
                           const struct attn_history_wish *wish, const char *anchor)
{
    json_t *all = json_array(), *row;
    size_t i;
    json_array_foreach(results, i, row)
    {
        const char *machine = machine_of(names, row);
        if (!*attn_field_text(row, "cache") || !is_wanted(row, wish, anchor) ||
            series_of(all, row, machine))
            continue;
        json_array_append_new(all, json_pack("{s:s,s:s,s:o,s:s,s:[],s:[]}", "machine", machine,
                                             "backend", attn_field_text(row, "backend"), "threads",
                                             attn_json_number(attn_field_number(row, "threads")),
                                             "cache", attn_field_text(row, "cache"), "points",
                                             "changes"));
    }
    return all;
}

static json_t *point_json(const json_t *row, const struct ratio *ratio, bool anchor_changed)
{
    return json_pack("{s:s,s:s,s:s,s:s,s:s,s:s,s:o,s:o,s:o,s:s,s:b}", "run",
                     attn_field_text(row, "run"), "date", attn_field_text(row, "date"), "commit",
                     attn_field_text(row, "commit"), "plugin", attn_field_text(row, "plugin"),
                     "version", attn_field_text(row, "version"), "status",
                     attn_field_text(row, "status"), "ratio", attn_json_number(ratio->value), "low",
                     attn_json_number(ratio->lo), "high", attn_json_number(ratio->hi), "source",
                     isfinite(ratio->value) ? ratio->source : "", "anchor_changed", anchor_changed);
}

/* Whether the anchor is another build, or another version, than in the series' last point. */
static bool has_changed(json_t *series, const json_t *other)
{
    json_t *last = json_object_get(series, "anchor");
    const bool changed =
        last && other && !(same_text(last, other, "plugin") && same_text(last, other, "version"));
    if (other)
        json_object_set(series, "anchor", (json_t *)other);
    return changed;
}

static void add_points(json_t *all, const json_t *results, const json_t *names,
                       const struct attn_history_wish *wish, const char *anchor)
{
    size_t i, s;
    json_t *row, *series;
    json_array_foreach(results, i, row)
    {
        if (!is_wanted(row, wish, anchor))
            continue;
        const char *machine = machine_of(names, row);
        const json_t *other = anchor_of(results, i, anchor);
        struct ratio ratio = stated(row, anchor);
        if (isnan(ratio.value))
            ratio = of_rounds(row, other);
        json_array_foreach(all, s, series)
        {
            if (belongs(series, row, machine))
                json_array_append_new(json_object_get(series, "points"),
                                      point_json(row, &ratio, has_changed(series, other)));
        }
    }
}

static json_t *change_json(const json_t *point, size_t at, const struct attn_change *change)
{
    return json_pack("{s:I,s:s,s:s,s:s,s:f,s:f,s:f,s:f}", "at", (json_int_t)at, "run",
                     attn_field_text(point, "run"), "date", attn_field_text(point, "date"),
                     "commit", attn_field_text(point, "commit"), "change",
                     change->after / change->before - 1, "before", change->before, "after",
                     change->after, "p", change->p);
}

/* Finds the changes of a series. Returns the number of its ratios, or -1 without memory. */
static long find_changes(json_t *series, double margin)
{
    const struct attn_change_rule rule = {ATTN_CHANGE_WINDOW, ATTN_CHANGE_P, margin};
    const json_t *points = json_object_get(series, "points");
    const size_t n = json_array_size(points);
    double *values = calloc(n + 1, sizeof *values);
    size_t *places = calloc(n + 1, sizeof *places), count = 0;
    struct attn_change *changes = calloc(n + 1, sizeof *changes);
    long result = -1;
    if (values && places && changes) {
        for (size_t i = 0; i < n; i++) {
            const double ratio = attn_field_number(json_array_get(points, i), "ratio");
            if (isfinite(ratio))
                values[count] = ratio, places[count++] = i;
        }
        const size_t found = attn_changes_find(values, count, &rule, changes);
        for (size_t c = 0; c < found; c++) {
            const size_t at = places[changes[c].at];
            json_array_append_new(json_object_get(series, "changes"),
                                  change_json(json_array_get(points, at), at, &changes[c]));
        }
        result = (long)count;
    }
    free(values);
    free(places);
    free(changes);
    return result;
}

json_t *attn_trend_find(const json_t *results, const json_t *names,
                        const struct attn_history_wish *wish)
{
    /* The newest run says what the case is called. */
    const json_t *newest = json_array_get(results, json_array_size(results) - 1);
    char anchor[ATTN_ANCHOR_MAX];
    attn_anchor_choose(results, wish, anchor);
    json_t *all = open_series(results, names, wish, anchor);
    add_points(all, results, names, wish, anchor);
    for (size_t s = 0; s < json_array_size(all);) {
        json_t *series = json_array_get(all, s);
        json_object_del(series, "anchor");
        const long ratios = find_changes(series, wish->margin);
        if (ratios < 0) {
            json_decref(all);
            return NULL;
        }
        if (ratios == 0)
            json_array_remove(all, s);
        else
            s++;
    }
    return json_pack("{s:s,s:s,s:s,s:b,s:o}", "name", attn_field_text(newest, "name"), "case",
                     attn_field_text(newest, "case"), "anchor", anchor, "chosen", !wish->anchor,
                     "series", all);
}
