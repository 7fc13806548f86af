/* SPDX-License-Identifier: Apache-2.0 */
/* screen.c - a run as text for a terminal: its results, ranked within each case, and its verdict.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/grid.h"
#include "report/paired.h"
#include "report/text.h"
#include "report/verdict.h"
#include "results/statistics.h"

enum { INTERVAL_WIDTH = 29 };

/* What is known of a case on one backend. */
struct cell {
    const struct attn_view_row *row, *hot, *cold; /* hot, cold: timed, or NULL */
    double rank; /* the hot time, else the cold one; INFINITY: neither */
};

static int by_time(const void *a, const void *b)
{
    const struct cell *x = a, *y = b;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return (x->row->backend > y->row->backend) - (x->row->backend < y->row->backend);
}

/* What is known beside one result of a case. */
static struct cell cell_of(const struct attn_view *view, const struct attn_view_row *row)
{
    struct cell cell = {row, NULL, NULL, INFINITY};
    for (size_t r = 0; r < view->n_rows; r++) {
        const struct attn_view_row *other = &view->rows[r];
        if (other->backend == row->backend && strcmp(other->id, row->id) == 0 &&
            isfinite(other->median))
            *(attn_row_cold(other) ? &cell.cold : &cell.hot) = other;
    }
    if (cell.hot || cell.cold)
        cell.rank = (cell.hot ? cell.hot : cell.cold)->median;
    return cell;
}

/* Columns by hand: a width of printf counts bytes, and units are not all ASCII. */
static void put_right(FILE *out, const char *text, int width)
{
    int shown = 0;
    for (const char *c = text; *c; c++)
        shown += (*c & 0xc0) != 0x80;
    fprintf(out, "%*s%s", width > shown ? width - shown : 0, "", text);
}

static void put_time(FILE *out, const struct attn_view_row *row, int width)
{
    char figure[ATTN_FIGURE_MAX];
    put_right(out, row ? attn_figure_time(row->median, figure) : "-", width);
}

static void put_cell(FILE *out, const struct attn_view *view, const struct cell *cell)
{
    const struct attn_view_row *some = cell->hot ? cell->hot : cell->cold;
    char lo[ATTN_FIGURE_MAX], hi[ATTN_FIGURE_MAX], interval[ATTN_ROUNDS_TEXT];
    fprintf(out, "  %-15s", view->backends[cell->row->backend].label);
    if (!some) {
        const char *reason =
            attn_reason_text(*cell->row->untimed ? cell->row->untimed : cell->row->reason);
        fprintf(out, " %s%s%s\n", attn_row_mark(cell->row), *reason ? ": " : "", reason);
        return;
    }
    put_time(out, cell->hot, 11);
    if (isfinite(some->lo) && isfinite(some->hi))
        snprintf(interval, sizeof interval, "%s to %s", attn_figure_time(some->lo, lo),
                 attn_figure_time(some->hi, hi));
    else
        attn_row_rounds(some, interval);
    put_right(out, interval, INTERVAL_WIDTH);
    put_right(out, attn_figure(some->gflops, lo), 10);
    put_time(out, cell->cold, 14);
    fprintf(out, "%s%s%s\n", some->marked ? " *" : "", some->status == ATTN_PASS ? "" : "  ",
            some->status == ATTN_PASS ? "" : attn_status_name(some->status));
}

static int put_rows(FILE *out, const struct attn_view *view, const struct attn_grid *grid)
{
    if (grid->n_lines == 0)
        return 0;
    struct cell *cells = calloc(grid->n_columns + 1, sizeof *cells);
    bool marked = false, ranged = false, turns = false, half = false;
    if (!cells)
        return -1;
    fprintf(out, "%-17s%11s%*s%10s%14s\n", "", "hot, median", INTERVAL_WIDTH, "95 % interval",
            "GFLOP/s", "cold, median");
    for (size_t i = 0; i < grid->n_lines; i++) {
        size_t n = 0;
        for (size_t c = 0; c < grid->n_columns; c++) {
            const struct attn_view_row *row = grid->lines[i].cells[c];
            if (!row)
                continue;
            cells[n++] = cell_of(view, row);
            marked = marked || row->marked;
            ranged = ranged || (isfinite(row->median) && !isfinite(row->hi));
            half = half || (cells[n - 1].hot && !cells[n - 1].cold);
        }
        turns = turns || (n > 1 && attn_paired_best(grid, i) < grid->n_columns);
        qsort(cells, n, sizeof *cells, by_time);
        fprintf(out, "%s\n", grid->lines[i].row->label);
        for (size_t k = 0; k < n; k++)
            put_cell(out, view, &cells[k]);
    }
    fputs("GFLOP/s: FLOPs, counted as in the operator's OP.md, over the median.\n", out);
    if (turns)
        fputs("Times and their order are medians of all samples. The verdict goes by runs in "
              "turns, side by\n"
              "side, where there are some: its ratios may differ, and are surer.\n",
              out);
    if (ranged)
        fputs(ATTN_ROUNDS_CONVENTION ".\n", out);
    if (half)
        fputs("Cold caches: left out by --cache hot, for runs of 10 ms or more, and with --budget "
              "but for\n"
              "cases that are mostly reading, unless --cache both asks for them.\n",
              out);
    if (marked)
        fputs("*: the harness's own cost is over 1 %.\n", out);
    fputc('\n', out);
    free(cells);
    return 0;
}

/* The instructions of each case and backend (bench --count), or why there are none. */
static void put_counts(FILE *out, const struct attn_view *view)
{
    const char *before = "";
    for (size_t r = 0; r < view->n_rows; r++) {
        const struct attn_view_row *row = &view->rows[r];
        const json_t *count = json_object_get(row->bench, "instructions");
        /* The same in the record of the other state of the caches. */
        if (!row->first || !count)
            continue;
        fputs(*before ? "" : "Instructions of a run\n", out);
        if (strcmp(before, row->label) != 0)
            fprintf(out, "%s\n", row->label);
        before = row->label;
        fprintf(out, "  %-14s", view->backends[row->backend].label);
        if (json_is_integer(count))
            fprintf(out, "%16lld\n", (long long)json_integer_value(count));
        else
            fprintf(out, "%16s  %s\n", "-", attn_field_text(row->bench, "instructions_reason"));
    }
    fputs(*before ? "\n" : "", out);
}

/* What a run costs of backends that compute nothing, which no table ranks: said where there is
 * nothing to say of others. Returns 0, or -1. */
static int add_harness(const struct attn_view *view, struct attn_verdict *verdict)
{
    double *times = malloc((view->n_rows + 1) * sizeof *times);
    if (!times)
        return -1;
    for (size_t b = 0; b < view->n_backends; b++) {
        char text[256], time[ATTN_FIGURE_MAX];
        size_t n = 0;
        for (size_t r = 0; r < view->n_rows && !view->backends[b].counted; r++)
            if (view->rows[r].backend == b && attn_row_timed(&view->rows[r]))
                times[n++] = view->rows[r].median;
        if (n == 0)
            continue;
        snprintf(text, sizeof text,
                 "a run of %s, which computes nothing, takes %s (median of %zu %s)",
                 view->backends[b].label, attn_figure_time(attn_median(times, n), time), n,
                 n == 1 ? "case" : "cases");
        attn_verdict_add(verdict, "Harness", text);
    }
    free(times);
    return 0;
}

/* Where more can be seen. */
static void add_paths(const struct attn_run_data *run, const struct attn_screen *screen,
                      struct attn_verdict *verdict)
{
    char text[2 * sizeof run->path + 128];
    if (screen->fewer)
        attn_verdict_add(
            verdict, "Note",
            "cases as they are were judged; 'attnbench verify' has more fills and checks");
    if (screen->report)
        snprintf(text, sizeof text, "%s/index.html", screen->report);
    else
        snprintf(text, sizeof text, "'attnbench report %s' makes pages and pictures", run->path);
    if (!screen->rows)
        snprintf(text + strlen(text), sizeof text - strlen(text), "; %s%s%s lists all %zu timings",
                 screen->report ? "'attnbench report --rows " : "--rows",
                 screen->report ? run->path : "", screen->report ? "'" : "",
                 attn_timings_count(run->records));
    attn_verdict_add(verdict, "Report", text);
}

/* A run with hot timings is ranked by them. */
static enum attn_grid_kind kind_of(const struct attn_view *view)
{
    for (size_t r = 0; r < view->n_rows; r++)
        if (isfinite(view->rows[r].median) && !attn_row_cold(&view->rows[r]))
            return ATTN_GRID_RESULTS;
    return ATTN_GRID_COLD;
}

int attn_screen_put(const struct attn_run_data *run, const struct attn_screen *screen, FILE *out,
                    char *why, size_t size)
{
    struct attn_view view = {0};
    struct attn_grid grid = {0};
    struct attn_ranking ranking = {0};
    struct attn_verdict *verdict = malloc(sizeof *verdict);
    int result = verdict ? attn_view_create(run->records, run->machine, &view, why, size) : -1;
    if (!verdict)
        snprintf(why, size, "no memory for the verdict of the run");
    if (result == 0 &&
        (attn_grid_create(&view, kind_of(&view), &grid) || attn_ranking_create(&grid, &ranking) ||
         attn_verdict_make(run, &view, &ranking, verdict) ||
         (ranking.n_families == 0 && add_harness(&view, verdict)) ||
         (screen->rows && put_rows(out, &view, &grid)))) {
        snprintf(why, size, "no memory for the verdict of the run");
        result = -1;
    }
    if (result == 0 && screen->counts)
        put_counts(out, &view);
    if (result == 0) {
        add_paths(run, screen, verdict);
        attn_verdict_put_text(out, verdict, screen->columns);
    }
    attn_ranking_free(&ranking);
    attn_grid_free(&grid);
    attn_view_free(&view);
    free(verdict);
    return result;
}

size_t attn_timings_count(const json_t *records)
{
    size_t i, n = 0;
    json_t *record;
    json_array_foreach(records, i, record) n +=
        strcmp(attn_field_text(record, "type"), "bench") == 0 &&
        strcmp(attn_field_text(record, "exactness"), "none") != 0;
    return n;
}
