/* SPDX-License-Identifier: Apache-2.0 */
/* paired_put.c - ratios to the best backend, as a section of each document. */
#include <math.h>

#include "report/paired.h"
#include "report/text.h"
#include "report/writers.h"

#define CONVENTION                                                                                 \
    "All backends of a case were live at once and took turns by fractions of a millisecond. The "  \
    "figure is the backend's time over that of the case's best backend, in the same moments, "     \
    "with its 95 % interval over the rounds that no other work on the core disturbed"

/* The words of a cell, "1.240 (1.231-1.250)" with a dash; "" where there is no ratio. */
static const char *cell_text(const struct attn_grid *grid, size_t line, size_t best, size_t column,
                             double *value, char *text, size_t size)
{
    const struct attn_view_row **cells = grid->lines[line].cells;
    struct attn_ratio ratio = {.ratio = NAN};
    text[0] = '\0';
    if (cells[column] && isfinite(cells[column]->median) &&
        attn_paired_ratio_of(cells[column], cells[best], &ratio)) {
        if (column == best)
            snprintf(text, size, "1");
        else if (isfinite(ratio.hi))
            snprintf(text, size, "%.3f (%.3f\xe2\x80\x93%.3f)", ratio.ratio, ratio.lo, ratio.hi);
        else
            snprintf(text, size, "%.3f", ratio.ratio);
    }
    *value = ratio.ratio;
    return *text ? text : ATTN_DASH;
}

static void put_widths(FILE *out, const struct attn_grid *grid)
{
    const struct attn_paired_widths widths = attn_paired_widths_of(grid);
    if (widths.ratios > 0)
        fprintf(out,
                "The median width of %zu intervals is %.2g %% of the ratio; %.0f %% of the rounds "
                "were disturbed",
                widths.ratios, 100 * widths.median, 100 * widths.disturbed);
    else
        fputs("There are no intervals: they need two rounds of two backends", out);
}

/* The grid of hot results, without lines if no backends took turns. Returns 0, or -1. */
static int grid_create(const struct attn_view *view, struct attn_grid *grid)
{
    bool any = false;
    if (attn_grid_create(view, ATTN_GRID_HOT, grid) != 0)
        return -1;
    for (size_t i = 0; i < grid->n_lines; i++)
        any = any || attn_paired_best(grid, i) < grid->n_columns;
    if (!any)
        grid->n_lines = 0;
    return 0;
}

static void put_html_line(FILE *out, const struct attn_grid *grid, size_t line)
{
    const size_t best = attn_paired_best(grid, line);
    if (best == grid->n_columns)
        return;
    fputs("<tr>", out);
    attn_html_put_case(out, grid->lines[line].row);
    for (size_t c = 0; c < grid->n_columns; c++) {
        double value;
        char text[96];
        const char *words = cell_text(grid, line, best, c, &value, text, sizeof text);
        attn_html_put_figure(out, "b ends", value, words);
    }
    fputs("</tr>\n", out);
}

int attn_html_put_paired(FILE *out, const struct attn_view *view)
{
    struct attn_grid grid;
    if (grid_create(view, &grid) != 0)
        return -1;
    if (grid.n_lines) {
        fputs("<h2>Ratios to the best backend</h2>\n<p class=\"soft\">" CONVENTION ". ", out);
        put_widths(out, &grid);
        fputs(".</p>\n<details><summary>Ratios by case</summary>\n", out);
        attn_html_put_grid_head(out, view, &grid, "case", grid.n_columns);
        for (size_t i = 0; i < grid.n_lines; i++)
            put_html_line(out, &grid, i);
        fputs("</tbody></table></div>\n</details>\n", out);
    }
    attn_grid_free(&grid);
    return 0;
}

static void put_markdown_line(FILE *out, const struct attn_grid *grid, size_t line)
{
    const size_t best = attn_paired_best(grid, line);
    if (best == grid->n_columns)
        return;
    fputs("| ", out);
    attn_put_markdown(out, grid->lines[line].row->label);
    for (size_t c = 0; c < grid->n_columns; c++) {
        double value;
        char text[96];
        fprintf(out, " | %s", cell_text(grid, line, best, c, &value, text, sizeof text));
    }
    fputs(" |\n", out);
}

int attn_markdown_put_paired(FILE *out, const struct attn_view *view)
{
    struct attn_grid grid;
    if (grid_create(view, &grid) != 0)
        return -1;
    if (grid.n_lines) {
        fputs("\n## Ratios to the best backend\n\n" CONVENTION ". ", out);
        put_widths(out, &grid);
        fputs(".\n\n| case", out);
        for (size_t c = 0; c < grid.n_columns; c++) {
            fputs(" | ", out);
            attn_put_markdown(out, view->backends[grid.columns[c]].label);
        }
        fputs(" |\n|---|", out);
        for (size_t c = 0; c < grid.n_columns; c++)
            fputs("---:|", out);
        fputc('\n', out);
        for (size_t i = 0; i < grid.n_lines; i++)
            put_markdown_line(out, &grid, i);
    }
    attn_grid_free(&grid);
    return 0;
}
