/* SPDX-License-Identifier: Apache-2.0 */
/* growth.c - peaks of memory over the sequence length, a line for each sweep and backend. */
#include "report/growth.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/footprint.h"
#include "report/series.h"
#include "report/table.h"
#include "report/text.h"
#include "report/writers.h"

static const char title[] = "Growth of peak memory";
static const char explained[] =
    "Cases that differ in S = sq = sk alone, at three lengths or more. Order: the slope of log "
    "peak "
    "over log S, so S^1 is linear and S^2 is a matrix of scores. Peaks are beyond the operands; "
    "those below 256 KiB count as 256 KiB. Buckets of lsh grow with S.";
static const char *const heads[] = {"cases", "backend", "S", "peak at the longest", "order", NULL};

/* A result of a sweep. */
struct point {
    const struct attn_view_row *row;
    double s;
    char *family; /* attn_series_of_lengths; owned */
};

static int compare_families(const struct point *x, const struct point *y)
{
    int by = strcmp(x->family, y->family);
    by = by ? by : (x->row->backend > y->row->backend) - (x->row->backend < y->row->backend);
    return by ? by : (x->row->threads > y->row->threads) - (x->row->threads < y->row->threads);
}

static int compare_points(const void *a, const void *b)
{
    const struct point *x = a, *y = b;
    const int by = compare_families(x, y);
    return by ? by : (x->s > y->s) - (x->s < y->s);
}

static int compare_growths(const void *a, const void *b)
{
    const struct attn_growth *x = a, *y = b;
    int by = strcmp(x->cases, y->cases);
    by = by ? by : (x->order > y->order) - (x->order < y->order);
    return by ? by : (x->longest > y->longest) - (x->longest < y->longest);
}

/* Has a row a place in a sweep? */
static bool is_point(const struct attn_view *view, const struct attn_view_row *row)
{
    const double s = attn_field_number(row->sizes, "sq");
    return row->first && view->backends[row->backend].counted && isfinite(row->peak) &&
           attn_row_timed(row) && s > 0 && s == attn_field_number(row->sizes, "sk");
}

/* The points of one family, ascending in S. False: too few lengths, or all of them short. */
static bool fit(const struct point *points, size_t n, double *x, double *peaks,
                struct attn_growth *growth)
{
    const struct point *last = &points[n - 1];
    for (size_t i = 0; i < n; i++) {
        x[i] = points[i].s;
        peaks[i] = points[i].row->peak;
    }
    *growth = (struct attn_growth){.longest = last->row,
                                   .from = points[0].s,
                                   .peak = last->row->peak,
                                   .order = attn_footprint_order(x, peaks, n)};
    /* The cases of a line of a file share what stands before the slash. */
    const char *name = last->row->name, *slash = strchr(name, '/');
    snprintf(growth->cases, sizeof growth->cases, "%.*s%s%s", slash ? (int)(slash - name) : 0, name,
             slash ? ": " : "", last->family);
    return isfinite(growth->order) && last->s >= ATTN_GROWTH_LONGEST;
}

struct attn_growth *attn_growth_find(const struct attn_view *view, size_t *count)
{
    const size_t room = view->n_rows + 1;
    struct point *points = calloc(room, sizeof *points);
    double *x = calloc(2 * room, sizeof *x);
    struct attn_growth *found = points && x ? calloc(room, sizeof *found) : NULL;
    bool whole = found;
    size_t n = 0;
    *count = 0;
    for (size_t r = 0; whole && r < view->n_rows; r++) {
        const struct attn_view_row *row = &view->rows[r];
        if (!is_point(view, row))
            continue;
        points[n] = (struct point){row, attn_field_number(row->sizes, "sq"),
                                   attn_series_of_lengths(row->line)};
        whole = points[n].family;
        n += whole;
    }
    if (whole)
        qsort(points, n, sizeof *points, compare_points);
    for (size_t first = 0, end; whole && first < n; first = end) {
        for (end = first + 1; end < n && compare_families(&points[first], &points[end]) == 0;)
            end++;
        *count += fit(points + first, end - first, x, x + room, &found[*count]);
    }
    if (whole)
        qsort(found, *count, sizeof *found, compare_growths);
    for (size_t p = 0; p < n; p++)
        free(points[p].family);
    free(points);
    free(x);
    if (!whole)
        free(found);
    return whole ? found : NULL;
}

static struct attn_table_line line_of(const struct attn_view *view, const struct attn_growth *g)
{
    struct attn_table_line line = {0};
    char text[ATTN_TABLE_CELL];
    const double longest = attn_field_number(g->longest->sizes, "sq");
    attn_table_add_text(&line, g->cases);
    attn_table_add_text(&line, view->backends[g->longest->backend].label);
    snprintf(text, sizeof text, "%.0f to %.0f", g->from, longest);
    attn_table_add_number(&line, longest, text);
    attn_table_add_number(&line, g->peak, attn_figure_bytes(g->peak, text));
    snprintf(text, sizeof text, "S^%.2f", g->order);
    attn_table_add_number(&line, g->order, text);
    return line;
}

int attn_markdown_put_growth(FILE *out, const struct attn_view *view)
{
    size_t n;
    struct attn_growth *all = attn_growth_find(view, &n);
    if (n > 0) {
        fprintf(out, "\n## %s\n\n%s\n", title, explained);
        attn_markdown_put_heads(out, heads, 2);
    }
    for (size_t i = 0; i < n; i++) {
        const struct attn_table_line line = line_of(view, &all[i]);
        attn_markdown_put_line(out, &line);
    }
    free(all);
    return all ? 0 : -1;
}

int attn_html_put_growth(FILE *out, const struct attn_view *view)
{
    size_t n;
    struct attn_growth *all = attn_growth_find(view, &n);
    if (n > 0) {
        fprintf(out, "<h2>%s</h2>\n<p class=\"soft\">%s</p>\n", title, explained);
        fprintf(out, "<details><summary>By sweep and backend: %zu</summary>\n", n);
        attn_html_put_heads(out, heads, 2);
    }
    for (size_t i = 0; i < n; i++) {
        const struct attn_table_line line = line_of(view, &all[i]);
        attn_html_put_line(out, &line);
    }
    if (n > 0) {
        attn_html_end_table(out);
        fputs("</details>\n", out);
    }
    free(all);
    return all ? 0 : -1;
}
