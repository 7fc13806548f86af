/* SPDX-License-Identifier: Apache-2.0 */
/* grid.c - turns the list of results into lines of cases and columns of backends. */
#include "report/grid.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/text.h"

/* Whether a row may stand in a grid: in the cold one, untimed rows say why there is no figure. */
static bool belongs(const struct attn_view *view, const struct attn_view_row *row,
                    enum attn_grid_kind kind)
{
    if (!view->backends[row->backend].counted)
        return false;
    if (kind == ATTN_GRID_CHECKS)
        return row->first && row->verify;
    return kind == ATTN_GRID_COLD ? attn_row_cold(row) || !row->bench : !attn_row_cold(row);
}

static bool is_figure(const struct attn_view_row *row, enum attn_grid_kind kind)
{
    return kind == ATTN_GRID_CHECKS || row->bench;
}

/* In tables of results beside others, a backend of which nothing was timed says why. */
static void want_untimed(const struct attn_view *view, bool *wanted)
{
    bool any = false;
    for (size_t b = 0; b < view->n_backends; b++)
        any = any || wanted[b];
    for (size_t b = 0; b < view->n_backends && any; b++) {
        bool untimed = false, timed = false;
        for (size_t r = 0; r < view->n_rows; r++)
            if (view->rows[r].backend == b) {
                untimed = untimed || *view->rows[r].untimed;
                timed = timed || view->rows[r].bench;
            }
        wanted[b] = wanted[b] || (view->backends[b].counted && untimed && !timed);
    }
}

/* Columns: backends with a figure. Returns 0, or -1 without memory. */
static int find_columns(const struct attn_view *view, enum attn_grid_kind kind,
                        struct attn_grid *grid, size_t *column_of)
{
    bool *wanted = calloc(view->n_backends + 1, sizeof *wanted);
    grid->columns = calloc(view->n_backends + 1, sizeof *grid->columns);
    if (!wanted || !grid->columns) {
        free(wanted);
        return -1;
    }
    for (size_t r = 0; r < view->n_rows; r++)
        if (belongs(view, &view->rows[r], kind) && is_figure(&view->rows[r], kind))
            wanted[view->rows[r].backend] = true;
    if (kind == ATTN_GRID_RESULTS || kind == ATTN_GRID_COLD)
        want_untimed(view, wanted);
    for (size_t b = 0; b < view->n_backends; b++) {
        column_of[b] = wanted[b] ? grid->n_columns : view->n_backends;
        if (wanted[b])
            grid->columns[grid->n_columns++] = b;
    }
    free(wanted);
    return 0;
}

/* Lines and groups while a grid is built: case key -> line, group name -> order. */
struct index {
    json_t *lines, *groups;
};

static int name_group(struct attn_grid_line *line, json_t *groups)
{
    const char *name = *line->row->name ? line->row->name : ATTN_GROUP_UNNAMED;
    line->group = name;
    line->group_length = strcspn(name, "_/");
    line->group_order = json_object_size(groups);
    const json_t *known = json_object_getn(groups, name, line->group_length);
    if (known)
        line->group_order = (size_t)json_integer_value(known);
    else if (json_object_setn_new(groups, name, line->group_length,
                                  json_integer((json_int_t)line->group_order)) != 0)
        return -1;
    return 0;
}

/* Files a row under its case. Returns 0, or -1 without memory. */
static int file_row(struct attn_grid *grid, const struct index *index,
                    const struct attn_view_row *row, size_t column)
{
    char key[160];
    snprintf(key, sizeof key, "%.120s|%g", row->id, row->threads);
    const json_t *known = json_object_get(index->lines, key);
    size_t at = known ? (size_t)json_integer_value(known) : grid->n_lines;
    struct attn_grid_line *line = &grid->lines[at];
    if (!known) {
        line->row = row;
        line->cells = grid->cells + at * grid->n_columns;
        if (json_object_set_new(index->lines, key, json_integer((json_int_t)at)) != 0 ||
            name_group(line, index->groups) != 0)
            return -1;
        grid->n_lines++;
    }
    const struct attn_view_row **cell = &line->cells[column];
    if (!*cell || !(*cell)->bench)
        *cell = row;
    return 0;
}

static bool has_timing(const struct attn_grid *grid, const struct attn_grid_line *line)
{
    for (size_t c = 0; c < grid->n_columns; c++)
        if (line->cells[c] && line->cells[c]->bench)
            return true;
    return false;
}

/* FLOPs of a run of a case, as far as a timing says them. */
static double work_of(const struct attn_grid *grid, const struct attn_grid_line *line)
{
    double most = 0;
    for (size_t c = 0; c < grid->n_columns; c++) {
        const double flops =
            line->cells[c] ? attn_field_number(line->cells[c]->bench, "flops") : (double)NAN;
        most = flops > most && isfinite(flops) ? flops : most;
    }
    return most;
}

/* A group, while their order is found. */
struct place {
    size_t group;
    bool timed;
    double work;
};

static int by_work(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    if (x->timed != y->timed)
        return x->timed ? -1 : 1;
    if (x->work != y->work)
        return x->work < y->work ? 1 : -1;
    return x->group < y->group ? -1 : 1;
}

/* Groups with most work come first: cases of microseconds tell little. Those without a time come
 * last, whatever their work: they have nothing to compare. Without timings all stay as they are.
 * Returns 0, or -1: no memory. */
static int order_groups(struct attn_grid *grid, size_t n_groups)
{
    struct place *places = calloc(n_groups + 1, sizeof *places);
    size_t *order = calloc(n_groups + 1, sizeof *order);
    const bool any = places && order;
    for (size_t g = 0; g < n_groups && any; g++)
        places[g].group = g;
    for (size_t i = 0; i < grid->n_lines && any; i++) {
        struct place *place = &places[grid->lines[i].group_order];
        place->work += work_of(grid, &grid->lines[i]);
        for (size_t c = 0; c < grid->n_columns; c++)
            place->timed = place->timed ||
                           (grid->lines[i].cells[c] && isfinite(grid->lines[i].cells[c]->median));
    }
    if (any)
        qsort(places, n_groups, sizeof *places, by_work);
    for (size_t g = 0; g < n_groups && any; g++)
        order[places[g].group] = g;
    for (size_t i = 0; i < grid->n_lines && any; i++)
        grid->lines[i].group_order = order[grid->lines[i].group_order];
    free(places);
    free(order);
    return any ? 0 : -1;
}

/* A column, while their order is found: in how many cases nobody is faster. */
struct column {
    size_t at, wins;
};

static int by_wins(const void *a, const void *b)
{
    const struct column *x = a, *y = b;
    if (x->wins != y->wins)
        return x->wins < y->wins ? 1 : -1;
    return x->at < y->at ? -1 : 1;
}

/* The backends that win stand first, where nobody has to scroll for them. Returns 0, or -1. */
static int order_columns(struct attn_grid *grid)
{
    const size_t n = grid->n_columns;
    struct column *columns = calloc(n + 1, sizeof *columns);
    const struct attn_view_row **cells = calloc(n + 1, sizeof *cells);
    size_t *backends = calloc(n + 1, sizeof *backends);
    const bool any = columns && cells && backends;
    for (size_t c = 0; c < n && any; c++)
        columns[c].at = c;
    for (size_t i = 0; i < grid->n_lines && any; i++) {
        double least = INFINITY;
        for (size_t c = 0; c < n; c++)
            if (attn_row_timed(grid->lines[i].cells[c]) && attn_row_exact(grid->lines[i].cells[c]))
                least = fmin(least, grid->lines[i].cells[c]->median);
        for (size_t c = 0; c < n; c++)
            columns[c].wins +=
                attn_row_timed(grid->lines[i].cells[c]) && grid->lines[i].cells[c]->median <= least;
    }
    if (any)
        qsort(columns, n, sizeof *columns, by_wins);
    for (size_t c = 0; c < n && any; c++)
        backends[c] = grid->columns[columns[c].at];
    if (any)
        memcpy(grid->columns, backends, n * sizeof *backends);
    for (size_t i = 0; i < grid->n_lines && any; i++) {
        for (size_t c = 0; c < n; c++)
            cells[c] = grid->lines[i].cells[columns[c].at];
        memcpy(grid->lines[i].cells, cells, n * sizeof *cells);
    }
    free(columns);
    free(cells);
    free(backends);
    return any ? 0 : -1;
}

static int compare_lines(const void *a, const void *b)
{
    const struct attn_grid_line *x = a, *y = b;
    if (x->group_order != y->group_order)
        return x->group_order < y->group_order ? -1 : 1;
    /* The cases of one sweep stay together: a budget mixes them. */
    const size_t length = strcspn(x->group, "/"), other = strcspn(y->group, "/");
    const int order = strncmp(x->group, y->group, length < other ? length : other);
    if (x->group[length] && y->group[other] && (order != 0 || length != other))
        return order != 0 ? order : length < other ? -1 : 1;
    return x->cells < y->cells ? -1 : 1; /* as they were filed */
}

int attn_grid_create(const struct attn_view *view, enum attn_grid_kind kind, struct attn_grid *grid)
{
    struct attn_grid fresh = {0};
    struct index index = {json_object(), json_object()};
    size_t *column_of = calloc(view->n_backends + 1, sizeof *column_of);
    int status = -1;
    if (!index.lines || !index.groups || !column_of ||
        find_columns(view, kind, &fresh, column_of) != 0)
        goto out;
    fresh.lines = calloc(view->n_rows + 1, sizeof *fresh.lines);
    /* One column more, so that none is no special case. */
    fresh.cells = calloc(view->n_rows + 1, (fresh.n_columns + 1) * sizeof(void *));
    if (!fresh.lines || !fresh.cells)
        goto out;
    for (size_t r = 0; r < view->n_rows; r++) {
        const struct attn_view_row *row = &view->rows[r];
        if (column_of[row->backend] == view->n_backends || !belongs(view, row, kind))
            continue;
        if (file_row(&fresh, &index, row, column_of[row->backend]) != 0)
            goto out;
    }
    if (kind == ATTN_GRID_COLD) {
        size_t kept = 0;
        for (size_t i = 0; i < fresh.n_lines; i++)
            if (has_timing(&fresh, &fresh.lines[i]))
                fresh.lines[kept++] = fresh.lines[i];
        fresh.n_lines = kept;
    }
    if (order_groups(&fresh, json_object_size(index.groups)) != 0 || order_columns(&fresh) != 0)
        goto out;
    qsort(fresh.lines, fresh.n_lines, sizeof *fresh.lines, compare_lines);
    *grid = fresh;
    status = 0;
out:
    if (status != 0)
        attn_grid_free(&fresh);
    json_decref(index.lines);
    json_decref(index.groups);
    free(column_of);
    return status;
}

void attn_grid_free(struct attn_grid *grid)
{
    free(grid->columns);
    free(grid->lines);
    free(grid->cells);
    *grid = (struct attn_grid){0};
}

bool attn_grid_starts_group(const struct attn_grid *grid, size_t line)
{
    return line == 0 || grid->lines[line].group_order != grid->lines[line - 1].group_order;
}
