/* SPDX-License-Identifier: Apache-2.0 */
/* table.c - see table.h */
#include "report/table.h"

#include <math.h>

#include "report/writers.h"

void attn_table_add_text(struct attn_table_line *line, const char *text)
{
    attn_table_add_number(line, NAN, text);
}

void attn_table_add_number(struct attn_table_line *line, double value, const char *text)
{
    snprintf(line->text[line->n], ATTN_TABLE_CELL, "%s", text);
    line->value[line->n++] = value;
}

void attn_table_add_figure(struct attn_table_line *line, double value)
{
    char text[ATTN_FIGURE_MAX];
    snprintf(text, sizeof text, isfinite(value) ? "%.3g" : ATTN_DASH, value);
    attn_table_add_number(line, value, text);
}

void attn_table_add_time(struct attn_table_line *line, double ns)
{
    char text[ATTN_FIGURE_MAX];
    attn_table_add_number(line, ns, attn_figure_time(ns, text));
}

void attn_markdown_put_heads(FILE *out, const char *const *heads, size_t words)
{
    fputc('\n', out);
    for (const char *const *h = heads; *h; h++)
        fprintf(out, "| %s ", *h);
    fputs("|\n", out);
    for (size_t c = 0; heads[c]; c++)
        fputs(c < words ? "|---" : "|---:", out);
    fputs("|\n", out);
}

void attn_markdown_put_line(FILE *out, const struct attn_table_line *line)
{
    for (size_t c = 0; c < line->n; c++) {
        fputs("| ", out);
        attn_put_markdown(out, line->text[c]);
        fputc(' ', out);
    }
    fputs("|\n", out);
}

void attn_html_put_heads(FILE *out, const char *const *heads, size_t words)
{
    fputs("<div class=\"wide\"><table>\n<thead><tr>", out);
    for (size_t c = 0; heads[c]; c++)
        fprintf(out, "<th%s>%s</th>", c < words ? "" : " class=\"n\"", heads[c]);
    fputs("</tr></thead>\n<tbody>\n", out);
}

void attn_html_put_line(FILE *out, const struct attn_table_line *line)
{
    fputs("<tr>", out);
    for (size_t c = 0; c < line->n; c++)
        if (isnan(line->value[c]))
            attn_html_put_cell(out, c == 0 ? "case" : c == 1 ? "" : "n", line->text[c]);
        else
            attn_html_put_figure(out, "n", line->value[c], line->text[c]);
    fputs("</tr>\n", out);
}

void attn_html_end_table(FILE *out)
{
    fputs("</tbody></table></div>\n", out);
}
