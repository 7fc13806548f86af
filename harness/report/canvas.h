/* SPDX-License-Identifier: Apache-2.0 */
/* canvas.h - what the writers of pictures share: files under plots/, definitions for gnuplot, and
 * one function a kind of picture. Each of those writes NAME.dat and NAME.def.gp and fills *plot but
 * for `drawn`. It returns 1; 0 when the results hold nothing to draw, or -1 with the reason. */
#ifndef ATTN_REPORT_CANVAS_H
#define ATTN_REPORT_CANVAS_H

#include <stdio.h>

#include "report/series.h"
#include "report/types.h"

struct attn_canvas {
    const struct attn_view *view;
    const json_t *machine;
    const char *out_dir;
    char *why;
    size_t size;
};

int attn_plot_throughput(const struct attn_canvas *canvas, const struct attn_series *series,
                         struct attn_plot *plot);
/* Time and peak memory over S, log-log. */
int attn_plot_latency(const struct attn_canvas *canvas, const struct attn_series *series,
                      struct attn_plot *plot);
int attn_plot_memory(const struct attn_canvas *canvas, const struct attn_series *series,
                     struct attn_plot *plot);

/* Of the whole run: `series` is not looked at. */
int attn_plot_roofline(const struct attn_canvas *canvas, const struct attn_series *series,
                       struct attn_plot *plot);
int attn_plot_errors(const struct attn_canvas *canvas, const struct attn_series *series,
                     struct attn_plot *plot);

/* Writes plots/FILE. Returns 0, or -1 with the reason. */
int attn_canvas_write(const struct attn_canvas *canvas, const char *file, const char *text,
                      size_t length);
/* A stream in memory; NULL with the reason. attn_canvas_finish closes it, writes it to
 * plots/NAME+suffix and frees (*text, *length). */
FILE *attn_canvas_open(const struct attn_canvas *canvas, const char *name, char **text,
                       size_t *length);
int attn_canvas_finish(const struct attn_canvas *canvas, FILE *stream, const char *name,
                       const char *suffix, char **text, const size_t *length);

/* NAME = 'TEXT'. */
void attn_define(FILE *out, const char *name, const char *text);
/* Two lines under the picture: `first`, then machine and build. */
void attn_define_footer(FILE *out, const json_t *machine, const char *first);
/* n_backends, and label, colour and number of each. The number fixes colour, fill and marker: it is
 * its place among the backends that are counted and have results, in every picture of a report.
 */
void attn_define_backends(FILE *out, const struct attn_view *view, const size_t *backends,
                          size_t count, const char *const *labels);
/* The labels of the view, in attn_define_backends. */
void attn_define_labels(FILE *out, const struct attn_view *view, const size_t *backends,
                        size_t count);
void attn_define_points(FILE *out, const struct attn_series *series);
/* " 1.5", or " ?" where there is no figure. */
void attn_put_number(FILE *out, double value);

#endif
