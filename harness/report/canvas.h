/* SPDX-License-Identifier: Apache-2.0 */
/* canvas.h - shared parts of the picture writers: files under plots/, definitions for gnuplot, and
 * one function for each kind of picture. Each of these functions writes NAME.dat and NAME.def.gp
 * and fills *plot except `drawn`. It returns 1; 0 if the results hold nothing to draw; or -1 with
 * the reason. */
#ifndef ATTN_REPORT_CANVAS_H
#define ATTN_REPORT_CANVAS_H

#include <stdio.h>

#include "report/ranking.h"
#include "report/series.h"
#include "report/speedup.h"
#include "report/types.h"

struct attn_canvas {
    const struct attn_view *view;
    const json_t *machine;
    const char *out_dir;
    char *why;
    size_t size;
    const struct attn_speedup *speedup;
    const struct attn_ranking *ranking;
};

int attn_plot_throughput(const struct attn_canvas *canvas, const struct attn_series *series,
                         struct attn_plot *plot);
/* The same of single cases, for a run without a sweep; `series` is ignored. */
int attn_plot_cases(const struct attn_canvas *canvas, const struct attn_series *series,
                    struct attn_plot *plot);
/* Time and peak memory over S, log-log. */
int attn_plot_latency(const struct attn_canvas *canvas, const struct attn_series *series,
                      struct attn_plot *plot);
int attn_plot_memory(const struct attn_canvas *canvas, const struct attn_series *series,
                     struct attn_plot *plot);

/* These show the whole run and ignore `series`. */
int attn_plot_roofline(const struct attn_canvas *canvas, const struct attn_series *series,
                       struct attn_plot *plot);
int attn_plot_errors(const struct attn_canvas *canvas, const struct attn_series *series,
                     struct attn_plot *plot);
/* Every sample of the run, by backend. Folded. */
int attn_plot_samples(const struct attn_canvas *canvas, const struct attn_series *series,
                      struct attn_plot *plot);
/* Cases of the families with most work, by backend. */
int attn_plot_speedup(const struct attn_canvas *canvas, const struct attn_series *series,
                      struct attn_plot *plot);

/* Rates of the forward and the backward pass over S, a panel for each backend and mask. */
int attn_plot_passes(const struct attn_canvas *canvas, const struct attn_series *series,
                     struct attn_plot *plot);

/* Error against time of operators that approximate attention. */
int attn_plot_approximations(const struct attn_canvas *canvas, const struct attn_series *series,
                             struct attn_plot *plot);

/* Time over that of the fastest at each size of every sweep. */
int attn_plot_best(const struct attn_canvas *canvas, const struct attn_series *series,
                   struct attn_plot *plot);

/* 0xRRGGBB of a speed-up > 0: near white for 1, full at 2 to the power `range` and at its inverse.
 */
unsigned attn_speedup_colour(double ratio, double range);

/* Writes plots/FILE. Returns 0, or -1 with the reason. */
int attn_canvas_write(const struct attn_canvas *canvas, const char *file, const char *text,
                      size_t length);
/* Opens a stream in memory; NULL with the reason. attn_canvas_finish closes it, writes it to
 * plots/NAME+suffix and frees *text. */
FILE *attn_canvas_open(const struct attn_canvas *canvas, const char *name, char **text,
                       size_t *length);
int attn_canvas_finish(const struct attn_canvas *canvas, FILE *stream, const char *name,
                       const char *suffix, char **text, const size_t *length);

/* Writes NAME = 'TEXT'; ARRAY[index + 1] = 'TEXT'. */
void attn_define(FILE *out, const char *name, const char *text);
void attn_define_at(FILE *out, const char *array, size_t index, const char *text);
/* Writes n_notes and notes[], the lines under a picture: `first`, in which a line break begins a
 * line, then machine and build. A line that is too wide is broken at a blank. */
void attn_define_footer(FILE *out, const json_t *machine, const char *first);
/* The caption of a page: what is constant, unless it is "", and the same notes, each with a full
 * stop, then `more`: "" or sentences, with a blank before each. */
void attn_canvas_caption(struct attn_plot *plot, const char *constants, const char *notes,
                         const char *more);
/* Writes n_backends, and the label, colour and number of each backend. The number is the backend's
 * place among the counted backends with results. It fixes colour, fill and marker, and is the same
 * in every picture of a report. */
void attn_define_backends(FILE *out, const struct attn_view *view, const size_t *backends,
                          size_t count, const char *const *labels);
/* attn_define_backends with the labels of the view. */
void attn_define_labels(FILE *out, const struct attn_view *view, const size_t *backends,
                        size_t count);
void attn_define_points(FILE *out, const struct attn_series *series);
/* Writes ARRAY[index + 1] = '128 256 512': the sizes of a sweep. */
void attn_define_sizes(FILE *out, const char *array, size_t index,
                       const struct attn_series *series);
/* The first `length` bytes of a text as the name of a row, at most 36 of them: a longer one is cut
 * between characters, because half of one spoils a picture. */
#define ATTN_ROW_NAME_MAX 48
void attn_row_name(char name[ATTN_ROW_NAME_MAX], const char *text, size_t length);
/* Writes " 1.5", or " ?" if there is no figure. */
void attn_put_number(FILE *out, double value);

#endif
