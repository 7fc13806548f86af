/* SPDX-License-Identifier: Apache-2.0 */
/* matrix.h - the support matrix (matrix.json) laid out: a line a feature, a column a backend, every
 * gap with its reason in a note. The last line is what backends declare to answer where no key is
 * allowed. */
#ifndef ATTN_REPORT_MATRIX_H
#define ATTN_REPORT_MATRIX_H

#include <jansson.h>
#include <stddef.h>
#include <stdio.h>

enum { ATTN_MATRIX_CELL = 64 };

struct attn_matrix_line {
    const char *group, *feature;
    const char *problem;             /* case line without dtype; "" where no case line says it */
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

/* Lays out what attn_matrix_ask made or a run folder held; a field that is missing or of another
 * type counts as empty. Returns 0, or -1: no memory. */
int attn_matrix_create(const json_t *json, struct attn_matrix *matrix);
void attn_matrix_free(struct attn_matrix *matrix);

/* Does a line begin a group. */
int attn_matrix_starts_group(const struct attn_matrix *matrix, size_t line);

/* The whole as plain text, as a section of report.md, and as one of index.html: nothing where json
 * is NULL. Return 0, or -1: no memory. */
int attn_matrix_put_text(FILE *out, const json_t *json);
int attn_matrix_put_markdown(FILE *out, const json_t *json);
int attn_matrix_put_html(FILE *out, const json_t *json);

#endif
