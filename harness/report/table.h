/* SPDX-License-Identifier: Apache-2.0 */
/* table.h - a table of short cells, as Markdown and as HTML. */
#ifndef ATTN_REPORT_TABLE_H
#define ATTN_REPORT_TABLE_H

#include <stdbool.h>
#include <stdio.h>

#include "report/text.h"

enum { ATTN_TABLE_CELLS = 12, ATTN_TABLE_CELL = 160 };

/* A line: texts, and the numbers that the page sorts by. */
struct attn_table_line {
    size_t n;
    char text[ATTN_TABLE_CELLS][ATTN_TABLE_CELL];
    double value[ATTN_TABLE_CELLS]; /* NAN: a text */
};

/* Each adds a cell. A figure has three digits, a time its unit; NAN gives a dash. */
void attn_table_add_text(struct attn_table_line *line, const char *text);
void attn_table_add_number(struct attn_table_line *line, double value, const char *text);
void attn_table_add_figure(struct attn_table_line *line, double value);
void attn_table_add_time(struct attn_table_line *line, double ns);

/* `heads` ends with NULL; the first `words` columns hold texts. */
void attn_markdown_put_heads(FILE *out, const char *const *heads, size_t words);
void attn_markdown_put_line(FILE *out, const struct attn_table_line *line);
/* Between them stand the lines; attn_html_end_table closes what the heads opened. */
void attn_html_put_heads(FILE *out, const char *const *heads, size_t words);
void attn_html_put_line(FILE *out, const struct attn_table_line *line);
void attn_html_end_table(FILE *out);

#endif
