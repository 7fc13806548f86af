/* SPDX-License-Identifier: Apache-2.0 */
/* html_cells.c - cells of the page's tables. */
#include <math.h>
#include <string.h>

#include "report/text.h"
#include "report/writers.h"

void attn_html_put_cell(FILE *out, const char *class, const char *text)
{
    fprintf(out, "<td class=\"%s\">", class);
    attn_put_html(out, *text ? text : ATTN_DASH);
    fputs("</td>", out);
}

void attn_html_put_figure(FILE *out, const char *class, double value, const char *text)
{
    attn_html_put_noted(out, class, value, text, "");
}

void attn_html_put_noted(FILE *out, const char *class, double value, const char *text,
                         const char *note)
{
    fprintf(out, "<td class=\"%s\" data-v=\"", class);
    if (isfinite(value))
        fprintf(out, "%.6g", value);
    fputs("\">", out);
    attn_put_html(out, *text ? text : ATTN_DASH);
    if (*note) {
        fputs("<small>", out);
        attn_put_html(out, note);
        fputs("</small>", out);
    }
    fputs("</td>", out);
}

void attn_html_put_backend(FILE *out, const char *class, const char *label)
{
    fprintf(out, "<th class=\"%s\">", class);
    while (*label) {
        char part[128];
        const size_t n = strcspn(label, "_:,"), taken = n + (label[n] != '\0');
        snprintf(part, sizeof part, "%.*s", (int)taken, label);
        attn_put_html(out, part);
        label += taken;
        fputs(*label ? "<wbr>" : "", out);
    }
    fputs("</th>", out);
}

void attn_html_put_grid_head(FILE *out, const struct attn_view *view, const struct attn_grid *grid,
                             const char *first, size_t left_out)
{
    fprintf(out, "<div class=\"wide\"><table class=\"grid\">\n<thead><tr><th>%s</th>", first);
    for (size_t c = 0; c < grid->n_columns; c++)
        if (c != left_out)
            attn_html_put_backend(out, "b", view->backends[grid->columns[c]].label);
    fputs("</tr></thead>\n<tbody>\n", out);
}

void attn_html_put_group(FILE *out, const char *name, size_t columns)
{
    fprintf(out, "<tr class=\"group\"><th class=\"group\" colspan=\"%zu\"><span>", columns);
    attn_put_html(out, name);
    fputs("</span></th></tr>\n", out);
}

bool attn_html_anchor(const char *id)
{
    size_t length = strlen(id);
    return length > 0 && length <= 64 &&
           strspn(id, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_-") == length;
}

void attn_html_put_case(FILE *out, const struct attn_view_row *row)
{
    fputs("<td class=\"case\">", out);
    attn_put_html(out, row->label);
    if (attn_html_anchor(row->id))
        fprintf(out, "&#160;<a href=\"#%s\" title=\"link to this case\">#</a>", row->id);
    fputs("</td>", out);
}
