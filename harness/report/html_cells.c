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
