/* SPDX-License-Identifier: Apache-2.0 */
/* plot_best.c - time over that of the best backend, over S, H and d: a small picture for each
 * sweep. */
#include "report/canvas.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/summary.h"
#include "report/text.h"

#define PANELS_MAX ATTN_SERIES_KINDS
/* Times beyond this many times the best lie on the upper edge: what matters is near 1. */
#define GREATEST_RATIO 16
/* The lower edge; an interval may go on. */
#define LOWEST 0.8

struct panels {
    struct attn_series *series; /* PANELS_MAX of them */
    size_t count;
    size_t backends[ATTN_SERIES_BACKENDS], n_backends; /* of all panels */
    double greatest, high, low; /* of ratios; of the ends of intervals whose ratio has a place */
    size_t points;
    bool whiskers;
};

/* The fastest ranked backend at a size; NULL: none. */
static const struct attn_view_row *best_at(const struct attn_series *series, size_t point)
{
    const struct attn_view_row *rows[ATTN_SERIES_BACKENDS];
    for (size_t b = 0; b < series->n_backends; b++)
        rows[b] = series->cells[b][point];
    const size_t best = attn_fastest(rows, series->n_backends, series->n_backends);
    return best < series->n_backends ? rows[best] : NULL;
}

static struct attn_ratio ratio_at(const struct attn_view_row *row, const struct attn_view_row *best)
{
    if (row && row == best)
        return (struct attn_ratio){1, 1, 1, 0, 1};
    return best && attn_row_ranked(row) ? attn_row_ratio(row, best)
                                        : (struct attn_ratio){NAN, NAN, NAN, -1, 1};
}

static void put_point(FILE *out, struct panels *panels, const struct attn_view_row *row,
                      const struct attn_view_row *best)
{
    const struct attn_ratio ratio = ratio_at(row, best);
    attn_put_number(out, ratio.ratio);
    attn_put_number(out, ratio.lo > 0 ? ratio.lo : (double)NAN);
    attn_put_number(out, ratio.hi);
    fputc('\n', out);
    panels->greatest = fmax(panels->greatest, ratio.ratio);
    if (!(ratio.ratio > 0) || row == best)
        return;
    panels->points++;
    panels->whiskers = panels->whiskers || isfinite(ratio.hi);
    if (ratio.ratio <= GREATEST_RATIO && isfinite(ratio.hi))
        panels->high = fmax(panels->high, ratio.hi);
    if (ratio.lo > 0)
        panels->low = fmin(panels->low, ratio.lo);
}

static bool has_points(const struct attn_series *series, size_t slot,
                       const struct attn_view_row *const *best)
{
    for (size_t x = 0; x < series->n_points; x++)
        if (ratio_at(series->cells[slot][x], best[x]).ratio > 0)
            return true;
    return false;
}

/* One sweep: every size of a backend, with ? where it has no figure, then the next backend. */
static void put_panel(FILE *out, struct panels *panels, size_t panel)
{
    const struct attn_series *series = &panels->series[panel];
    const struct attn_view_row *best[ATTN_SERIES_POINTS];
    for (size_t x = 0; x < series->n_points; x++)
        best[x] = best_at(series, x);
    for (size_t b = 0; b < series->n_backends; b++) {
        if (!has_points(series, b, best))
            continue;
        const size_t place =
            attn_series_place(panels->backends, &panels->n_backends, series->backends[b]);
        for (size_t x = 0; x < series->n_points && place < panels->n_backends; x++) {
            fprintf(out, "%zu %zu %.0f", panel + 1, place + 1, series->x[x]);
            put_point(out, panels, series->cells[b][x], best[x]);
        }
    }
}

static int write_points(const struct attn_canvas *canvas, struct panels *panels, const char *name)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = attn_canvas_open(canvas, name, &text, &length);
    if (!out)
        return -1;
    fprintf(out, "# panel backend size ratio low high\n");
    for (size_t p = 0; p < panels->count; p++)
        put_panel(out, panels, p);
    return attn_canvas_finish(canvas, out, name, ".dat", &text, &length);
}

static void define_panels(FILE *out, const struct panels *panels)
{
    fprintf(out, "n_panels = %zu\narray panel_title[%zu]\narray panel_text[%zu]\n", panels->count,
            panels->count, panels->count);
    fprintf(out, "array panel_sizes[%zu]\n", panels->count);
    for (size_t p = 0; p < panels->count; p++) {
        const struct attn_series *series = &panels->series[p];
        char title[96];
        snprintf(title, sizeof title, "%s%s", series->kind.backward ? "backward pass, " : "",
                 attn_sweep_title(series->kind.axis));
        attn_define_at(out, "panel_title", p, title);
        attn_define_at(out, "panel_text", p, series->constants);
        attn_define_sizes(out, "panel_sizes", p, series);
    }
}

/* The marks on the edges, if there are any. */
static void put_edges(const struct panels *panels, double top, char *text, size_t size)
{
    const bool open = panels->high > top || panels->low < LOWEST;
    const bool filled = panels->greatest > top;
    char beyond[64];
    snprintf(beyond, sizeof beyond, "filled triangle, a time beyond %d times the best",
             GREATEST_RATIO);
    snprintf(text, size, "%s%s%s%s", open || filled ? "\nOn an edge: " : "",
             open ? "open triangle, the interval goes on" : "", open && filled ? "; " : "",
             filled ? beyond : "");
}

static void define_best(FILE *out, const struct attn_canvas *canvas, const struct panels *panels,
                        struct attn_plot *plot)
{
    char protocol[128], notes[600], edges[160];
    const double top = exp2(ceil(log2(fmin(fmax(panels->greatest, 2), GREATEST_RATIO))));
    attn_define(out, "base", plot->name);
    attn_define(out, "title", plot->title);
    attn_define_labels(out, canvas->view, panels->backends, panels->n_backends);
    define_panels(out, panels);
    fprintf(out, "y_low = %.6g\ny_high = %.6g\n", LOWEST, top);
    attn_protocol_text(canvas->view, canvas->machine, protocol, sizeof protocol);
    put_edges(panels, top, edges, sizeof edges);
    snprintf(notes, sizeof notes,
             "Time over the time of the fastest exact backend at that size, medians of %s, hot "
             "cache%s%s",
             protocol, panels->whiskers ? "; whisker: 95 % interval" : "", edges);
    attn_define_footer(out, canvas->machine, notes);
    attn_define(out, "ylabel", "time / time of the best");
    attn_canvas_caption(plot, "", notes,
                        panels->whiskers ? " On the line 1: the fastest. A whisker that reaches it "
                                           "leaves the order unclear."
                                         : " On the line 1: the fastest.");
}

/* Fills the panels and writes the picture; the caller frees the series. */
static int write_panels(const struct attn_canvas *canvas, struct panels *panels,
                        struct attn_plot *plot)
{
    char *text = NULL;
    size_t length = 0;
    for (size_t k = 0; k < ATTN_SERIES_KINDS; k++)
        if (attn_series_find(canvas->view, attn_series_kind(k), &panels->series[panels->count]) ==
            0)
            panels->count++;
    if (write_points(canvas, panels, plot->name) != 0)
        return -1;
    if (!panels->points)
        return 0;
    FILE *out = attn_canvas_open(canvas, plot->name, &text, &length);
    if (!out)
        return -1;
    define_best(out, canvas, panels, plot);
    return attn_canvas_finish(canvas, out, plot->name, ".def.gp", &text, &length) == 0 ? 1 : -1;
}

int attn_plot_best(const struct attn_canvas *canvas, const struct attn_series *series,
                   struct attn_plot *plot)
{
    struct panels panels = {.series = calloc(PANELS_MAX, sizeof *panels.series), .low = INFINITY};
    (void)series;
    if (!panels.series) {
        snprintf(canvas->why, canvas->size, "no memory for the sweeps");
        return -1;
    }
    snprintf(plot->name, sizeof plot->name, "best");
    snprintf(plot->title, sizeof plot->title, "Time over the best backend's");
    int status = write_panels(canvas, &panels, plot);
    free(panels.series);
    return status;
}
