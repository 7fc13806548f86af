/* SPDX-License-Identifier: Apache-2.0 */
/* plots.c - data and definitions files for the gnuplot scripts of reports/, and running them. */
#include "report/plots.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "report/gnuplot.h"
#include "report/series.h"
#include "report/text.h"
#include "results/statistics.h"

/* Okabe and Ito, "Color Universal Design", 2008; those that stand out on white come first. */
static const char *const palette[] = {"#0072B2", "#E69F00", "#009E73", "#CC79A7",
                                      "#56B4E9", "#D55E00", "#F0E442", "#000000"};
#define PALETTE_SIZE (sizeof palette / sizeof palette[0])

static const char *const scripts[] = {"throughput.gp", "memory.gp"};

/* Everything that the writers of one picture share. */
struct canvas {
    const struct attn_view *view;
    const json_t *machine;
    const char *out_dir;
    char *why;
    size_t size;
};

/* The seat of a backend among those that are counted: its colour, fill and marker everywhere. */
static size_t seat(const struct attn_view *view, size_t backend)
{
    size_t before = 0;
    for (size_t b = 0; b < backend; b++)
        before += view->backends[b].counted;
    return before;
}

static void define(FILE *out, const char *name, const char *text)
{
    fprintf(out, "%s = ", name);
    attn_put_gnuplot(out, text);
    fputc('\n', out);
}

static void define_footer(FILE *out, const json_t *machine, const char *first)
{
    char machine_text[160], build[128], line[320];
    attn_machine_text(machine, machine_text, sizeof machine_text);
    attn_build_text(machine, build, sizeof build);
    define(out, "footer1", first);
    snprintf(line, sizeof line, "%s; %s", machine_text, build);
    define(out, "footer2", line);
}

/* name, colour and seat of each backend of the series. */
static void define_backends(FILE *out, const struct attn_view *view,
                            const struct attn_series *series, const char *const *labels)
{
    fprintf(out, "n_backends = %zu\narray names[%zu]\narray colours[%zu]\narray seats[%zu]\n",
            series->n_backends, series->n_backends, series->n_backends, series->n_backends);
    for (size_t b = 0; b < series->n_backends; b++) {
        size_t place = seat(view, series->backends[b]);
        fprintf(out, "names[%zu] = ", b + 1);
        attn_put_gnuplot(out, labels[b]);
        fprintf(out, "\ncolours[%zu] = '%s'\nseats[%zu] = %zu\n", b + 1,
                palette[place % PALETTE_SIZE], b + 1, place);
    }
}

static void define_points(FILE *out, const struct attn_series *series)
{
    fprintf(out, "n_points = %zu\narray points[%zu]\n", series->n_points, series->n_points);
    for (size_t p = 0; p < series->n_points; p++)
        fprintf(out, "points[%zu] = %.0f\n", p + 1, series->x[p]);
}

static int write_stream(const struct canvas *canvas, const char *file, char *text, size_t length)
{
    char path[4352];
    int n = snprintf(path, sizeof path, "%s/plots/%s", canvas->out_dir, file);
    if (n < 0 || (size_t)n >= sizeof path) {
        snprintf(canvas->why, canvas->size, "the path of %s is too long", file);
        return -1;
    }
    return attn_file_write(path, text, length, canvas->why, canvas->size);
}

/* Closes the stream that was open on (text, length), writes it to plots/NAME+suffix and frees it.
 */
static int finish(const struct canvas *canvas, FILE *stream, const char *name, const char *suffix,
                  char **text, const size_t *length)
{
    char file[80];
    if (fclose(stream) != 0) {
        snprintf(canvas->why, canvas->size, "no memory for %s", name);
        return -1;
    }
    snprintf(file, sizeof file, "%s%s", name, suffix);
    int status = write_stream(canvas, file, *text, *length);
    free(*text);
    return status;
}

static void put_number(FILE *out, double value)
{
    if (isfinite(value))
        fprintf(out, " %.6g", value);
    else
        fputs(" ?", out);
}

/* One line a slot: backend, point, size, value, low and high end of the interval, mark. */
static int write_bars(const struct canvas *canvas, const struct attn_series *series,
                      const char *name, double *top, bool *marked)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    if (!out) {
        snprintf(canvas->why, canvas->size, "no memory for %s", name);
        return -1;
    }
    fprintf(out, "# backend point size gflops low high mark\n");
    for (size_t b = 0; b < series->n_backends; b++)
        for (size_t p = 0; p < series->n_points; p++) {
            const struct attn_view_row *row = series->cells[b][p];
            double value = row ? row->gflops : (double)NAN;
            /* The interval is of the time; the rate's is its inverse. */
            double low = row ? value * row->median / row->hi : (double)NAN;
            double high = row ? value * row->median / row->lo : (double)NAN;
            fprintf(out, "%zu %zu %.0f", b + 1, p + 1, series->x[p]);
            put_number(out, value);
            put_number(out, low);
            put_number(out, high);
            const char *mark =
                row && isfinite(value) ? row->marked ? "*" : "-" : attn_row_mark(row);
            fprintf(out, " \"%s\"\n", mark);
            *marked = *marked || strcmp(mark, "*") == 0;
            if (isfinite(value))
                *top = fmax(*top, isfinite(high) ? high : value);
        }
    return finish(canvas, out, name, ".dat", &text, &length);
}

/* Roofs as measured: of the widest rung, and of AVX2 where that is another one. Rungs within 15 %
 * would print their labels over each other. */
static double define_roofs(FILE *out, const json_t *machine)
{
    char label[160], figure[ATTN_FIGURE_MAX];
    double roof = attn_field_number(machine, "ceilings.fma_gflops_f32");
    double lower = attn_field_number(machine, "ceilings.avx2_gflops_f32");
    const char *isa = attn_field_text(machine, "ceilings.isa");
    bool has_roof = isfinite(roof) && roof > 0;
    bool has_lower = has_roof && lower > 0 && lower < 0.85 * roof && strcmp(isa, "avx2") != 0;
    snprintf(label, sizeof label, "measured f32 FMA roof%s%.32s: %s GFLOP/s", *isa ? ", " : "", isa,
             attn_figure(roof, figure));
    fprintf(out, "roof = %.6g\n", has_roof ? roof : 0.0);
    define(out, "roof_label", label);
    snprintf(label, sizeof label, "measured f32 FMA roof, avx2: %s GFLOP/s",
             attn_figure(lower, figure));
    fprintf(out, "roof2 = %.6g\n", has_lower ? lower : 0.0);
    define(out, "roof2_label", label);
    return has_roof ? roof : 0;
}

static int write_throughput(const struct canvas *canvas, const struct attn_series *series,
                            struct attn_plot *plot)
{
    char *text = NULL, protocol[128], line[320], left_out[64];
    size_t length = 0;
    double top = 0;
    bool marked = false;
    const char *labels[ATTN_SERIES_BACKENDS];
    snprintf(plot->name, sizeof plot->name, "throughput_%s_%s", attn_axis_key(series->axis),
             series->causal ? "causal" : "full");
    snprintf(plot->title, sizeof plot->title, "Throughput over %s", attn_axis_title(series->axis));
    if (write_bars(canvas, series, plot->name, &top, &marked) != 0)
        return -1;
    FILE *out = open_memstream(&text, &length);
    if (!out) {
        snprintf(canvas->why, canvas->size, "no memory for %s", plot->name);
        return -1;
    }
    define(out, "base", plot->name);
    define(out, "title", plot->title);
    define(out, "constants", series->constants);
    define(out, "x_label", attn_axis_title(series->axis));
    for (size_t b = 0; b < series->n_backends; b++)
        labels[b] = canvas->view->backends[series->backends[b]].label;
    define_backends(out, canvas->view, series, labels);
    define_points(out, series);
    top = fmax(top, define_roofs(out, canvas->machine));
    fprintf(out, "y_top = %.6g\n", top > 0 ? top * 1.12 : 1.0);
    attn_protocol_text(canvas->machine, protocol, sizeof protocol);
    snprintf(line, sizeof line, "Bar: median of %s; whisker: 95 %% interval. %s%s", protocol,
             ATTN_FLOP_CONVENTION, marked ? ". *: harness's own cost over 1 %" : "");
    define_footer(out, canvas->machine, line);
    snprintf(left_out, sizeof left_out, " %zu more sizes or backends did not fit.",
             series->left_out);
    snprintf(plot->caption, sizeof plot->caption, "%s. %s.%s", series->constants, line,
             series->left_out ? left_out : "");
    return finish(canvas, out, plot->name, ".def.gp", &text, &length);
}

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
    double slope = attn_loglog_slope(x, y, n);
    char *name = peaks->names[slot];
    if (isfinite(slope))
        snprintf(name, sizeof peaks->names[slot], "%s (slope %.2f)", label, slope);
    else
        snprintf(name, sizeof peaks->names[slot], "%s%s", label, n + zeros ? "" : " (no figure)");
    peaks->drawn += n;
    peaks->zeros = peaks->zeros || zeros;
}

static void define_memory(FILE *out, const struct canvas *canvas, const struct attn_series *series,
                          const struct peaks *peaks, struct attn_plot *plot)
{
    const char *labels[ATTN_SERIES_BACKENDS];
    char line[320];
    for (size_t b = 0; b < series->n_backends; b++)
        labels[b] = peaks->names[b];
    define(out, "base", plot->name);
    define(out, "title", plot->title);
    define(out, "constants", series->constants);
    define(out, "x_label", attn_axis_title(ATTN_AXIS_S));
    define_backends(out, canvas->view, series, labels);
    define_points(out, series);
    fprintf(out, "y_low = %.6g\ny_high = %.6g\nanchor = %.6g\n", peaks->low, peaks->high,
            isfinite(peaks->first) ? peaks->first : peaks->low);
    snprintf(
        line, sizeof line,
        "Peak: most resident after create, bind or run above the operands, or the high-water mark "
        "if over 1 MiB more; fresh process. Dashed: n, n\xc2\xb2%s",
        peaks->zeros ? ". 0: no page" : "");
    define_footer(out, canvas->machine, line);
    snprintf(plot->caption, sizeof plot->caption, "%s. %s.", series->constants, line);
}

/* 1 when the picture was prepared, 0 when there is nothing to draw, -1 on failure. */
static int write_memory(const struct canvas *canvas, const struct attn_series *series,
                        struct attn_plot *plot)
{
    char *text = NULL;
    size_t length = 0;
    struct peaks peaks = {.low = INFINITY, .first = INFINITY};
    snprintf(plot->name, sizeof plot->name, "memory_S_%s", series->causal ? "causal" : "full");
    snprintf(plot->title, sizeof plot->title, "Peak memory over %s", attn_axis_title(ATTN_AXIS_S));
    FILE *out = open_memstream(&text, &length);
    if (!out) {
        snprintf(canvas->why, canvas->size, "no memory for %s", plot->name);
        return -1;
    }
    fprintf(out, "# backend size peak_bytes\n");
    for (size_t b = 0; b < series->n_backends; b++)
        put_peaks(out, series, b, canvas->view->backends[series->backends[b]].label, &peaks);
    if (finish(canvas, out, plot->name, ".dat", &text, &length) != 0)
        return -1;
    if (peaks.drawn < 2)
        return 0;

    out = open_memstream(&text, &length);
    if (!out) {
        snprintf(canvas->why, canvas->size, "no memory for %s", plot->name);
        return -1;
    }
    define_memory(out, canvas, series, &peaks, plot);
    return finish(canvas, out, plot->name, ".def.gp", &text, &length) == 0 ? 1 : -1;
}

/* Draws a prepared picture and adds it to the list. Where gnuplot cannot be started or hangs once,
 * it is not tried again. */
static void draw(const char *folder, struct attn_plots *plots, const struct attn_plot *plot,
                 const char *script, char *note, size_t note_size)
{
    struct attn_plot *item = &plots->items[plots->count++];
    *item = *plot;
    if (plots->stuck)
        return;
    int status = attn_gnuplot_run(folder, plot->name, script, ATTN_GNUPLOT_LIMIT_S);
    item->drawn = status == 0;
    plots->stuck = status < 0;
    if (status < 0 && errno == ETIMEDOUT)
        snprintf(note, note_size,
                 "gnuplot did not finish %s within %d s and was killed; no further pictures",
                 plot->name, ATTN_GNUPLOT_LIMIT_S);
    else if (status < 0)
        snprintf(note, note_size, "no pictures: gnuplot could not be started: %s", strerror(errno));
    else if (status > 0)
        snprintf(note, note_size, "gnuplot could not draw %s: see plots/%s.log", plot->name,
                 plot->name);
}

static int copy_scripts(const struct canvas *canvas, const char *script_dir)
{
    for (size_t i = 0; i < sizeof scripts / sizeof scripts[0]; i++) {
        char path[4352];
        size_t length;
        snprintf(path, sizeof path, "%s/%s", script_dir, scripts[i]);
        char *text = attn_file_read(path, &length, canvas->why, canvas->size);
        if (!text)
            return -1;
        int status = write_stream(canvas, scripts[i], text, length);
        free(text);
        if (status != 0)
            return -1;
    }
    return 0;
}

int attn_plots_write(const struct attn_view *view, const json_t *machine, const char *script_dir,
                     const char *out_dir, struct attn_plots *plots, char *note, size_t note_size,
                     char *why, size_t size)
{
    struct canvas canvas = {view, machine, out_dir, why, size};
    char folder[4352];
    plots->count = 0;
    plots->stuck = false;
    note[0] = '\0';
    snprintf(folder, sizeof folder, "%s/plots", out_dir);
    if (mkdir(folder, 0755) != 0 && errno != EEXIST) {
        snprintf(why, size, "%s: %s", folder, strerror(errno));
        return -1;
    }
    if (copy_scripts(&canvas, script_dir) != 0)
        return -1;
    for (int axis = 0; axis < ATTN_AXIS_COUNT; axis++)
        for (int causal = 0; causal < 2; causal++) {
            struct attn_series series;
            if (attn_series_find(view, (enum attn_axis)axis, causal, &series) != 0)
                continue;
            struct attn_plot plot = {0};
            if (write_throughput(&canvas, &series, &plot) != 0)
                return -1;
            draw(folder, plots, &plot, scripts[0], note, note_size);
            if (axis != ATTN_AXIS_S)
                continue;
            plot = (struct attn_plot){0};
            int prepared = write_memory(&canvas, &series, &plot);
            if (prepared < 0)
                return -1;
            if (prepared == 0)
                continue;
            draw(folder, plots, &plot, scripts[1], note, note_size);
        }
    return 0;
}
