/* SPDX-License-Identifier: Apache-2.0 */
/* html_results.c - the tables of index.html that are laid out by case and backend. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/grid.h"
#include "report/limit.h"
#include "report/paired.h"
#include "report/ranking.h"
#include "report/text.h"
#include "report/writers.h"

/* The class of a cell that holds attn_row_mark. */
static const char *mark_class(const struct attn_view_row *row)
{
    return !row || attn_status_holds(row->status) ? "skip" : attn_status_name(row->status);
}

/* Writes the cell of one result. best: the fastest in this case; NULL: none. */
typedef void put_result(FILE *out, const struct attn_view_row *row,
                        const struct attn_view_row *best);

static void put_mark(FILE *out, const struct attn_view_row *row)
{
    const char *reason = !row ? "" : *row->untimed ? row->untimed : row->reason;
    fprintf(out, "<td class=\"m %s\" data-v=\"\"", mark_class(row));
    if (*reason) {
        fputs(" title=\"", out);
        attn_put_html(out, reason);
        fputc('"', out);
    }
    fprintf(out, ">%s</td>", attn_row_mark(row));
}

/* A pass that proves too little and an approximation keep their word beside the figure. */
static void put_word(FILE *out, const struct attn_view_row *row)
{
    if (row->status != ATTN_PASS)
        fprintf(out, " <span class=\"%s\">%s</span>", attn_status_name(row->status),
                attn_status_name(row->status));
}

/* Turns are known better than medians, which may say otherwise: then the cell says why it is not
 * bold. */
static void put_contradiction(FILE *out, const struct attn_view_row *row,
                              const struct attn_view_row *best)
{
    char figure[ATTN_FIGURE_MAX];
    struct attn_ratio ratio;
    if (best && attn_row_ranked(row) && row->median < best->median &&
        attn_paired_ratio_of(row, best, &ratio))
        fprintf(out, "<small>%s in turns</small>", attn_figure(ratio.ratio, figure));
}

static void put_timing(FILE *out, const struct attn_view_row *row, const struct attn_view_row *best)
{
    char figure[ATTN_FIGURE_MAX], share[64], rounds[ATTN_ROUNDS_TEXT];
    const bool bold = attn_row_ties(row, best);
    if (!row || !isfinite(row->median)) {
        put_mark(out, row);
        return;
    }
    fprintf(out, "<td class=\"b%s\" data-v=\"%.6g\">%s%s", bold ? " best" : "", row->median,
            attn_figure_time(row->median, figure), row->marked ? " *" : "");
    put_word(out, row);
    if (attn_field_true(row->bench, "was_warm"))
        fputs(" <span class=\"mistrusted\">not cold</span>", out);
    double half = 100 * (row->hi - row->lo) / 2 / row->median;
    if (isfinite(half))
        fprintf(out, "<i> \xc2\xb1%s&#160;%%</i>", attn_figure(half, figure));
    else if (row->rounds > 1)
        fprintf(out, "<small>%s (%zu)</small>", attn_row_range(row, "\xe2\x80\x93", rounds),
                row->rounds);
    if (!bold)
        put_contradiction(out, row, best);
    if (isfinite(row->gflops)) {
        fprintf(out, "<small>%s", attn_figure(row->gflops, figure));
        if (*attn_limit_text(row, share, sizeof share)) {
            fputs(", ", out);
            attn_put_html(out, share);
        }
        fputs("</small>", out);
    }
    fputs("</td>", out);
}

static void put_check(FILE *out, const struct attn_view_row *row, const struct attn_view_row *best)
{
    char figure[ATTN_FIGURE_MAX], peak[ATTN_FIGURE_MAX];
    (void)best;
    double ratio = row ? attn_field_number(row->verify, "max_ratio") : (double)NAN;
    bool judged =
        row && (row->status == ATTN_FAIL || attn_status_holds(row->status)) && isfinite(ratio);
    if (!judged) {
        if (row && row->status == ATTN_PASS)
            fputs("<td class=\"m pass\" data-v=\"\">pass</td>", out);
        else
            put_mark(out, row);
        return;
    }
    fprintf(out, "<td class=\"b\" data-v=\"%.6g\">%s", ratio, attn_figure(ratio, figure));
    put_word(out, row);
    if (strcmp(attn_field_text(row->verify, "bound"), "stochastic") == 0)
        fputs("<small>stochastic bound</small>", out);
    fprintf(out, "<small>%s</small><small>%s</small></td>",
            attn_figure(attn_field_number(row->verify, "grade"), figure),
            attn_figure_bytes(row->peak, peak));
}

/* The first line of a case on the page is where links to it lead; `anchors` has those given. */
static void put_line_start(FILE *out, const char *id, json_t *anchors)
{
    if (attn_html_anchor(id) && !json_object_get(anchors, id) &&
        json_object_set_new(anchors, id, json_true()) == 0)
        fprintf(out, "<tr id=\"%s\">", id);
    else
        fputs("<tr>", out);
}

static void put_grid(FILE *out, const struct attn_view *view, const struct attn_grid *grid,
                     put_result *put, json_t *anchors)
{
    attn_html_put_grid_head(out, view, grid, "case", grid->n_columns);
    for (size_t i = 0; i < grid->n_lines; i++) {
        const struct attn_grid_line *line = &grid->lines[i];
        if (attn_grid_starts_group(grid, i)) {
            char group[64];
            snprintf(group, sizeof group, "%.*s",
                     line->group_length < 60 ? (int)line->group_length : 60, line->group);
            attn_html_put_group(out, group, 1 + grid->n_columns);
        }
        put_line_start(out, line->row->id, anchors);
        attn_html_put_case(out, line->row);
        const size_t best = attn_fastest(line->cells, grid->n_columns, grid->n_columns);
        for (size_t c = 0; c < grid->n_columns; c++)
            put(out, line->cells[c], best < grid->n_columns ? line->cells[best] : NULL);
        fputs("</tr>\n", out);
    }
    fputs("</tbody></table></div>\n", out);
}

static int put_kind(FILE *out, const struct attn_view *view, enum attn_grid_kind kind,
                    const char *summary, json_t *anchors)
{
    struct attn_grid grid;
    if (attn_grid_create(view, kind, &grid) != 0)
        return -1;
    if (grid.n_lines && summary)
        fprintf(out, "<details><summary>%s</summary>\n", summary);
    if (grid.n_lines && kind == ATTN_GRID_CHECKS)
        fputs("<p class=\"soft\">The largest error over its bound; below it the grade and the peak "
              "memory.</p>\n",
              out);
    if (grid.n_lines)
        put_grid(out, view, &grid, kind == ATTN_GRID_CHECKS ? put_check : put_timing, anchors);
    else if (!summary)
        fputs("<p class=\"soft\">Nothing was timed.</p>\n", out);
    if (grid.n_lines && summary)
        fputs("</details>\n", out);
    attn_grid_free(&grid);
    return 0;
}

#define BOLD_CONVENTION                                                                            \
    "the fastest exact backend of the case, by timings in turns where there are some; several: "   \
    "they cannot be told apart. In turns: the time over the fastest's in the same moments, where " \
    "the medians say otherwise"

/* How the cells of timings are read. */
static void put_legend(FILE *out, const struct attn_view *view)
{
    bool marked = false;
    for (size_t r = 0; r < view->n_rows; r++)
        marked = marked || view->rows[r].marked;
    fputs("<p class=\"soft\">Hot cache, median of a run; \xc2\xb1 is half the width of its 95 % "
          "interval. " ATTN_ROUNDS_CONVENTION
          ", and how many these are; of one round nothing. Below: GFLOP/s and their "
          "share of the machine's limit. Bold: " BOLD_CONVENTION
          "; of one round each, the least median alone, though no order is clear then. Backends "
          "that win most stand first, groups with most work too.",
          out);
    fputs(marked ? " * the cost of the harness is over 1 % of this time." : "", out);
    fputs(" n/a: the backend does not support the case. untimed: verified only; 'Not timed' in the "
          "<a href=\"#verdict\">verdict</a> counts the reasons. A cell without a figure shows its "
          "reason under the pointer. All timings are in <a "
          "href=\"results.csv\">results.csv</a>.</p>\n",
          out);
}

int attn_html_put_results(FILE *out, const struct attn_view *view)
{
    if (attn_view_timed(view))
        put_legend(out, view);
    json_t *anchors = json_object();
    int status =
        !anchors || put_kind(out, view, ATTN_GRID_RESULTS, NULL, anchors) != 0 ||
                put_kind(out, view, ATTN_GRID_COLD, "Cold cache", anchors) != 0 ||
                put_kind(out, view, ATTN_GRID_CHECKS, "Accuracy and peak memory", anchors) != 0 ||
                attn_html_put_paired(out, view) != 0
            ? -1
            : 0;
    json_decref(anchors);
    return status;
}

int attn_html_put_skips(FILE *out, const struct attn_view *view)
{
    struct attn_skips skips;
    if (attn_skips_create(view, &skips) != 0)
        return -1;
    if (skips.count)
        fputs("<h2>Skips</h2>\n" ATTN_HTML_FOLD(
                  "By reason") "<div class=\"wide\"><table "
                               "class=\"grid\">\n<thead><tr><th>reason</th>",
              out);
    for (size_t b = 0; skips.count && b < view->n_backends; b++) {
        if (!view->backends[b].counted || !view->backends[b].counts[ATTN_SKIP])
            continue;
        attn_html_put_backend(out, "n", view->backends[b].label);
    }
    fputs(skips.count ? "</tr></thead>\n<tbody>\n" : "", out);
    for (size_t i = 0; i < skips.count; i++) {
        fputs("<tr>", out);
        attn_html_put_cell(out, "case", skips.items[i].reason);
        for (size_t b = 0; b < view->n_backends; b++)
            if (view->backends[b].counted && view->backends[b].counts[ATTN_SKIP])
                fprintf(out, "<td class=\"n %s\" data-v=\"%zu\">%zu</td>",
                        skips.items[i].counts[b] ? "" : "zero", skips.items[i].counts[b],
                        skips.items[i].counts[b]);
        fputs("</tr>\n", out);
    }
    fputs(skips.count ? "</tbody></table></div>\n</details>\n" : "", out);
    attn_skips_free(&skips);
    return 0;
}
