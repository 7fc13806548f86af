/* SPDX-License-Identifier: Apache-2.0 */
/* plots.h - the pictures of a report. gnuplot draws them from scripts and data files. */
#ifndef ATTN_REPORT_PLOTS_H
#define ATTN_REPORT_PLOTS_H

#include "report/canvas.h"
#include "report/series.h"

/* Three of each sweep, and those of the whole run. */
#define ATTN_PLOTS_MAX (3 * ATTN_SERIES_KINDS + 8)

struct attn_plots {
    struct attn_plot items[ATTN_PLOTS_MAX];
    size_t count;
    bool stuck;  /* gnuplot did not start or was killed; the rest was not drawn */
    bool broken; /* gnuplot is there, and could not draw one of them */
};

/* Writes plots/ of the canvas's folder: for each sweep that the results hold a data file, a
 * definitions file and, drawn by gnuplot, an SVG and a PNG; and copies of their scripts, so that a
 * picture can be redrawn by hand there: `gnuplot NAME.def.gp throughput.gp`. A picture that cannot
 * be drawn is not an error: its `drawn` is false and the note says why. Returns 0, or -1 with the
 * reason (a file cannot be written or a script is missing). */
int attn_plots_write(const struct attn_canvas *canvas, const char *script_dir,
                     struct attn_plots *plots, char *note, size_t note_size);

/* What attn_plots_write consists of: makes plots/ and empties the list; then draws a prepared
 * picture with a script, of which it leaves a copy there. */
int attn_plots_begin(const struct attn_canvas *canvas, struct attn_plots *plots, char *note);
int attn_plots_draw(const struct attn_canvas *canvas, const char *script_dir,
                    struct attn_plots *plots, const struct attn_plot *plot, const char *script,
                    char *note, size_t note_size);

#endif
