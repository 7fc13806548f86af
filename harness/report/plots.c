/* SPDX-License-Identifier: Apache-2.0 */
/* plots.c - which pictures a report has, and drawing them. */
#include "report/plots.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "report/canvas.h"
#include "report/gnuplot.h"
#include "report/series.h"
#include "report/text.h"

enum scope { OVERVIEW, EVERY_AXIS, LENGTHS, FORWARD_LENGTHS, NO_SWEEP, WHOLE_RUN };

/* In the order of the report. */
static const struct kind {
    const char *script;
    enum scope scope;
    int (*write)(const struct attn_canvas *canvas, const struct attn_series *series,
                 struct attn_plot *plot);
} kinds[] = {
    {"speedup.gp", OVERVIEW, attn_plot_speedup},
    {"best.gp", OVERVIEW, attn_plot_best},
    {"throughput.gp", EVERY_AXIS, attn_plot_throughput},
    {"latency.gp", FORWARD_LENGTHS, attn_plot_latency},
    {"memory.gp", LENGTHS, attn_plot_memory},
    {"throughput.gp", NO_SWEEP, attn_plot_cases},
    {"passes.gp", WHOLE_RUN, attn_plot_passes},
    {"approximations.gp", WHOLE_RUN, attn_plot_approximations},
    {"roofline.gp", WHOLE_RUN, attn_plot_roofline},
    {"errors.gp", WHOLE_RUN, attn_plot_errors},
    {"samples.gp", WHOLE_RUN, attn_plot_samples},
};
#define KINDS (sizeof kinds / sizeof kinds[0])
_Static_assert(ATTN_PLOTS_MAX >= 3 * ATTN_SERIES_KINDS + KINDS - 3, "three are of sweeps");

static void folder_of(const struct attn_canvas *canvas, char *folder, size_t size)
{
    snprintf(folder, size, "%s/plots", canvas->out_dir);
}

static int copy_script(const struct attn_canvas *canvas, const char *script_dir, const char *script)
{
    char path[4352];
    size_t length;
    snprintf(path, sizeof path, "%s/%s", script_dir, script);
    char *text = attn_file_read(path, &length, canvas->why, canvas->size);
    int status = text ? attn_canvas_write(canvas, script, text, length) : -1;
    free(text);
    return status;
}

/* Adds the picture to the list. Where gnuplot cannot be started or hangs once, it is not tried
 * again. */
int attn_plots_draw(const struct attn_canvas *canvas, const char *script_dir,
                    struct attn_plots *plots, const struct attn_plot *plot, const char *script,
                    char *note, size_t note_size)
{
    char folder[4352];
    if (plots->count == ATTN_PLOTS_MAX) {
        snprintf(canvas->why, canvas->size, "more than %zu pictures", ATTN_PLOTS_MAX);
        return -1;
    }
    struct attn_plot *item = &plots->items[plots->count++];
    *item = *plot;
    folder_of(canvas, folder, sizeof folder);
    if (copy_script(canvas, script_dir, script) != 0)
        return -1;
    if (plots->stuck)
        return 0;
    int status = attn_gnuplot_run(folder, plot->name, script, ATTN_GNUPLOT_LIMIT_S);
    item->drawn = status == 0;
    plots->stuck = status < 0;
    plots->broken = plots->broken || status > 0 || (status < 0 && errno != ENOENT);
    if (status < 0 && errno == ETIMEDOUT)
        snprintf(note, note_size,
                 "gnuplot did not finish %s within %d s and was killed; no further pictures",
                 plot->name, ATTN_GNUPLOT_LIMIT_S);
    else if (status < 0)
        snprintf(note, note_size, "no pictures: gnuplot could not be started: %s", strerror(errno));
    else if (status > ATTN_GNUPLOT_SIGNAL)
        snprintf(note, note_size, "gnuplot crashed on %s: %s; plots/%s.log has what it said",
                 plot->name, strsignal(status - ATTN_GNUPLOT_SIGNAL), plot->name);
    else if (status > 0)
        snprintf(note, note_size, "gnuplot could not draw %s: see plots/%s.log", plot->name,
                 plot->name);
    return 0;
}

/* Is a picture one of a sweep's? */
static bool is_of(enum scope scope, const struct attn_series *series)
{
    return scope == EVERY_AXIS ||
           (series->kind.axis == ATTN_SWEEP_S &&
            (scope == LENGTHS || (scope == FORWARD_LENGTHS && !series->kind.backward)));
}

/* The pictures of a sweep, or, without one, those of a scope. */
static int draw_all(const struct attn_canvas *canvas, const struct attn_series *series,
                    enum scope scope, const char *script_dir, struct attn_plots *plots, char *note,
                    size_t note_size)
{
    for (size_t k = 0; k < KINDS; k++) {
        struct attn_plot plot = {0};
        bool wanted = series ? is_of(kinds[k].scope, series) : kinds[k].scope == scope;
        int prepared = wanted ? kinds[k].write(canvas, series, &plot) : 0;
        if (prepared < 0)
            return -1;
        if (prepared > 0 && attn_plots_draw(canvas, script_dir, plots, &plot, kinds[k].script, note,
                                            note_size) != 0)
            return -1;
    }
    return 0;
}

int attn_plots_begin(const struct attn_canvas *canvas, struct attn_plots *plots, char *note)
{
    char folder[4352];
    plots->count = 0;
    plots->stuck = plots->broken = false;
    note[0] = '\0';
    folder_of(canvas, folder, sizeof folder);
    if (mkdir(folder, 0755) == 0 || errno == EEXIST)
        return 0;
    snprintf(canvas->why, canvas->size, "%s: %s", folder, strerror(errno));
    return -1;
}

int attn_plots_write(const struct attn_canvas *canvas, const char *script_dir,
                     struct attn_plots *plots, char *note, size_t note_size)
{
    struct attn_series series;
    bool swept = false;
    if (attn_plots_begin(canvas, plots, note) != 0)
        return -1;
    if (draw_all(canvas, NULL, OVERVIEW, script_dir, plots, note, note_size) != 0)
        return -1;
    for (size_t k = 0; k < ATTN_SERIES_KINDS; k++) {
        if (attn_series_find(canvas->view, attn_series_kind(k), &series) != 0)
            continue;
        swept = true;
        if (draw_all(canvas, &series, EVERY_AXIS, script_dir, plots, note, note_size) != 0)
            return -1;
    }
    if (!swept && draw_all(canvas, NULL, NO_SWEEP, script_dir, plots, note, note_size) != 0)
        return -1;
    return draw_all(canvas, NULL, WHOLE_RUN, script_dir, plots, note, note_size);
}
