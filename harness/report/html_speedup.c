/* SPDX-License-Identifier: Apache-2.0 */
/* html_speedup.c - the tables of index.html that hold every backend against the baseline. */
#include <math.h>

#include "report/speedup.h"
#include "report/text.h"
#include "report/writers.h"

static void put_head(FILE *out, const struct attn_speedup *speedup, const char *first,
                     const char *heads, int width)
{
    fprintf(out, "<div class=\"wide\"><table class=\"grid\">\n<thead><tr><th rowspan=\"2\">%s</th>",
            first);
    for (size_t c = 0; c < speedup->grid.n_columns; c++) {
        if (c == speedup->baseline)
            continue;
        fprintf(out, "<th class=\"b\" colspan=\"%d\">", width);
        attn_put_html(out, speedup->view->backends[speedup->grid.columns[c]].label);
        fputs("</th>", out);
    }
    fputs("</tr>\n<tr>", out);
    for (size_t c = 1; c < speedup->grid.n_columns; c++)
        fputs(heads, out);
    fputs("</tr></thead>\n<tbody>\n", out);
}

/* A ratio over its two ends. */
static void put_ratio(FILE *out, double ratio, double low, double high)
{
    char figure[ATTN_FIGURE_MAX], from[ATTN_FIGURE_MAX], to[ATTN_FIGURE_MAX];
    char ends[2 * ATTN_FIGURE_MAX + 4] = "";
    if (isfinite(high))
        snprintf(ends, sizeof ends, "%s\xe2\x80\x93%s", attn_figure(low, from),
                 attn_figure(high, to));
    attn_html_put_noted(out, "b", ratio, attn_figure(ratio, figure), ends);
}

static void put_means(FILE *out, const struct attn_speedup *speedup, const char *name, size_t first,
                      size_t end)
{
    fputs("<tr>", out);
    attn_html_put_cell(out, "case", name);
    for (size_t c = 0; c < speedup->grid.n_columns; c++) {
        if (c == speedup->baseline)
            continue;
        struct attn_speedup_mean mean = attn_speedup_mean(speedup, first, end, c);
        put_ratio(out, mean.mean, mean.least, mean.greatest);
        fprintf(out, "<td data-v=\"%zu\">%zu</td>", mean.cases, mean.cases);
    }
    fputs("</tr>\n", out);
}

static void put_groups(FILE *out, const struct attn_speedup *speedup)
{
    const struct attn_grid *grid = &speedup->grid;
    fputs(ATTN_HTML_FOLD("Means by group"), out);
    put_head(out, speedup, "cases", "<th class=\"b\">mean</th><th>cases</th>", 2);
    for (size_t first = 0, end; first < grid->n_lines; first = end) {
        char group[64];
        const struct attn_grid_line *line = &grid->lines[first];
        end = attn_speedup_group_end(speedup, first);
        snprintf(group, sizeof group, "%.*s",
                 line->group_length < 60 ? (int)line->group_length : 60, line->group);
        if (attn_speedup_any(speedup, first, end))
            put_means(out, speedup, group, first, end);
    }
    fputs("</tbody></table></div>\n</details>\n", out);
}

static void put_cases(FILE *out, const struct attn_speedup *speedup)
{
    const struct attn_grid *grid = &speedup->grid;
    fputs("<details><summary>Speed-up by case</summary>\n", out);
    put_head(out, speedup, "case", "<th class=\"b\">speed-up</th>", 1);
    for (size_t i = 0; i < grid->n_lines; i++) {
        fputs("<tr>", out);
        attn_html_put_case(out, grid->lines[i].row);
        for (size_t c = 0; c < grid->n_columns; c++) {
            if (c == speedup->baseline)
                continue;
            struct attn_ratio ratio = attn_speedup_of(speedup, i, c);
            put_ratio(out, ratio.ratio, ratio.lo, ratio.hi);
        }
        fputs("</tr>\n", out);
    }
    fputs("</tbody></table></div>\n</details>\n", out);
}

void attn_html_put_speedup(FILE *out, const struct attn_speedup *speedup)
{
    if (speedup->baseline == speedup->grid.n_columns)
        return;
    fputs("<h2>Speed-up over ", out);
    attn_put_html(out, speedup->view->backends[speedup->grid.columns[speedup->baseline]].label);
    fputs("</h2>\n<p class=\"soft\">Its time divided by the backend's time, hot cache: above 1 the "
          "backend is faster. Geometric mean over the cases in which both were timed, below it the "
          "least and the greatest; the 95 % interval of a case is below its speed-up.",
          out);
    fputs(speedup->chosen ? " The baseline is " ATTN_BASELINE_RULE "." : "", out);
    fputs("</p>\n", out);
    put_groups(out, speedup);
    put_cases(out, speedup);
}
