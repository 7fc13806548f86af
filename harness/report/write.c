/* SPDX-License-Identifier: Apache-2.0 */
/* write.c - the report: every document of a run into one folder. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "report/text.h"
#include "report/writers.h"

enum document { DOCUMENT_CSV, DOCUMENT_MARKDOWN, DOCUMENT_JUNIT, DOCUMENT_HTML, DOCUMENT_COUNT };

static const char *const file_names[] = {"results.csv", "report.md", "junit.xml", "index.html"};

static int put_document(FILE *out, enum document kind, const struct attn_report_parts *parts,
                        const char *page, const char *out_dir, char *why, size_t size)
{
    switch (kind) {
    case DOCUMENT_CSV:
        attn_csv_put(out, parts->view);
        return 0;
    case DOCUMENT_MARKDOWN:
        if (attn_markdown_put(out, parts) == 0)
            return 0;
        snprintf(why, size, "no memory for %s", file_names[kind]);
        return -1;
    case DOCUMENT_JUNIT:
        attn_junit_put(out, parts->view);
        return 0;
    default:
        return attn_html_put(out, page, out_dir, parts, why, size);
    }
}

/* A document is written whole or not at all: it is made in memory first. */
static int write_document(enum document kind, const struct attn_report_parts *parts,
                          const char *page, const char *out_dir, char *why, size_t size)
{
    char path[4352], *text = NULL;
    size_t length = 0;
    snprintf(path, sizeof path, "%s/%s", out_dir, file_names[kind]);
    FILE *out = attn_text_open(&text, &length);
    if (!out) {
        snprintf(why, size, "no memory for %s", path);
        return -1;
    }
    int status = put_document(out, kind, parts, page, out_dir, why, size);
    if (fclose(out) != 0 && status == 0) {
        snprintf(why, size, "no memory for %s", path);
        status = -1;
    }
    if (status == 0)
        status = attn_file_write(path, text, length, why, size);
    free(text);
    return status;
}

int attn_report_write(const struct attn_run_data *run, const struct attn_report_options *options,
                      char *note, size_t note_size, char *why, size_t size)
{
    const char *script_dir = options->script_dir, *out_dir = options->out_dir;
    struct attn_view view = {0};
    struct attn_plots plots;
    struct attn_heatmaps heatmaps = {0};
    struct attn_speedup speedup = {0};
    struct attn_ranking ranking = {0};
    struct attn_verdict *verdict = malloc(sizeof *verdict);
    char path[4352], *page = NULL;
    size_t length;
    int status = -1;
    if (strlen(out_dir) > 4096 || strlen(script_dir) > 4096) {
        snprintf(why, size, "the path of the report is too long");
        return -1;
    }
    if (mkdir(out_dir, 0755) != 0 && errno != EEXIST) {
        snprintf(why, size, "%s: %s", out_dir, strerror(errno));
        return -1;
    }
    snprintf(path, sizeof path, "%s/template.html", script_dir);
    page = attn_file_read(path, &length, why, size);
    if (!page || attn_view_create(run->records, run->machine, &view, why, size) != 0)
        goto out;
    int fit = attn_speedup_create(&view, options->baseline, &speedup, why, size);
    if (fit != 0) {
        status = fit;
        goto out;
    }
    if (!verdict || attn_ranking_create(&speedup.grid, &ranking) != 0 ||
        attn_verdict_make(run, &view, &ranking, verdict) != 0) {
        snprintf(why, size, "no memory for the ranking of backends");
        goto out;
    }
    const struct attn_canvas canvas = {&view, run->machine, out_dir, why, size, &speedup, &ranking};
    if (attn_plots_write(&canvas, script_dir, &plots, note, note_size) != 0 ||
        attn_heatmaps_write(&canvas, run->path, script_dir, plots.stuck, &heatmaps) != 0)
        goto out;
    struct attn_report_parts parts = {run,      &view,    &plots,  &heatmaps,
                                      &speedup, &ranking, verdict, note};
    for (int kind = 0; kind < DOCUMENT_COUNT; kind++)
        if (write_document((enum document)kind, &parts, page, out_dir, why, size) != 0)
            goto out;
    status = plots.broken ? 2 : 0;
out:
    attn_heatmaps_free(&heatmaps);
    attn_ranking_free(&ranking);
    attn_speedup_free(&speedup);
    attn_view_free(&view);
    free(verdict);
    free(page);
    return status;
}
