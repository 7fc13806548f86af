/* SPDX-License-Identifier: Apache-2.0 */
/* passes_put.c - the section on both passes: a line a backend, a line a case. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "report/passes.h"
#include "report/ranking.h"
#include "report/table.h"
#include "report/writers.h"

static const char title[] = "Forward and backward";
static const char explained[] =
    "Cases that were timed in both passes, with the same sizes, masks and threads on the same "
    "backend. Ratio: time of the backward pass over that of the forward pass, of round medians "
    "that did not take turns; means are geometric. " ATTN_PASSES_CONVENTION
    ". So at a ratio of 2.5 both have the same rate; rates are in GFLOP/s. A backward pass gets "
    "OUT and LSE from the "
    "harness: its time holds no forward pass, but that of a backend marked so.";

static const char *const backend_heads[] = {"backend", "cases",    "ratio", "95 % interval",
                                            "least",   "greatest", NULL};
static const char *const case_heads[] = {
    "case",         "backend",       "forward",      "backward",      "ratio", "95 % interval",
    "forward rate", "backward rate", "forward peak", "backward peak", NULL};

static void add_figure(struct attn_table_line *line, double value)
{
    char text[ATTN_FIGURE_MAX];
    attn_table_add_number(line, value, attn_figure(value, text));
}

static void add_interval(struct attn_table_line *line, const struct attn_ratio *ratio)
{
    char text[ATTN_TABLE_CELL], lo[ATTN_FIGURE_MAX], hi[ATTN_FIGURE_MAX];
    const bool known = isfinite(ratio->hi) && ratio->lo > 0;
    snprintf(text, sizeof text, known ? "%s to %s" : ATTN_DASH, attn_figure(ratio->lo, lo),
             attn_figure(ratio->hi, hi));
    attn_table_add_text(line, text);
}

/* "torch_math, forward included": it makes LSE itself. */
static void add_backend(struct attn_table_line *line, const struct attn_view *view,
                        const struct attn_view_row *row)
{
    char text[ATTN_TABLE_CELL];
    const bool own = attn_field_number(row->verify, "numerics.bwd_lse") == 1;
    snprintf(text, sizeof text, "%.120s%s", view->backends[row->backend].label,
             own ? ", forward included" : "");
    attn_table_add_text(line, text);
}

/* The mean over the cases of a backend; no cells if it has none. `ratios` has room for all. */
static struct attn_table_line backend_line(const struct attn_view *view,
                                           const struct attn_passes *passes, size_t backend,
                                           struct attn_ratio *ratios)
{
    struct attn_table_line line = {0};
    char cases[ATTN_FIGURE_MAX];
    double least = INFINITY, greatest = 0;
    size_t n = 0;
    for (size_t i = 0; i < passes->count; i++) {
        const struct attn_pass_pair *pair = &passes->pairs[i];
        if (pair->backward->backend != backend)
            continue;
        if (n == 0)
            add_backend(&line, view, pair->backward);
        ratios[n++] = pair->ratio;
        least = fmin(least, pair->ratio.ratio);
        greatest = fmax(greatest, pair->ratio.ratio);
    }
    if (n == 0)
        return line;
    const struct attn_ratio mean = attn_ratio_mean(ratios, n);
    snprintf(cases, sizeof cases, "%zu", n);
    attn_table_add_number(&line, (double)n, cases);
    add_figure(&line, mean.ratio);
    add_interval(&line, &mean);
    add_figure(&line, least);
    add_figure(&line, greatest);
    return line;
}

static void add_peak(struct attn_table_line *line, double bytes)
{
    char text[ATTN_FIGURE_MAX];
    attn_table_add_number(line, bytes, attn_figure_bytes(bytes, text));
}

static struct attn_table_line case_line(const struct attn_view *view,
                                        const struct attn_pass_pair *pair)
{
    struct attn_table_line line = {0};
    char text[ATTN_TABLE_CELL];
    attn_pass_words(pair->forward, text, sizeof text);
    attn_table_add_text(&line, text);
    add_backend(&line, view, pair->backward);
    attn_table_add_time(&line, pair->forward->median);
    attn_table_add_time(&line, pair->backward->median);
    add_figure(&line, pair->ratio.ratio);
    add_interval(&line, &pair->ratio);
    add_figure(&line, pair->forward->gflops);
    add_figure(&line, pair->backward->gflops);
    add_peak(&line, pair->forward->peak);
    add_peak(&line, pair->backward->peak);
    return line;
}

/* How a document writes a table. */
struct writer {
    void (*heads)(FILE *out, const char *const *heads, size_t words);
    void (*line)(FILE *out, const struct attn_table_line *line);
};

static int put_backends(FILE *out, const struct attn_view *view, const struct attn_passes *passes,
                        const struct writer *writer)
{
    struct attn_ratio *ratios = calloc(passes->count, sizeof *ratios);
    if (!ratios)
        return -1;
    writer->heads(out, backend_heads, 1);
    for (size_t b = 0; b < view->n_backends; b++) {
        const struct attn_table_line line = backend_line(view, passes, b, ratios);
        if (line.n)
            writer->line(out, &line);
    }
    free(ratios);
    return 0;
}

static void put_cases(FILE *out, const struct attn_view *view, const struct attn_passes *passes,
                      const struct writer *writer)
{
    writer->heads(out, case_heads, 2);
    for (size_t i = 0; i < passes->count; i++) {
        const struct attn_table_line line = case_line(view, &passes->pairs[i]);
        writer->line(out, &line);
    }
}

int attn_markdown_put_passes(FILE *out, const struct attn_view *view)
{
    static const struct writer writer = {attn_markdown_put_heads, attn_markdown_put_line};
    struct attn_passes passes;
    int status = 0;
    if (attn_passes_create(view, &passes) != 0)
        return -1;
    if (passes.count) {
        fprintf(out, "\n## %s\n\n%s\n", title, explained);
        status = put_backends(out, view, &passes, &writer);
        put_cases(out, view, &passes, &writer);
    }
    attn_passes_free(&passes);
    return status;
}

int attn_html_put_passes(FILE *out, const struct attn_view *view)
{
    static const struct writer writer = {attn_html_put_heads, attn_html_put_line};
    struct attn_passes passes;
    int status = 0;
    if (attn_passes_create(view, &passes) != 0)
        return -1;
    if (passes.count) {
        fprintf(out, "<h2>%s</h2>\n<p class=\"soft\">%s</p>\n", title, explained);
        status = put_backends(out, view, &passes, &writer);
        attn_html_end_table(out);
        fprintf(out, "<details><summary>By case: %zu</summary>\n", passes.count);
        put_cases(out, view, &passes, &writer);
        attn_html_end_table(out);
        fputs("</details>\n", out);
    }
    attn_passes_free(&passes);
    return status;
}
