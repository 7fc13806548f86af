/* SPDX-License-Identifier: Apache-2.0 */
/* writers.h - one function for each format. Each writes a whole document to a stream. */
#ifndef ATTN_REPORT_WRITERS_H
#define ATTN_REPORT_WRITERS_H

#include <stdio.h>

#include "report/heatmap.h"
#include "report/plots.h"
#include "report/ranking.h"
#include "report/speedup.h"
#include "report/verdict.h"
#include "report/view.h"

struct attn_report_parts {
    const struct attn_run_data *run;
    const struct attn_view *view;
    const struct attn_plots *plots;
    const struct attn_heatmaps *heatmaps;
    const struct attn_speedup *speedup;
    const struct attn_ranking *ranking;
    const struct attn_verdict *verdict;
    const char *note; /* why pictures are missing, or "" */
};

/* One line per bench record with every numeric field; RFC 4180. */
void attn_csv_put(FILE *out, const struct attn_view *view);

/* Returns 0, or -1 without memory. */
int attn_markdown_put(FILE *out, const struct attn_report_parts *parts);

/* `page` is reports/template.html. Reads the pictures of OUT_DIR/plots and embeds them. Returns 0,
 * or -1 with the reason: an unknown placeholder, or an unreadable picture. */
int attn_html_put(FILE *out, const char *page, const char *out_dir,
                  const struct attn_report_parts *parts, char *why, size_t size);

/* One testsuite per backend that computes something, one testcase per verification. */
void attn_junit_put(FILE *out, const struct attn_view *view);

/* Fill the placeholders for tables of results. Return 0, or -1: no memory. */
int attn_html_put_results(FILE *out, const struct attn_view *view);
int attn_html_put_skips(FILE *out, const struct attn_view *view);
/* How much the verdicts prove. Write nothing for a run without counts of checks. */
int attn_html_put_power(FILE *out, const struct attn_view *view);
int attn_markdown_put_power(FILE *out, const struct attn_view *view);
/* The backward pass beside the forward pass. Write nothing for a run without both. */
int attn_html_put_passes(FILE *out, const struct attn_view *view);
int attn_markdown_put_passes(FILE *out, const struct attn_view *view);
/* Approximations of softmax attention beside it. Write nothing for a run without them. */
int attn_html_put_approximations(FILE *out, const struct attn_view *view);
int attn_markdown_put_approximations(FILE *out, const struct attn_view *view);
/* The order of peak memory in S. Write nothing for a run without sweeps over S. */
int attn_html_put_growth(FILE *out, const struct attn_view *view);
int attn_markdown_put_growth(FILE *out, const struct attn_view *view);
/* Who is fastest where, by how much, how sure. Write nothing if no case was timed on two
 * backends. */
void attn_html_put_ranking(FILE *out, const struct attn_report_parts *parts);
void attn_markdown_put_ranking(FILE *out, const struct attn_report_parts *parts);
/* Writes nothing if there is no baseline. */
void attn_html_put_speedup(FILE *out, const struct attn_speedup *speedup);
/* Write nothing if the run kept no weights of packs. The HTML version embeds the pictures of
 * OUT_DIR/plots and returns 0, or -1 with the reason. */
int attn_html_put_heatmaps(FILE *out, const char *out_dir, const struct attn_view *view,
                           const struct attn_heatmaps *maps, char *why, size_t size);
void attn_markdown_put_heatmaps(FILE *out, const struct attn_view *view,
                                const struct attn_heatmaps *maps);
/* Writes a drawn picture of OUT_DIR/plots with its caption. Returns 0, or -1 with the reason. */
int attn_html_put_picture(FILE *out, const char *out_dir, const struct attn_plot *plot, char *why,
                          size_t size);
/* Begins a part of the page that a narrow screen folds away; it ends with </details>. */
#define ATTN_HTML_FOLD(summary) "<details class=\"narrow\" open><summary>" summary "</summary>\n"
/* A text, in which the names of files that lie beside the page are links. */
void attn_html_put_linked(FILE *out, const char *out_dir, const char *text);
/* Links to those files of plots/NAME that are there. */
void attn_html_put_picture_files(FILE *out, const char *out_dir, const char *name);
/* Links to the documents of the report that are there, and to the records in RUN, if it is the
 * folder above. */
void attn_html_put_files(FILE *out, const char *out_dir, const char *run);
/* Writes an SVG as the text after "data:image/svg+xml,". */
void attn_html_put_url(FILE *out, const char *text);
/* Writes <td class="CLASS">TEXT</td>, escaped; a dash for "". */
void attn_html_put_cell(FILE *out, const char *class, const char *text);
/* The same for a figure. The page's script sorts by `value`; NAN goes last. */
void attn_html_put_figure(FILE *out, const char *class, double value, const char *text);
/* The same, with the note as a smaller line below, if there is one. */
void attn_html_put_noted(FILE *out, const char *class, double value, const char *text,
                         const char *note);
/* Writes <th class="CLASS">LABEL</th> of a backend; lines may break within the label. */
void attn_html_put_backend(FILE *out, const char *class, const char *label);
/* Begins the table of a grid, whose first column has this name; a column is left out. */
void attn_html_put_grid_head(FILE *out, const struct attn_view *view, const struct attn_grid *grid,
                             const char *first, size_t left_out);
/* Writes the row that names a group, over so many columns. */
void attn_html_put_group(FILE *out, const char *name, size_t columns);
/* Whether an id can be used in a link unescaped. Others are not linked. */
bool attn_html_anchor(const char *id);
/* Writes the cell that names a case, with a link to its line in the results. */
void attn_html_put_case(FILE *out, const struct attn_view_row *row);

#endif
