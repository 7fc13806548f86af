/* SPDX-License-Identifier: Apache-2.0 */
/* matrix.c - lays out the support matrix. */
#include "report/matrix.h"

#include <stdlib.h>
#include <string.h>

#include "report/text.h"

/* Appends to a cell, which is cut where it ends. */
static void append(char cell[ATTN_MATRIX_CELL], const char *before, const char *text)
{
    const size_t used = strlen(cell);
    snprintf(cell + used, ATTN_MATRIX_CELL - used, "%s%s", used ? before : "", text);
}

/* The number of a note, which is added when new; 0 without memory. */
static size_t note_number(json_t *notes, const char *text)
{
    for (size_t i = 0; i < json_array_size(notes); i++)
        if (strcmp(json_string_value(json_array_get(notes, i)), text) == 0)
            return i + 1;
    return json_array_append_new(notes, json_string(text)) == 0 ? json_array_size(notes) : 0;
}

/* "[1,2]" grows by a number that it does not have yet. */
static void add_number(size_t *numbers, size_t *count, size_t most, size_t number)
{
    for (size_t i = 0; i < *count; i++)
        if (numbers[i] == number)
            return;
    if (*count < most)
        numbers[(*count)++] = number;
}

/* What backend `b`, described by `backend`, answered to the problems of a feature. */
static void fill_cell(const json_t *problems, size_t b, const json_t *backend, json_t *notes,
                      char cell[ATTN_MATRIX_CELL])
{
    size_t numbers[4], count = 0, refused = 0, p;
    json_t *problem;
    json_array_foreach(problems, p, problem)
    {
        const json_t *answer = json_array_get(attn_field_at(problem, "answers"), b);
        if (attn_field_true(answer, "supported")) {
            append(cell, " ", attn_field_text(problem, "type"));
            continue;
        }
        const char *reason = attn_field_text(json_is_object(answer) ? answer : backend, "reason");
        refused++;
        add_number(numbers, &count, 4, note_number(notes, *reason ? reason : "no reason given"));
    }
    if (refused == 0 && p > 1)
        snprintf(cell, ATTN_MATRIX_CELL, "all");
    if (refused == p)
        snprintf(cell, ATTN_MATRIX_CELL, "-");
    for (size_t i = 0; i < count; i++) {
        char number[24];
        snprintf(number, sizeof number, "%s%zu", i ? "," : "[", numbers[i]);
        append(cell, i ? "" : " ", number);
    }
    append(cell, "", count ? "]" : "");
}

static void label_columns(const json_t *backends, struct attn_matrix *matrix)
{
    for (size_t b = 0; b < matrix->n_columns; b++) {
        const json_t *backend = json_array_get(backends, b);
        append(matrix->labels[b], "", attn_field_text(backend, "name"));
        append(matrix->labels[b], ":", attn_field_text(backend, "options"));
        const size_t used = strlen(matrix->labels[b]);
        if (used > 0 && matrix->labels[b][used - 1] == ':')
            matrix->labels[b][used - 1] = '\0';
    }
}

/* The last line: what each backend declares to answer where no key is allowed. */
static void fill_rules(const json_t *backends, const struct attn_matrix *matrix,
                       struct attn_matrix_line *line)
{
    line->group = "rows without keys";
    line->feature = "answer";
    line->problem = "";
    for (size_t b = 0; b < matrix->n_columns; b++) {
        const json_t *backend = json_array_get(backends, b);
        const json_t *rules = attn_field_at(backend, "empty_rows");
        size_t r;
        json_t *rule;
        json_array_foreach(rules, r, rule)
        {
            const char *name = json_string_value(rule);
            append(line->cells[b], ", ", name ? name : "");
        }
        if (strcmp(attn_field_text(backend, "exactness"), "none") == 0)
            append(line->cells[b], ", ", "computes nothing");
        append(line->cells[b], "", *line->cells[b] ? "" : "-");
    }
}

/* The case line of a feature without the type. f32 is the default, so that its line has none. */
static const char *plain_problem(const json_t *feature)
{
    const json_t *problems = attn_field_at(feature, "problems");
    size_t p;
    json_t *problem;
    json_array_foreach(problems, p, problem)
    {
        const char *line = attn_field_text(problem, "case");
        if (!strstr(line, "dtype=") && !attn_field_true(feature, "deterministic"))
            return line;
    }
    return "";
}

int attn_matrix_create(const json_t *json, struct attn_matrix *matrix)
{
    const json_t *backends = attn_field_at(json, "backends");
    const json_t *features = attn_field_at(json, "features");
    const size_t columns = json_array_size(backends), lines = json_array_size(features) + 1;
    *matrix = (struct attn_matrix){.n_columns = columns, .notes = json_array()};
    matrix->labels = calloc(columns + 1, sizeof *matrix->labels);
    matrix->lines = calloc(lines, sizeof *matrix->lines);
    if (!matrix->labels || !matrix->lines || !matrix->notes)
        goto failed;
    label_columns(backends, matrix);
    for (size_t i = 0; i < lines; i++) {
        const json_t *feature = json_array_get(features, i);
        struct attn_matrix_line *line = &matrix->lines[i];
        line->cells = calloc(columns + 1, sizeof *line->cells);
        if (!line->cells)
            goto failed;
        matrix->n_lines++;
        line->group = attn_field_text(feature, "group");
        line->feature = attn_field_text(feature, "feature");
        line->problem = plain_problem(feature);
        for (size_t b = 0; b < columns && i + 1 < lines; b++)
            fill_cell(attn_field_at(feature, "problems"), b, json_array_get(backends, b),
                      matrix->notes, line->cells[b]);
    }
    fill_rules(backends, matrix, &matrix->lines[lines - 1]);
    return 0;
failed:
    attn_matrix_free(matrix);
    return -1;
}

void attn_matrix_free(struct attn_matrix *matrix)
{
    for (size_t i = 0; matrix->lines && i < matrix->n_lines; i++)
        free(matrix->lines[i].cells);
    free(matrix->lines);
    free(matrix->labels);
    json_decref(matrix->notes);
    *matrix = (struct attn_matrix){0};
}

int attn_matrix_starts_group(const struct attn_matrix *matrix, size_t line)
{
    return line == 0 || strcmp(matrix->lines[line].group, matrix->lines[line - 1].group) != 0;
}
