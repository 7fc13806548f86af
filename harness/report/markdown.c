/* SPDX-License-Identifier: Apache-2.0 */
/* markdown.c - report.md: the report as text, with links to the pictures. */
#include <math.h>
#include <string.h>

#include "report/text.h"
#include "report/writers.h"

bool attn_row_is_trouble(const struct attn_view_row *row)
{
    return row->status != ATTN_PASS && row->status != ATTN_APPROX && row->status != ATTN_SKIP;
}

const char *attn_row_verdict(const struct attn_view *view, const struct attn_view_row *row)
{
    if (!view->backends[row->backend].counted && row->status == ATTN_PASS)
        return "unverified";
    return attn_status_name(row->status);
}

static void put_cell(FILE *out, const char *text)
{
    fputs(" | ", out);
    attn_put_markdown(out, *text ? text : ATTN_DASH);
}

static void put_backends(FILE *out, const struct attn_view *view)
{
    fputs("\n## Verdicts by backend\n\n| backend | version |", out);
    for (int s = 0; s < ATTN_STATUS_COUNT; s++)
        fprintf(out, " %s |", attn_status_name((enum attn_status)s));
    fputs("\n|---|---|", out);
    for (int s = 0; s < ATTN_STATUS_COUNT; s++)
        fputs("---:|", out);
    fputc('\n', out);
    for (size_t b = 0; b < view->n_backends; b++) {
        const struct attn_view_backend *backend = &view->backends[b];
        const char *reason = attn_field_text(backend->info, "reason");
        if (!backend->cases && !*reason)
            continue;
        fputs("| ", out);
        attn_put_markdown(out, backend->label);
        put_cell(out, !backend->cases     ? reason
                      : !backend->counted ? "computes nothing: measures the harness"
                                          : attn_field_text(backend->info, "version"));
        for (int s = 0; s < ATTN_STATUS_COUNT; s++)
            fprintf(out, " | %zu", backend->counts[s]);
        fputs(" |\n", out);
    }
}

static void put_troubles(FILE *out, const struct attn_view *view)
{
    size_t found = 0;
    for (size_t r = 0; r < view->n_rows; r++) {
        const struct attn_view_row *row = &view->rows[r];
        if (!row->first || !attn_row_is_trouble(row))
            continue;
        if (!found++)
            fputs(
                "\n## Needs attention\n\n| verdict | backend | case | reason | to see it again |\n"
                "|---|---|---|---|---|\n",
                out);
        fprintf(out, "| **%s**", attn_status_name(row->status));
        put_cell(out, view->backends[row->backend].label);
        put_cell(out, row->label);
        put_cell(out, row->reason);
        put_cell(out, row->repro);
        fputs(" |\n", out);
    }
    if (!found)
        fputs("\nNothing failed.\n", out);
}

static void put_pictures(FILE *out, const struct attn_report_parts *parts)
{
    fputs("\n## Pictures\n", out);
    if (*parts->note)
        fprintf(out, "\n%s.\n", parts->note);
    for (size_t p = 0; p < parts->plots->count; p++) {
        const struct attn_plot *plot = &parts->plots->items[p];
        if (!plot->drawn)
            continue;
        fprintf(out, "\n![%s](plots/%s.png)\n\n*", plot->title, plot->name);
        attn_put_markdown(out, plot->caption);
        fputs("*\n", out);
    }
}

static void put_interval(FILE *out, const struct attn_view_row *row)
{
    char lo[ATTN_FIGURE_MAX], hi[ATTN_FIGURE_MAX];
    if (isfinite(row->lo) && isfinite(row->hi))
        fprintf(out, " | %s to %s", attn_figure_time(row->lo, lo), attn_figure_time(row->hi, hi));
    else
        fputs(" | " ATTN_DASH, out);
}

static void put_results(FILE *out, const struct attn_view *view)
{
    bool marked = false;
    fputs(
        "\n## Results\n\nTime is of one run, median; GFLOP/s from the median; " ATTN_FLOP_CONVENTION
        ". GB/s: each operand once.\n\n"
        "| case | backend | verdict | error/bound | cache | median | 95 % interval | GFLOP/s | "
        "GB/s | peak memory |\n|---|---|---|---:|---|---:|---:|---:|---:|---:|\n",
        out);
    for (size_t r = 0; r < view->n_rows; r++) {
        const struct attn_view_row *row = &view->rows[r];
        char figure[ATTN_FIGURE_MAX];
        fputs("| ", out);
        attn_put_markdown(out, row->label);
        put_cell(out, view->backends[row->backend].label);
        put_cell(out, attn_row_verdict(view, row));
        put_cell(out, attn_figure(attn_field_number(row->verify, "max_ratio"), figure));
        put_cell(out, row->cache);
        fprintf(out, " | %s%s", attn_figure_time(row->median, figure), row->marked ? " \\*" : "");
        put_interval(out, row);
        put_cell(out, attn_figure(row->gflops, figure));
        put_cell(out, attn_figure(row->gbs, figure));
        put_cell(out, attn_figure_bytes(row->peak, figure));
        fputs(" |\n", out);
        marked = marked || row->marked;
    }
    if (marked)
        fputs("\n\\* the harness's own cost is over 1 % of this time.\n", out);
}

void attn_markdown_put(FILE *out, const struct attn_report_parts *parts)
{
    char line[320];
    fputs("# attnbench report\n\n", out);
    attn_machine_text(parts->run->machine, line, sizeof line);
    fputs("- Machine: ", out);
    attn_put_markdown(out, line);
    attn_build_text(parts->run->machine, line, sizeof line);
    fputs("\n- Build: ", out);
    attn_put_markdown(out, line);
    attn_protocol_text(parts->run->machine, line, sizeof line);
    fputs("\n- Protocol: ", out);
    attn_put_markdown(out, line);
    fputs("; the interval is of the median over rounds\n", out);
    if (parts->run->torn)
        fputs("- The run was cut short: half a record at its end was dropped\n", out);
    put_troubles(out, parts->view);
    put_backends(out, parts->view);
    put_pictures(out, parts);
    put_results(out, parts->view);
}
