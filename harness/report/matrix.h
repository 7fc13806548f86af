/* SPDX-License-Identifier: Apache-2.0 */
/* matrix.h - the layout of the support matrix (matrix.json): one line per feature, one column per
 * backend, and a note with the reason for each gap. The last line shows what backends declare for
 * rows without an allowed key. */
#ifndef ATTN_REPORT_MATRIX_H
#define ATTN_REPORT_MATRIX_H

#include <jansson.h>
#include <stddef.h>
#include <stdio.h>

enum { ATTN_MATRIX_CELL = 64 };

struct attn_matrix_line {
    const char *group, *feature;
    const char *problem;             /* case line without dtype; "": no case line has it */
    char (*cells)[ATTN_MATRIX_CELL]; /* "all", "f64 f32 [2]", "- [1]": types, numbers of notes */
};

struct attn_matrix {
    size_t n_columns, n_lines;
    char (*labels)[ATTN_MATRIX_CELL]; /* name, or name:options */
    struct attn_matrix_line *lines;   /* strings point into the JSON, which must outlive them */
    json_t *notes;                    /* array of strings; the first is number 1 */
};

/* What the cells mean, in words, for all forms of the table. */
#define ATTN_MATRIX_LEGEND                                                                         \
    "types in which a backend takes the problem (all: f64 f32 f16 bf16; -: none); [n]: why not"

/* Lays out the result of attn_matrix_ask, or what a run folder holds. A missing field, or one of
 * another type, counts as empty. Returns 0, or -1: no memory. */
int attn_matrix_create(const json_t *json, struct attn_matrix *matrix);
void attn_matrix_free(struct attn_matrix *matrix);

/* Whether a line begins a group. */
int attn_matrix_starts_group(const struct attn_matrix *matrix, size_t line);

/* Writes the matrix as plain text, with as many backends side by side as so many columns hold, and
 * the others below. Returns 0, or -1: no memory. */
int attn_matrix_put_text(FILE *out, const json_t *json, int columns);
/* The same as a section of report.md, and as a section of index.html. They write nothing if json is
 * NULL. */
int attn_matrix_put_markdown(FILE *out, const json_t *json);
int attn_matrix_put_html(FILE *out, const json_t *json);

#endif
