/* SPDX-License-Identifier: Apache-2.0 */
/* footprint.c - peaks of memory against those of an earlier run, and their order in S. */
#include "report/footprint.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/series.h"
#include "report/text.h"
#include "results/statistics.h"

/* A result of a sweep: what its family is, S, and both peaks. */
struct point {
    const struct attn_pair *pair;
    char *family; /* attn_series_of_lengths; owned */
    double s, base, next;
};

/* Results of one case with hot and with cold caches have the same peak. */
static bool has_peaks(const struct attn_pair *pair)
{
    return pair->base && pair->next && pair->base->first && isfinite(pair->base->peak) &&
           isfinite(pair->next->peak);
}

static int add(struct attn_footprint *out, const char *kind, const struct attn_pair *pair,
               const char *line, double base, double next)
{
    return json_array_append_new(out->list, json_pack("{s:s,s:s,s:s,s:f,s:f}", "kind", kind,
                                                      "backend", pair->next_label, "case", line,
                                                      "base", base, "new", next));
}

static int compare_points(const void *a, const void *b)
{
    const struct point *x = a, *y = b;
    int by = strcmp(x->pair->next_label, y->pair->next_label);
    by = by ? by : strcmp(x->pair->base_label, y->pair->base_label);
    by = by ? by : strcmp(x->family, y->family);
    by = by ? by
            : (x->pair->row->threads > y->pair->row->threads) -
                  (x->pair->row->threads < y->pair->row->threads);
    return by ? by : (x->s > y->s) - (x->s < y->s);
}

static bool same_family(const struct point *x, const struct point *y)
{
    return strcmp(x->pair->next_label, y->pair->next_label) == 0 &&
           strcmp(x->pair->base_label, y->pair->base_label) == 0 &&
           strcmp(x->family, y->family) == 0 && x->pair->row->threads == y->pair->row->threads;
}

double attn_footprint_order(const double *s, double *peaks, size_t n)
{
    size_t lengths = 0;
    for (size_t i = 0; i < n; i++) {
        peaks[i] = fmax(peaks[i], ATTN_PEAK_FLOOR);
        lengths += i == 0 || s[i] > s[i - 1];
    }
    return lengths < ATTN_SERIES_LEAST ? (double)NAN : attn_loglog_slope(s, peaks, n);
}

/* Fits the points of one family. */
static int judge_order(const struct point *points, size_t n, struct attn_footprint *out)
{
    double *x = calloc(3 * n, sizeof *x), *base = x + n, *next = base + n;
    int status = x ? 0 : -1;
    for (size_t i = 0; x && i < n; i++) {
        x[i] = points[i].s;
        base[i] = points[i].base;
        next[i] = points[i].next;
    }
    const double was = x ? attn_footprint_order(x, base, n) : (double)NAN;
    const double is = x ? attn_footprint_order(x, next, n) : (double)NAN;
    out->orders += isfinite(was) ? 1 : 0;
    if (is > was + ATTN_ORDER_MARGIN) {
        out->steeper++;
        status = add(out, "order", points->pair, points->family, was, is);
    }
    free(x);
    return status;
}

/* The points of all sweeps, sorted by family; *n of them. NULL: no memory. */
static struct point *find_points(const struct attn_pairs *pairs, size_t *n)
{
    struct point *points = calloc(pairs->count + 1, sizeof *points);
    *n = 0;
    for (size_t i = 0; points && i < pairs->count; i++) {
        const struct attn_pair *pair = &pairs->items[i];
        const double sq = attn_field_number(pair->row->sizes, "sq");
        if (!has_peaks(pair) || !(sq > 0) || sq != attn_field_number(pair->row->sizes, "sk"))
            continue;
        struct point *point = &points[(*n)++];
        *point = (struct point){pair, attn_series_of_lengths(pair->row->line), sq, pair->base->peak,
                                pair->next->peak};
        if (!point->family) {
            for (size_t p = 0; p < *n; p++)
                free(points[p].family);
            free(points);
            return NULL;
        }
    }
    if (points)
        qsort(points, *n, sizeof *points, compare_points);
    return points;
}

static int judge_orders(const struct attn_pairs *pairs, struct attn_footprint *out)
{
    size_t n;
    struct point *points = find_points(pairs, &n);
    int status = points ? 0 : -1;
    for (size_t first = 0, end; points && first < n; first = end) {
        for (end = first + 1; end < n && same_family(&points[first], &points[end]);)
            end++;
        if (status == 0)
            status = judge_order(points + first, end - first, out);
    }
    for (size_t p = 0; points && p < n; p++)
        free(points[p].family);
    free(points);
    return status;
}

int attn_footprint_judge(const struct attn_pairs *pairs, struct attn_footprint *out)
{
    *out = (struct attn_footprint){.list = json_array()};
    int status = out->list ? 0 : -1;
    for (size_t i = 0; i < pairs->count && status == 0; i++) {
        const struct attn_pair *pair = &pairs->items[i];
        if (!has_peaks(pair))
            continue;
        const double base = pair->base->peak, next = pair->next->peak;
        out->compared++;
        if (next > ATTN_PEAK_FACTOR * base && next > base + ATTN_PEAK_FLOOR) {
            out->grew++;
            status = add(out, "peak", pair, pair->row->label, base, next);
        }
    }
    if (status == 0)
        status = judge_orders(pairs, out);
    if (status != 0)
        attn_footprint_free(out);
    return status;
}

void attn_footprint_put(const struct attn_footprint *footprint, FILE *out)
{
    size_t i;
    json_t *item;
    fprintf(out,
            "memory: %zu peaks compared, %zu grew by more than %.0f %%; %zu orders in S compared, "
            "%zu grew\n",
            footprint->compared, footprint->grew, 100 * (ATTN_PEAK_FACTOR - 1), footprint->orders,
            footprint->steeper);
    json_array_foreach(footprint->list, i, item)
    {
        const double base = attn_field_number(item, "base"), next = attn_field_number(item, "new");
        const char *backend = attn_field_text(item, "backend"),
                   *line = attn_field_text(item, "case");
        char was[ATTN_FIGURE_MAX], is[ATTN_FIGURE_MAX];
        if (strcmp(attn_field_text(item, "kind"), "order") == 0)
            fprintf(out, "order: was n^%.1f, is n^%.1f  %s  %s\n", base, next, backend, line);
        else
            fprintf(out, "peak: was %s, is %s  %s  %s\n", attn_figure_bytes(base, was),
                    attn_figure_bytes(next, is), backend, line);
    }
}

void attn_footprint_free(struct attn_footprint *footprint)
{
    json_decref(footprint->list);
    *footprint = (struct attn_footprint){0};
}
