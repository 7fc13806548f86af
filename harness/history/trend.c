/* SPDX-License-Identifier: Apache-2.0 */
/* trend.c - groups the results of a case, divides by the anchor, and finds change points. */
#include "history/trend.h"

#include <math.h>
#include <stdio.h>
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

/* The ratio that a record states. */
static struct ratio stated(const json_t *row)
{
    struct ratio r = {NAN, NAN, NAN, "paired"};
    const double value = attn_field_number(row, "ratio"), lo = attn_field_number(row, "low"),
                 hi = attn_field_number(row, "high");
    if (!is_positive(value))
        return r;
    r.value = value;
    if (is_positive(lo) && lo <= value && is_positive(hi) && hi >= value)
        r.lo = lo, r.hi = hi;
    return r;
}

/* The ratio of a row to the anchor, whose row is `other` (NULL: none), of turns: as its record
 * states it; or the inverse of what the anchor's does; or, where both state theirs to a third, the
 * quotient, with the widest interval that the two allow. */
static struct ratio of_turns(const json_t *row, const json_t *other, const char *anchor)
{
    const struct ratio none = {NAN, NAN, NAN, "paired"}, one = {1, 1, 1, "paired"};
    const char *to = attn_field_text(row, "anchor"), *others = attn_field_text(other, "anchor");
    struct ratio own = stated(row), base = stated(other);
    if (attn_anchor_named(to, anchor))
        return own;
    if (strcmp(others, attn_field_text(row, "backend")) == 0)
        own = one;
    else if (!*to || strcmp(to, others) != 0)
        return none;
    return (struct ratio){own.value / base.value, own.lo / base.hi, own.hi / base.lo, "paired"};
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

/* Was this very measurement met before, in another run of that day: a merged one, an imported one?
 * Two measurements do not agree in every bit of two rounds or more. */
static bool is_copy(json_t *seen, const json_t *row, const char *machine)
{
    const json_t *rounds = json_object_get(row, "rounds");
    const size_t n = json_array_size(rounds);
    char key[1024];
    int length = snprintf(key, sizeof key, "%s/%.10s/%s/%s/%s/%s/%s/%.17g", machine,
                          attn_field_text(row, "date"), attn_field_text(row, "commit"),
                          attn_field_text(row, "backend"), attn_field_text(row, "plugin"),
                          attn_field_text(row, "version"), attn_field_text(row, "cache"),
                          attn_field_number(row, "threads"));
    for (size_t i = 0; i < n && i < 16 && length > 0 && (size_t)length < sizeof key; i++)
        length += snprintf(key + length, sizeof key - (size_t)length, "/%.17g",
                           json_number_value(json_array_get(rounds, i)));
    if (n < 2 || length < 0 || (size_t)length >= sizeof key)
        return false;
    const bool copy = json_object_get(seen, key) != NULL;
    json_object_set_new(seen, key, json_true());
    return copy;
}

static void add_points(json_t *all, const json_t *results, const json_t *names,
                       const struct attn_history_wish *wish, const char *anchor)
{
    size_t i, s;
    json_t *row, *series, *seen = json_object();
    json_array_foreach(results, i, row)
    {
        const char *machine = machine_of(names, row);
        if (!is_wanted(row, wish, anchor) || is_copy(seen, row, machine))
            continue;
        const json_t *other = anchor_of(results, i, anchor);
        struct ratio ratio = of_turns(row, other, anchor);
        if (isnan(ratio.value))
            ratio = of_rounds(row, other);
        json_array_foreach(all, s, series)
        {
            if (belongs(series, row, machine))
                json_array_append_new(json_object_get(series, "points"),
                                      point_json(row, &ratio, has_changed(series, other)));
        }
    }
    json_decref(seen);
}

static json_t *change_json(const json_t *point, size_t at, const struct attn_change *change)
{
    return json_pack("{s:I,s:s,s:s,s:s,s:f,s:f,s:f,s:f}", "at", (json_int_t)at, "run",
                     attn_field_text(point, "run"), "date", attn_field_text(point, "date"),
                     "commit", attn_field_text(point, "commit"), "change",
                     change->after / change->before - 1, "before", change->before, "after",
                     change->after, "p", change->p);
}

/* Ratios of a series that are all of turns, or all by rounds: a change of method is none of speed.
 */
struct kind {
    double *values, *variances; /* the variances of their logarithms, as their intervals say */
    size_t *places, count;      /* places: which point each is */
    struct attn_change *changes;
};

static void take_kind(const json_t *points, const char *source, struct kind *k)
{
    size_t i;
    json_t *point;
    k->count = 0;
    json_array_foreach(points, i, point)
    {
        const double ratio = attn_field_number(point, "ratio"),
                     width =
                         log(attn_field_number(point, "high") / attn_field_number(point, "low"));
        if (!isfinite(ratio) || strcmp(attn_field_text(point, "source"), source) != 0)
            continue;
        k->values[k->count] = ratio;
        k->variances[k->count] = isfinite(width) ? pow(width / (2 * 1.96), 2) : 0;
        k->places[k->count++] = i;
    }
}

/* The variance of the mean of n, as far as the intervals of each say. */
static double variance_of_mean(const double *variances, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += variances[i];
    return n ? sum / (double)n / (double)n : 0;
}

/* Is change c of n larger than what the intervals of its points explain? Points that lie close
 * together by chance pass the test of the changes, which looks at nothing else. */
static bool is_beyond_intervals(const struct kind *k, size_t c, size_t n)
{
    const struct attn_change *change = &k->changes[c];
    const size_t from = c ? k->changes[c - 1].at : 0,
                 to = c + 1 < n ? k->changes[c + 1].at : k->count;
    const double variance = variance_of_mean(k->variances + from, change->at - from) +
                            variance_of_mean(k->variances + change->at, to - change->at);
    /* normal, two-sided */
    return erfc(fabs(log(change->after / change->before)) / sqrt(2 * variance)) < ATTN_CHANGE_P;
}

/* Puts a change in its place: in the order of points. */
static void put_change(json_t *list, json_t *change)
{
    size_t place = json_array_size(list);
    while (place > 0 && attn_field_number(json_array_get(list, place - 1), "at") >
                            attn_field_number(change, "at"))
        place--;
    json_array_insert_new(list, place, change);
}

/* Finds the changes of a series. Returns the number of its ratios, or -1 without memory. */
static long find_changes(json_t *series, double margin)
{
    static const char *const sources[] = {"paired", "rounds"};
    const struct attn_change_rule rule = {ATTN_CHANGE_WINDOW, ATTN_CHANGE_P, margin};
    const json_t *points = json_object_get(series, "points");
    const size_t n = json_array_size(points) + 1;
    struct kind k = {calloc(n, sizeof *k.values), calloc(n, sizeof *k.variances),
                     calloc(n, sizeof *k.places), 0, calloc(n, sizeof *k.changes)};
    long result = k.values && k.variances && k.places && k.changes ? 0 : -1;
    for (size_t s = 0; result >= 0 && s < sizeof sources / sizeof *sources; s++) {
        take_kind(points, sources[s], &k);
        const size_t found = attn_changes_find(k.values, k.count, &rule, k.changes);
        for (size_t c = 0; c < found; c++) {
            const size_t at = k.places[k.changes[c].at];
            if (is_beyond_intervals(&k, c, found))
                put_change(json_object_get(series, "changes"),
                           change_json(json_array_get(points, at), at, &k.changes[c]));
        }
        result += (long)k.count;
    }
    free(k.values);
    free(k.variances);
    free(k.places);
    free(k.changes);
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
