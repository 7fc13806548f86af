/* SPDX-License-Identifier: Apache-2.0 */
/* matrix_put.c - the support matrix as text, as a section of report.md and as one of index.html. */
#include "report/matrix.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "report/text.h"
#include "report/writers.h"

#define HOW                                                                                        \
    "Each cell is the answer of the backend's own supports. Cells: " ATTN_MATRIX_LEGEND            \
    ". The problem is a case line; add dtype= for a type other than f32: attnbench verify -b "     \
    "NAME 'PROBLEM'."

static const char *note(const struct attn_matrix *matrix, size_t n)
{
    return json_string_value(json_array_get(matrix->notes, n));
}

/* Width of the column of features (b the number of columns) or of a backend. */
static int width_of(const struct attn_matrix *matrix, size_t b)
{
    size_t most = b < matrix->n_columns ? strlen(matrix->labels[b]) : 0;
    for (size_t i = 0; i < matrix->n_lines; i++) {
        const struct attn_matrix_line *line = &matrix->lines[i];
        const size_t width = strlen(b < matrix->n_columns ? line->cells[b] : line->feature);
        most = width > most ? width : most;
    }
    return (int)most;
}

/* The columns from `from` on that fit beside the features, one at least. */
static size_t fitting(const struct attn_matrix *matrix, size_t from, int first, int columns)
{
    int used = first + 2;
    size_t end = from;
    while (end < matrix->n_columns && (end == from || used + 2 + width_of(matrix, end) <= columns))
        used += 2 + width_of(matrix, end++);
    return end;
}

static void put_columns(FILE *out, const struct attn_matrix *matrix, size_t from, size_t end)
{
    const int first = width_of(matrix, matrix->n_columns);
    fprintf(out, "%-*s", first + 2, "");
    for (size_t b = from; b < end; b++)
        fprintf(out, "  %-*s", b + 1 < end ? width_of(matrix, b) : 0, matrix->labels[b]);
    for (size_t i = 0; i < matrix->n_lines; i++) {
        const struct attn_matrix_line *line = &matrix->lines[i];
        if (attn_matrix_starts_group(matrix, i))
            fprintf(out, "\n%s", line->group);
        fprintf(out, "\n  %-*s", first, line->feature);
        for (size_t b = from; b < end; b++)
            fprintf(out, "  %-*s", b + 1 < end ? width_of(matrix, b) : 0, line->cells[b]);
    }
    fputs("\n\n", out);
}

/* Whether a backend takes no problem at all: on the page and the screen it has no column. */
static bool takes_none(const struct attn_matrix *matrix, size_t b)
{
    for (size_t i = 0; i < matrix->n_lines; i++)
        if (matrix->lines[i].cells[b][0] != '-')
            return false;
    return true;
}

/* "cuda [2], triton [5]": each backend that takes none, with its note. False: there are none. */
static bool put_refusing(FILE *out, const struct attn_matrix *matrix,
                         void (*put)(FILE *out, const char *text), const char *before)
{
    bool any = false;
    for (size_t b = 0; b < matrix->n_columns; b++) {
        if (!takes_none(matrix, b))
            continue;
        fputs(any ? ", " : before, out);
        put(out, matrix->labels[b]);
        fputs(matrix->n_lines ? matrix->lines[0].cells[b] + 1 : "", out); /* the note */
        any = true;
    }
    return any;
}

static void put_plain(FILE *out, const char *text)
{
    fputs(text, out);
}

/* Leaves out the columns of backends that take none. */
static void drop_refusing(struct attn_matrix *matrix)
{
    size_t kept = 0;
    for (size_t b = 0; b < matrix->n_columns; b++) {
        if (takes_none(matrix, b))
            continue;
        memmove(matrix->labels[kept], matrix->labels[b], sizeof *matrix->labels);
        for (size_t i = 0; i < matrix->n_lines; i++)
            memmove(matrix->lines[i].cells[kept], matrix->lines[i].cells[b],
                    sizeof *matrix->lines[i].cells);
        kept++;
    }
    matrix->n_columns = kept;
}

/* Who takes none, as a sentence that the caller frees. NULL: no memory. */
static char *refusing_of(const struct attn_matrix *matrix)
{
    char *text = NULL;
    size_t length;
    FILE *stream = attn_text_open(&text, &length);
    if (!stream)
        return NULL;
    if (put_refusing(stream, matrix, put_plain, "None of them is taken by "))
        fputs(".", stream);
    return fclose(stream) == 0 ? text : NULL;
}

int attn_matrix_put_text(FILE *out, const json_t *json, int columns)
{
    struct attn_matrix matrix;
    if (attn_matrix_create(json, &matrix) != 0)
        return -1;
    const int first = width_of(&matrix, matrix.n_columns);
    char *refusing = refusing_of(&matrix);
    drop_refusing(&matrix);
    for (size_t from = 0, end; from < matrix.n_columns; from = end) {
        end = fitting(&matrix, from, first, columns);
        put_columns(out, &matrix, from, end);
    }
    attn_put_wrapped(out, "Cells: " ATTN_MATRIX_LEGEND ".", 0, columns);
    if (refusing && *refusing)
        attn_put_wrapped(out, refusing, 0, columns);
    for (size_t n = 0; n < json_array_size(matrix.notes); n++) {
        fprintf(out, "%4zu  ", n + 1);
        attn_put_wrapped(out, note(&matrix, n), 6, columns);
    }
    attn_matrix_free(&matrix);
    const int result = refusing ? 0 : -1;
    free(refusing);
    return result;
}

static void put_markdown(FILE *out, const struct attn_matrix *matrix)
{
    fputs("\n## Support\n\n" HOW "\n\n| | feature", out);
    for (size_t b = 0; b < matrix->n_columns; b++) {
        fputs(" | ", out);
        attn_put_markdown(out, matrix->labels[b]);
    }
    fputs(" | problem |\n|---|---", out);
    for (size_t b = 0; b < matrix->n_columns; b++)
        fputs("|---", out);
    fputs("|---|\n", out);
    for (size_t i = 0; i < matrix->n_lines; i++) {
        const struct attn_matrix_line *line = &matrix->lines[i];
        fputs("| ", out);
        attn_put_markdown(out, attn_matrix_starts_group(matrix, i) ? line->group : "");
        fputs(" | ", out);
        attn_put_markdown(out, line->feature);
        for (size_t b = 0; b < matrix->n_columns; b++) {
            fputs(" | ", out);
            attn_put_markdown(out, line->cells[b]);
        }
        fputs(" | ", out);
        attn_put_markdown(out, line->problem);
        fputs(" |\n", out);
    }
    fputc('\n', out);
    for (size_t n = 0; n < json_array_size(matrix->notes); n++) {
        fprintf(out, "%zu. ", n + 1);
        attn_put_markdown(out, note(matrix, n));
        fputc('\n', out);
    }
}

static void put_line(FILE *out, const struct attn_matrix *matrix, size_t i)
{
    const struct attn_matrix_line *line = &matrix->lines[i];
    if (attn_matrix_starts_group(matrix, i))
        attn_html_put_group(out, line->group, matrix->n_columns + 1);
    fputs("<tr><td class=\"case\">", out);
    attn_put_html(out, line->feature);
    fputs("<small>", out);
    attn_put_html(out, line->problem);
    fputs("</small></td>", out);
    for (size_t b = 0; b < matrix->n_columns; b++)
        if (!takes_none(matrix, b))
            attn_html_put_cell(out, line->cells[b][0] == '-' ? "b skip" : "b", line->cells[b]);
    fputs("</tr>\n", out);
}

static void put_html(FILE *out, const struct attn_matrix *matrix)
{
    fputs("<h2>Support</h2>\n<p class=\"soft\">" HOW, out);
    if (put_refusing(out, matrix, attn_put_html, " None of them is taken by "))
        fputs(".", out);
    fputs("</p>\n" ATTN_HTML_FOLD("By feature") "<div class=\"wide\"><table class=\"grid "
                                                "support\">\n<thead><tr><th>feature</th>",
          out);
    for (size_t b = 0; b < matrix->n_columns; b++)
        if (!takes_none(matrix, b))
            attn_html_put_backend(out, "b", matrix->labels[b]);
    fputs("</tr></thead>\n<tbody>\n", out);
    for (size_t i = 0; i < matrix->n_lines; i++)
        put_line(out, matrix, i);
    fputs("</tbody></table></div>\n<ol class=\"soft\">\n", out);
    for (size_t n = 0; n < json_array_size(matrix->notes); n++) {
        fputs("<li>", out);
        attn_put_html(out, note(matrix, n));
        fputs("</li>\n", out);
    }
    fputs("</ol>\n</details>\n", out);
}

static int put_with(FILE *out, const json_t *json,
                    void (*put)(FILE *out, const struct attn_matrix *matrix))
{
    struct attn_matrix matrix;
    if (!json)
        return 0;
    if (attn_matrix_create(json, &matrix) != 0)
        return -1;
    put(out, &matrix);
    attn_matrix_free(&matrix);
    return 0;
}

int attn_matrix_put_markdown(FILE *out, const json_t *json)
{
    return put_with(out, json, put_markdown);
}

int attn_matrix_put_html(FILE *out, const json_t *json)
{
    return put_with(out, json, put_html);
}
