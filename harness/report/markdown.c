/* SPDX-License-Identifier: Apache-2.0 */
/* markdown.c - report.md: the report as text, with links to the pictures. */
#include <math.h>
#include <string.h>

#include "report/grid.h"
#include "report/limit.h"
#include "report/matrix.h"
#include "report/paired.h"
#include "report/summary.h"
#include "report/text.h"
#include "report/writers.h"

static void put_cell(FILE *out, const char *text)
{
    fputs(" | ", out);
    attn_put_markdown(out, *text ? text : ATTN_DASH);
}

static void put_backends(FILE *out, const struct attn_view *view)
{
    char figure[ATTN_FIGURE_MAX];
    fputs("\n## Verdicts by backend\n\n| backend | version |", out);
    for (int s = 0; s < ATTN_STATUS_COUNT; s++)
        fprintf(out, " %s |", attn_status_name((enum attn_status)s));
    fputs(" worst error/bound | worst grade | median slack |\n|---|---|", out);
    for (int s = 0; s < ATTN_STATUS_COUNT; s++)
        fputs("---:|", out);
    fputs("---:|---:|---:|\n", out);
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
        fprintf(out, " | %s", attn_figure(attn_worst_ratio(view, b), figure));
        fprintf(out, " | %s", attn_figure(attn_worst_grade(view, b), figure));
        fprintf(out, " | %s |\n", attn_figure(backend->slack, figure));
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
        fprintf(out, "\n%s[%s](plots/%s.png)\n\n*", plot->folded ? "" : "!", plot->title,
                plot->name);
        attn_put_markdown(out, plot->caption);
        fputs("*\n", out);
    }
}

static int put_skips(FILE *out, const struct attn_view *view)
{
    struct attn_skips skips;
    if (attn_skips_create(view, &skips) != 0)
        return -1;
    fputs(skips.count ? "\n## Skips\n\n| reason" : "", out);
    for (size_t b = 0; skips.count && b < view->n_backends; b++)
        if (view->backends[b].counted && view->backends[b].counts[ATTN_SKIP])
            put_cell(out, view->backends[b].label);
    fputs(skips.count ? " |\n|---|" : "", out);
    for (size_t b = 0; skips.count && b < view->n_backends; b++)
        if (view->backends[b].counted && view->backends[b].counts[ATTN_SKIP])
            fputs("---:|", out);
    fputs(skips.count ? "\n" : "", out);
    for (size_t i = 0; i < skips.count; i++) {
        fputs("| ", out);
        attn_put_markdown(out, skips.items[i].reason);
        for (size_t b = 0; b < view->n_backends; b++)
            if (view->backends[b].counted && view->backends[b].counts[ATTN_SKIP])
                fprintf(out, " | %zu", skips.items[i].counts[b]);
        fputs(" |\n", out);
    }
    attn_skips_free(&skips);
    return 0;
}

/* "96.2 (94.6 to 97.1) 83 %": the rate, its interval, which is the inverse of the time's, and its
 * share of what the machine allows. */
static void put_rate(FILE *out, const struct attn_view_row *row)
{
    char figure[ATTN_FIGURE_MAX], lo[ATTN_FIGURE_MAX], hi[ATTN_FIGURE_MAX], share[64];
    if (!row || !isfinite(row->median)) {
        fprintf(out, " | %s", attn_row_mark(row));
        return;
    }
    /* A case without work has a time and no rate. */
    fprintf(out, " | %s",
            isfinite(row->gflops) ? attn_figure(row->gflops, figure)
                                  : attn_figure_time(row->median, figure));
    if (isfinite(row->gflops) && isfinite(row->lo) && isfinite(row->hi))
        fprintf(out, " (%s\xe2\x80\x93%s)", attn_figure(row->gflops * row->median / row->hi, lo),
                attn_figure(row->gflops * row->median / row->lo, hi));
    else if (isfinite(row->gflops) && row->rounds > 1)
        fprintf(out, " (%zu rounds: %s\xe2\x80\x93%s)", row->rounds,
                attn_figure(row->gflops * row->median / row->greatest, lo),
                attn_figure(row->gflops * row->median / row->least, hi));
    fputs(row->marked ? " \\*" : "", out);
    if (*attn_limit_text(row, share, sizeof share)) {
        fputs(" \xc2\xb7 ", out);
        attn_put_markdown(out, share);
    }
    if (row->status != ATTN_PASS)
        fprintf(out, " %s", attn_status_name(row->status));
}

static void put_group_head(FILE *out, const struct attn_view *view, const struct attn_grid *grid,
                           const struct attn_grid_line *line)
{
    char group[64];
    snprintf(group, sizeof group, "%.*s", line->group_length < 60 ? (int)line->group_length : 60,
             line->group);
    fputs("\n### ", out);
    attn_put_markdown(out, group);
    fputs("\n\n| case", out);
    for (size_t c = 0; c < grid->n_columns; c++)
        put_cell(out, view->backends[grid->columns[c]].label);
    fputs(" |\n|---|", out);
    for (size_t c = 0; c < grid->n_columns; c++)
        fputs("---:|", out);
    fputc('\n', out);
}

static int put_results(FILE *out, const struct attn_view *view)
{
    struct attn_grid grid;
    bool marked = false;
    if (attn_grid_create(view, ATTN_GRID_RESULTS, &grid) != 0)
        return -1;
    fputs("\n## Results\n\n", out);
    fputs(grid.n_lines
              ? "GFLOP/s from the median time of one run, hot cache, and its 95 % "
                "interval, and the share of the machine's limit. " ATTN_FLOP_CONVENTION
                ". " ATTN_SHARE_CONVENTION
                ". n/a: the backend does not support the case. untimed: verified only; 'Not "
                "timed' in the verdict counts the reasons. Times, bandwidth, memory and the cold "
                "cache are in results.csv.\n"
              : "Nothing was timed.\n",
          out);
    for (size_t i = 0; i < grid.n_lines; i++) {
        const struct attn_grid_line *line = &grid.lines[i];
        if (attn_grid_starts_group(&grid, i))
            put_group_head(out, view, &grid, line);
        fputs("| ", out);
        attn_put_markdown(out, line->row->label);
        for (size_t c = 0; c < grid.n_columns; c++) {
            put_rate(out, line->cells[c]);
            marked = marked || (line->cells[c] && line->cells[c]->marked);
        }
        fputs(" |\n", out);
    }
    if (marked)
        fputs("\n\\* the cost of the harness is over 1 % of this time.\n", out);
    attn_grid_free(&grid);
    return 0;
}

static void put_means(FILE *out, const struct attn_speedup *speedup, const char *name,
                      size_t length, size_t first, size_t end)
{
    char group[64], figure[ATTN_FIGURE_MAX];
    snprintf(group, sizeof group, "%.*s", length < 60 ? (int)length : 60, name);
    fputs("| ", out);
    attn_put_markdown(out, group);
    for (size_t c = 0; c < speedup->grid.n_columns; c++) {
        if (c == speedup->baseline)
            continue;
        struct attn_speedup_mean mean = attn_speedup_mean(speedup, first, end, c);
        fprintf(out, " | %s", attn_figure(mean.mean, figure));
        if (mean.cases)
            fprintf(out, " (%zu)", mean.cases);
    }
    fputs(" |\n", out);
}

static void put_speedup(FILE *out, const struct attn_speedup *speedup)
{
    const struct attn_grid *grid = &speedup->grid;
    if (speedup->baseline == grid->n_columns)
        return;
    fputs("\n## Speed-up over ", out);
    attn_put_markdown(out, speedup->view->backends[grid->columns[speedup->baseline]].label);
    fprintf(out,
            "\n\nIts time divided by the backend's time, hot cache: above 1 the backend is faster. "
            "Geometric mean over the cases in which both were timed, and their number.%s\n\n"
            "| cases",
            speedup->chosen ? " The baseline is " ATTN_BASELINE_RULE "." : "");
    for (size_t c = 0; c < grid->n_columns; c++)
        if (c != speedup->baseline)
            put_cell(out, speedup->view->backends[grid->columns[c]].label);
    fputs(" |\n|---|", out);
    for (size_t c = 1; c < grid->n_columns; c++)
        fputs("---:|", out);
    fputc('\n', out);
    for (size_t first = 0, end; first < grid->n_lines; first = end) {
        const struct attn_grid_line *line = &grid->lines[first];
        end = attn_speedup_group_end(speedup, first);
        if (attn_speedup_any(speedup, first, end))
            put_means(out, speedup, line->group, line->group_length, first, end);
    }
}

/* "438 pass, 77 skip". */
static void put_verdicts(FILE *out, const struct attn_view *view)
{
    const char *between = "\n- Verdicts: ";
    for (int s = 0; s < ATTN_STATUS_COUNT; s++) {
        size_t count = attn_verdict_count(view, (enum attn_status)s);
        if (!count)
            continue;
        fprintf(out, "%s%zu %s", between, count, attn_status_name((enum attn_status)s));
        between = ", ";
    }
}

int attn_markdown_put(FILE *out, const struct attn_report_parts *parts)
{
    const bool timed = attn_view_timed(parts->view);
    char line[320], ceilings[640];
    fputs("# attnbench report\n\n", out);
    attn_machine_text(parts->run->machine, line, sizeof line);
    fputs("- Machine: ", out);
    attn_put_markdown(out, line);
    if (timed) {
        attn_ceilings_text(parts->run->machine, ceilings, sizeof ceilings);
        fputs("\n- Ceilings, measured in this run: ", out);
        attn_put_markdown(out, ceilings);
    }
    attn_build_text(parts->run->machine, line, sizeof line);
    fputs("\n- Build: ", out);
    attn_put_markdown(out, line);
    attn_system_text(parts->run->machine, line, sizeof line);
    fputs("\n- System: ", out);
    attn_put_markdown(out, line);
    if (timed) {
        attn_protocol_text(parts->view, parts->run->machine, line, sizeof line);
        fputs("\n- Protocol: ", out);
        attn_put_markdown(out, line);
        fprintf(out, "; %s", attn_interval_text(parts->view));
    }
    put_verdicts(out, parts->view);
    fputc('\n', out);
    if (*parts->run->lacking) {
        fputs("- Not whole: ", out);
        attn_put_markdown(out, parts->run->lacking);
        fputc('\n', out);
    }
    attn_verdict_put_markdown(out, parts->verdict);
    attn_markdown_put_ranking(out, parts);
    put_troubles(out, parts->view);
    put_backends(out, parts->view);
    if (attn_markdown_put_power(out, parts->view) != 0 || put_skips(out, parts->view) != 0)
        return -1;
    put_pictures(out, parts);
    if (attn_markdown_put_passes(out, parts->view) != 0 ||
        attn_markdown_put_approximations(out, parts->view) != 0 ||
        attn_markdown_put_growth(out, parts->view) != 0)
        return -1;
    put_speedup(out, parts->speedup);
    attn_markdown_put_heatmaps(out, parts->view, parts->heatmaps);
    if (put_results(out, parts->view) != 0 || attn_markdown_put_paired(out, parts->view) != 0)
        return -1;
    return attn_matrix_put_markdown(out, parts->run->matrix);
}
