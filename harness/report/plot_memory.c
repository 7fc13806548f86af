/* SPDX-License-Identifier: Apache-2.0 */
/* plot_memory.c - peak memory over the sequence length. */
#include "report/canvas.h"

#include <math.h>

#include "report/marks.h"
#include "report/text.h"

/* What the memory picture needs beyond its data file. */
struct peaks {
    char names[ATTN_SERIES_BACKENDS][192];
    double low, high, first; /* least and greatest peak, least at the first size; zeros left out */
    size_t drawn;
    bool zeros; /* some run touched no new page */
};

/* The points of one backend. A peak of 0 has no place on a logarithmic axis: it goes to the lower
 * edge, marked, and takes no part in the slope. */
static void put_peaks(FILE *out, const struct attn_series *series, size_t slot, const char *label,
                      struct peaks *peaks)
{
    double x[ATTN_SERIES_POINTS], y[ATTN_SERIES_POINTS];
    size_t n = 0, zeros = 0;
    for (size_t p = 0; p < series->n_points; p++) {
        const struct attn_view_row *row = series->cells[slot][p];
        if (!row || !isfinite(row->peak))
            continue;
        fprintf(out, "%zu %.0f %.0f\n", slot + 1, series->x[p], row->peak);
        zeros += row->peak == 0;
        if (row->peak == 0)
            continue;
        x[n] = series->x[p];
        y[n++] = row->peak;
        peaks->low = fmin(peaks->low, row->peak);
        peaks->high = fmax(peaks->high, row->peak);
        if (p == 0)
            peaks->first = fmin(peaks->first, row->peak);
    }
    attn_series_legend(label, x, y, n, peaks->names[slot], sizeof peaks->names[slot]);
    peaks->drawn += n;
    peaks->zeros = peaks->zeros || zeros;
}

static void define_memory(FILE *out, const struct attn_canvas *canvas,
                          const struct attn_series *series, const struct peaks *peaks,
                          const char *without, struct attn_plot *plot)
{
    const char *labels[ATTN_SERIES_BACKENDS];
    char notes[800];
    for (size_t b = 0; b < series->n_backends; b++)
        labels[b] = peaks->names[b];
    attn_define(out, "base", plot->name);
    attn_define(out, "title", plot->title);
    attn_define(out, "constants", series->constants);
    attn_define(out, "x_label", attn_sweep_title(ATTN_SWEEP_S));
    attn_define_backends(out, canvas->view, series->backends, series->n_backends, labels);
    attn_define_points(out, series);
    fprintf(out, "y_low = %.6g\ny_high = %.6g\nanchor = %.6g\n", peaks->low, peaks->high,
            isfinite(peaks->first) ? peaks->first : peaks->low);
    snprintf(notes, sizeof notes,
             "Peak: largest resident memory without operands after create, bind or run, or "
             "high-water mark if over 1 MiB more. Dashed: n, n\xc2\xb2%s%s%s",
             peaks->zeros ? ". 0: no page" : "", *without ? "\nNo peak at any size: " : "",
             without);
    attn_define_footer(out, canvas->machine, notes);
    attn_canvas_caption(plot, series->constants, notes, "");
}

static bool has_peak(const struct attn_view_row *row)
{
    return isfinite(row->peak);
}

int attn_plot_memory(const struct attn_canvas *canvas, const struct attn_series *series,
                     struct attn_plot *plot)
{
    char *text = NULL, without[400];
    size_t length = 0;
    struct attn_series kept;
    struct attn_marks marks = {0};
    attn_series_keep(canvas->view, series, has_peak, &kept, &marks, without, sizeof without);
    struct peaks peaks = {.low = INFINITY, .first = INFINITY};
    attn_series_name(series, "memory", plot->name, sizeof plot->name);
    attn_series_title(series, "Peak memory", plot->title, sizeof plot->title);
    FILE *out = attn_canvas_open(canvas, plot->name, &text, &length);
    if (!out)
        return -1;
    fprintf(out, "# backend size peak_bytes\n");
    for (size_t b = 0; b < kept.n_backends; b++)
        put_peaks(out, &kept, b, canvas->view->backends[kept.backends[b]].label, &peaks);
    if (attn_canvas_finish(canvas, out, plot->name, ".dat", &text, &length) != 0)
        return -1;
    if (peaks.drawn < 2)
        return 0;

    out = attn_canvas_open(canvas, plot->name, &text, &length);
    if (!out)
        return -1;
    define_memory(out, canvas, &kept, &peaks, without, plot);
    return attn_canvas_finish(canvas, out, plot->name, ".def.gp", &text, &length) == 0 ? 1 : -1;
}
