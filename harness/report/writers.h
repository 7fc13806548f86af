/* SPDX-License-Identifier: Apache-2.0 */
/* writers.h - one function a format; each writes a whole document to a stream. */
#ifndef ATTN_REPORT_WRITERS_H
#define ATTN_REPORT_WRITERS_H

#include <stdio.h>

#include "report/heatmap.h"
#include "report/plots.h"
#include "report/speedup.h"
#include "report/view.h"

struct attn_report_parts {
    const struct attn_run_data *run;
    const struct attn_view *view;
    const struct attn_plots *plots;
    const struct attn_heatmaps *heatmaps;
    const struct attn_speedup *speedup;
    const char *note; /* why pictures are missing, or "" */
};

/* One line a bench record, every numeric field; RFC 4180. */
void attn_csv_put(FILE *out, const struct attn_view *view);

/* Returns 0, or -1 without memory. */
int attn_markdown_put(FILE *out, const struct attn_report_parts *parts);

/* `page` is reports/template.html; the pictures are read back from OUT_DIR/plots and embedded.
 * Returns 0, or -1 with the reason (an unknown placeholder, an unreadable picture). */
int attn_html_put(FILE *out, const char *page, const char *out_dir,
                  const struct attn_report_parts *parts, char *why, size_t size);

/* A testsuite for each backend that computes something, a testcase for each verification. */
void attn_junit_put(FILE *out, const struct attn_view *view);

/* The placeholders of the page that are tables of results; -1 without memory. */
int attn_html_put_results(FILE *out, const struct attn_view *view);
int attn_html_put_skips(FILE *out, const struct attn_view *view);
/* Nothing where there is no baseline. */
void attn_html_put_speedup(FILE *out, const struct attn_speedup *speedup);
/* Nothing where the run kept no weights of packs. The page's carries the pictures of OUT_DIR/plots
 * and returns 0, or -1 with the reason. */
int attn_html_put_heatmaps(FILE *out, const char *out_dir, const struct attn_view *view,
                           const struct attn_heatmaps *maps, char *why, size_t size);
void attn_markdown_put_heatmaps(FILE *out, const struct attn_view *view,
                                const struct attn_heatmaps *maps);
/* An SVG as what follows "data:image/svg+xml,". */
void attn_html_put_url(FILE *out, const char *text);
/* <td class="CLASS">TEXT</td>, escaped; a dash for "". */
void attn_html_put_cell(FILE *out, const char *class, const char *text);
/* The same of a figure, which the page's script sorts by `value`; NAN goes last. */
void attn_html_put_figure(FILE *out, const char *class, double value, const char *text);
/* The same with a smaller line below it, where there is a note. */
void attn_html_put_noted(FILE *out, const char *class, double value, const char *text,
                         const char *note);
/* Whether an id may stand in an address as it is; others are not linked. */
bool attn_html_anchor(const char *id);
/* The cell that names a case, with a link to its line in the results. */
void attn_html_put_case(FILE *out, const struct attn_view_row *row);

#endif
