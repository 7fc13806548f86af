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

enum scope { OVERVIEW, EVERY_AXIS, LENGTHS, WHOLE_RUN };

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
    {"latency.gp", LENGTHS, attn_plot_latency},
    {"memory.gp", LENGTHS, attn_plot_memory},
    {"roofline.gp", WHOLE_RUN, attn_plot_roofline},
    {"errors.gp", WHOLE_RUN, attn_plot_errors},
};
#define KINDS (sizeof kinds / sizeof kinds[0])

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

static int copy_scripts(const struct attn_canvas *canvas, const char *script_dir)
{
    for (size_t k = 0; k < KINDS; k++) {
        char path[4352];
        size_t length;
        snprintf(path, sizeof path, "%s/%s", script_dir, kinds[k].script);
        char *text = attn_file_read(path, &length, canvas->why, canvas->size);
        if (!text)
            return -1;
        int status = attn_canvas_write(canvas, kinds[k].script, text, length);
        free(text);
        if (status != 0)
            return -1;
    }
    return 0;
}

/* The pictures of the most telling sweep of one axis and mask, or, without one, those of a scope.
 */
static int draw_all(const struct attn_canvas *canvas, const struct attn_series *series,
                    enum scope scope, const char *folder, struct attn_plots *plots, char *note,
                    size_t note_size)
{
    for (size_t k = 0; k < KINDS; k++) {
        struct attn_plot plot = {0};
        bool wanted = series ? kinds[k].scope == EVERY_AXIS ||
                                   (kinds[k].scope == LENGTHS && series->axis == ATTN_SWEEP_S)
                             : kinds[k].scope == scope;
        int prepared = wanted ? kinds[k].write(canvas, series, &plot) : 0;
        if (prepared < 0)
            return -1;
        if (prepared > 0)
            draw(folder, plots, &plot, kinds[k].script, note, note_size);
    }
    return 0;
}

int attn_plots_write(const struct attn_canvas *canvas, const char *script_dir,
                     struct attn_plots *plots, char *note, size_t note_size)
{
    char folder[4352];
    plots->count = 0;
    plots->stuck = false;
    note[0] = '\0';
    snprintf(folder, sizeof folder, "%s/plots", canvas->out_dir);
    if (mkdir(folder, 0755) != 0 && errno != EEXIST) {
        snprintf(canvas->why, canvas->size, "%s: %s", folder, strerror(errno));
        return -1;
    }
    if (copy_scripts(canvas, script_dir) != 0)
        return -1;
    if (draw_all(canvas, NULL, OVERVIEW, folder, plots, note, note_size) != 0)
        return -1;
    for (int axis = 0; axis < ATTN_SWEEP_COUNT; axis++)
        for (int causal = 0; causal < 2; causal++) {
            struct attn_series series;
            if (attn_series_find(canvas->view, (enum attn_sweep)axis, causal, &series) == 0 &&
                draw_all(canvas, &series, EVERY_AXIS, folder, plots, note, note_size) != 0)
                return -1;
        }
    return draw_all(canvas, NULL, WHOLE_RUN, folder, plots, note, note_size);
}
