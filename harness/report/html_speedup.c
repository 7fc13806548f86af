/* SPDX-License-Identifier: Apache-2.0 */
/* html_speedup.c - the tables of index.html that hold every backend against the baseline. */
#include <math.h>

#include "report/speedup.h"
#include "report/text.h"
#include "report/writers.h"

/* A ratio over its two ends, and of how many cases it is the mean; 0: it is of one. */
static void put_ratio(FILE *out, double ratio, double low, double high, size_t cases)
{
    char figure[ATTN_FIGURE_MAX], from[ATTN_FIGURE_MAX], to[ATTN_FIGURE_MAX], mean_of[32] = "";
    char ends[2 * ATTN_FIGURE_MAX + sizeof mean_of + 4] = "";
    if (cases)
        snprintf(mean_of, sizeof mean_of, " (%zu)", cases);
    if (isfinite(high))
        snprintf(ends, sizeof ends, "%s\xe2\x80\x93%s%s", attn_figure(low, from),
                 attn_figure(high, to), mean_of);
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
        put_ratio(out, mean.mean, mean.least, mean.greatest, mean.cases);
    }
    fputs("</tr>\n", out);
}

static void put_groups(FILE *out, const struct attn_speedup *speedup)
{
    const struct attn_grid *grid = &speedup->grid;
    fputs(ATTN_HTML_FOLD("Means by group"), out);
    attn_html_put_grid_head(out, speedup->view, grid, "cases", speedup->baseline);
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
    attn_html_put_grid_head(out, speedup->view, grid, "case", speedup->baseline);
    for (size_t i = 0; i < grid->n_lines; i++) {
        fputs("<tr>", out);
        attn_html_put_case(out, grid->lines[i].row);
        for (size_t c = 0; c < grid->n_columns; c++) {
            if (c == speedup->baseline)
                continue;
            struct attn_ratio ratio = attn_speedup_of(speedup, i, c);
            put_ratio(out, ratio.ratio, ratio.lo, ratio.hi, 0);
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
          "least and the greatest and how many these are; the 95 % interval of a case is below its "
          "speed-up.",
          out);
    fputs(speedup->chosen ? " The baseline is " ATTN_BASELINE_RULE "." : "", out);
    fputs("</p>\n", out);
    put_groups(out, speedup);
    put_cases(out, speedup);
}
