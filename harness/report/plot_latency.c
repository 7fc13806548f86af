/* SPDX-License-Identifier: Apache-2.0 */
/* plot_latency.c - time of one run over the sequence length, log-log. */
#include "report/canvas.h"

#include <math.h>

#include "report/marks.h"
#include "report/summary.h"
#include "report/text.h"

/* What the picture needs beyond its data file. */
struct times {
    char names[ATTN_SERIES_BACKENDS][192];
    double low, high, first; /* least and greatest of all ends; least median at the first size */
    size_t drawn;
    bool whiskers;
};

static void put_times(FILE *out, const struct attn_series *series, size_t slot, const char *label,
                      struct times *times)
{
    double x[ATTN_SERIES_POINTS], y[ATTN_SERIES_POINTS];
    size_t n = 0;
    for (size_t p = 0; p < series->n_points; p++) {
        const struct attn_view_row *row = series->cells[slot][p];
        if (!row || !isfinite(row->median))
            continue;
        fprintf(out, "%zu %.0f", slot + 1, series->x[p]);
        attn_put_number(out, row->median);
        attn_put_number(out, row->lo);
        attn_put_number(out, row->hi);
        fputc('\n', out);
        x[n] = series->x[p];
        y[n++] = row->median;
        /* fmin and fmax pass over an end that is not there. */
        times->low = fmin(times->low, fmin(row->median, row->lo));
        times->high = fmax(times->high, fmax(row->median, row->hi));
        times->whiskers = times->whiskers || isfinite(row->hi);
        if (p == 0)
            times->first = fmin(times->first, row->median);
    }
    attn_series_legend(label, x, y, n, times->names[slot], sizeof times->names[slot]);
    times->drawn += n;
}

static void define_latency(FILE *out, const struct attn_canvas *canvas,
                           const struct attn_series *series, const struct times *times,
                           const char *without, struct attn_plot *plot)
{
    const char *labels[ATTN_SERIES_BACKENDS];
    char protocol[128], notes[800];
    for (size_t b = 0; b < series->n_backends; b++)
        labels[b] = times->names[b];
    attn_define(out, "base", plot->name);
    attn_define(out, "title", plot->title);
    attn_define(out, "constants", series->constants);
    attn_define(out, "x_label", attn_sweep_title(series->kind.axis));
    attn_define_backends(out, canvas->view, series->backends, series->n_backends, labels);
    attn_define_points(out, series);
    fprintf(out, "y_low = %.6g\ny_high = %.6g\nanchor = %.6g\n", times->low, times->high,
            isfinite(times->first) ? times->first : times->low);
    attn_protocol_text(canvas->view, canvas->machine, protocol, sizeof protocol);
    snprintf(notes, sizeof notes,
             "Point: median of %s, hot cache%s. Dashed: growth as n and as n\xc2\xb2%s%s", protocol,
             times->whiskers ? "; whisker: 95 % interval" : "",
             *without ? "\nNo time at any size: " : "", without);
    attn_define_footer(out, canvas->machine, notes);
    attn_canvas_caption(plot, series->constants, notes,
                        times->whiskers ? " " ATTN_WHISKER_BOUND : "");
}

static bool has_time(const struct attn_view_row *row)
{
    return isfinite(row->median);
}

int attn_plot_latency(const struct attn_canvas *canvas, const struct attn_series *series,
                      struct attn_plot *plot)
{
    char *text = NULL, without[400];
    size_t length = 0;
    struct attn_series kept;
    struct attn_marks marks = {0};
    attn_series_keep(canvas->view, series, has_time, &kept, &marks, without, sizeof without);
    struct times times = {.low = INFINITY, .first = INFINITY};
    attn_series_name(series, "latency", plot->name, sizeof plot->name);
    attn_series_title(series, "Time of one run", plot->title, sizeof plot->title);
    FILE *out = attn_canvas_open(canvas, plot->name, &text, &length);
    if (!out)
        return -1;
    fprintf(out, "# backend size median_ns low high\n");
    for (size_t b = 0; b < kept.n_backends; b++)
        put_times(out, &kept, b, canvas->view->backends[kept.backends[b]].label, &times);
    if (attn_canvas_finish(canvas, out, plot->name, ".dat", &text, &length) != 0)
        return -1;
    if (times.drawn < 2)
        return 0;

    out = attn_canvas_open(canvas, plot->name, &text, &length);
    if (!out)
        return -1;
    define_latency(out, canvas, &kept, &times, without, plot);
    return attn_canvas_finish(canvas, out, plot->name, ".def.gp", &text, &length) == 0 ? 1 : -1;
}
