/* SPDX-License-Identifier: Apache-2.0 */
/* plot_speedup.c - speed-up over the baseline by case and backend, in colours. */
#include "report/canvas.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/marks.h"
#include "report/ranking.h"
#include "report/speedup.h"
#include "report/summary.h"
#include "report/text.h"

/* More rows would not fit a screen beside their names. */
#define ROWS_MAX 48
/* Colours end at a speed-up of 2 to this power, and at its inverse. */
#define POWERS_MAX 6

/* A row of the picture: the name of a family, or a line of the grid. */
struct map_row {
    const struct attn_family *family;
    size_t line;
};

struct map {
    struct map_row rows[ROWS_MAX];
    size_t n_rows, left_out;               /* rows; cases without a row */
    size_t empty;                          /* cases without a row, as they have no speed-up */
    size_t columns[ATTN_SERIES_BACKENDS];  /* of the grid */
    size_t backends[ATTN_SERIES_BACKENDS]; /* the same in the view */
    size_t n_columns;
    char without[400]; /* the backends that have none of them, with commas between */
    double greatest;   /* |log2| of all speed-ups */
    bool hatched;      /* some cell is */
    struct attn_marks marks;
};

static bool has_ratio(const struct attn_speedup *speedup, size_t line)
{
    for (size_t c = 0; c < speedup->grid.n_columns; c++)
        if (c != speedup->baseline && isfinite(attn_speedup_of(speedup, line, c).ratio))
            return true;
    return false;
}

static double work_of(const struct attn_grid *grid, size_t line)
{
    double work = 0;
    for (size_t c = 0; c < grid->n_columns; c++)
        if (grid->lines[line].cells[c])
            work = fmax(work, attn_field_number(grid->lines[line].cells[c]->bench, "flops"));
    return work;
}

/* Puts the newest row before those above it that have more work; `head` is not one of them. */
static void sort_in(struct map *map, const struct attn_grid *grid, size_t head)
{
    const struct map_row row = map->rows[map->n_rows - 1];
    size_t at = map->n_rows - 1;
    for (; at > head + 1 && work_of(grid, map->rows[at - 1].line) > work_of(grid, row.line); at--)
        map->rows[at] = map->rows[at - 1];
    map->rows[at] = row;
}

/* Adds a family that has a speed-up, with those of its cases that have one, or counts them as left
 * out. The first is cut short where it alone has too many. */
static void add_family(struct map *map, const struct attn_canvas *canvas,
                       const struct attn_family *family)
{
    const struct attn_speedup *speedup = canvas->speedup;
    const struct attn_grid *grid = &speedup->grid;
    const size_t head = map->n_rows;
    size_t cases = 0;
    for (size_t i = 0; i < grid->n_lines; i++)
        if (attn_family_has(family, &grid->lines[i]) && canvas->ranking->lines[i].ranked) {
            const bool has = has_ratio(speedup, i);
            cases += has;
            map->empty += !has;
        }
    if (cases == 0)
        return;
    if (map->n_rows && map->n_rows + 1 + cases > ROWS_MAX) {
        map->left_out += cases;
        return;
    }
    map->rows[map->n_rows++] = (struct map_row){family, grid->n_lines};
    for (size_t i = 0; i < grid->n_lines; i++) {
        if (!attn_family_has(family, &grid->lines[i]) || !canvas->ranking->lines[i].ranked ||
            !has_ratio(speedup, i))
            continue;
        if (map->n_rows == ROWS_MAX) {
            map->left_out++;
            continue;
        }
        map->rows[map->n_rows++] = (struct map_row){family, i};
        sort_in(map, grid, head);
    }
}

/* Has a column a speed-up in a row of the picture? */
static bool has_column(const struct attn_speedup *speedup, const struct map *map, size_t column)
{
    for (size_t r = 0; r < map->n_rows; r++)
        if (map->rows[r].line < speedup->grid.n_lines &&
            isfinite(attn_speedup_of(speedup, map->rows[r].line, column).ratio))
            return true;
    return false;
}

static void choose_rows(struct map *map, const struct attn_canvas *canvas)
{
    const struct attn_speedup *speedup = canvas->speedup;
    for (size_t f = 0; f < canvas->ranking->n_families; f++) {
        /* Nothing follows what did not fit: the order says what has most work. */
        if (map->left_out)
            map->left_out +=
                canvas->ranking->families[f].cases + canvas->ranking->families[f].alone;
        else
            add_family(map, canvas, &canvas->ranking->families[f]);
    }
    size_t used = 0;
    for (size_t c = 0; c < speedup->grid.n_columns; c++) {
        if (c == speedup->baseline || map->n_columns == ATTN_SERIES_BACKENDS)
            continue;
        const size_t backend = speedup->grid.columns[c];
        if (!has_column(speedup, map, c)) {
            if (used < sizeof map->without)
                used += (size_t)snprintf(map->without + used, sizeof map->without - used, "%s%.60s",
                                         used ? ", " : "", canvas->view->backends[backend].label);
            continue;
        }
        map->columns[map->n_columns] = c;
        map->backends[map->n_columns++] = backend;
    }
    for (size_t r = 0; r < map->n_rows; r++)
        for (size_t c = 0; c < map->n_columns && map->rows[r].line < speedup->grid.n_lines; c++) {
            double ratio = attn_speedup_of(speedup, map->rows[r].line, map->columns[c]).ratio;
            if (ratio > 0 && isfinite(ratio))
                map->greatest = fmax(map->greatest, fabs(log2(ratio)));
        }
}

/* The whole power of two at which the colours end. */
static double range_of(const struct map *map)
{
    return fmin(fmax(ceil(map->greatest), 1), POWERS_MAX);
}

unsigned attn_speedup_colour(double ratio, double range)
{
    /* Okabe and Ito's vermillion and blue, which every eye tells apart, and near white for 1. */
    static const int ends[2][3] = {{0xd5, 0x5e, 0x00}, {0x00, 0x72, 0xb2}};
    static const int middle = 0xf7;
    double at = fmin(fmax(log2(ratio) / range, -1), 1);
    unsigned colour = 0;
    for (int i = 0; i < 3; i++)
        colour = colour << 8 | (unsigned)lround(middle + fabs(at) * (ends[at > 0][i] - middle));
    return colour;
}

/* Black or white, whichever is further from the colour in luminance (WCAG 2.1). */
static unsigned text_on(unsigned colour)
{
    static const double weights[] = {0.2126, 0.7152, 0.0722};
    double sum = 0.05;
    for (int i = 0; i < 3; i++) {
        double part = (colour >> (16 - 8 * i) & 0xff) / 255.0;
        sum += weights[i] * (part <= 0.03928 ? part / 12.92 : pow((part + 0.055) / 1.055, 2.4));
    }
    return sum / 0.05 > 1.05 / sum ? 0x000000 : 0xffffff;
}

static void put_cell(FILE *out, const struct attn_speedup *speedup, struct map *map,
                     const struct map_row *row, size_t place, double range)
{
    const size_t column = map->columns[place - 1];
    char figure[ATTN_FIGURE_MAX];
    const struct attn_view_row *cell = speedup->grid.lines[row->line].cells[column];
    const struct attn_ratio ratio = attn_speedup_of(speedup, row->line, column);
    const bool known = ratio.ratio > 0 && isfinite(ratio.ratio);
    const unsigned colour = known ? attn_speedup_colour(ratio.ratio, range) : 0xffffff;
    const bool hatched = known && !(ratio.lo > 1) && !(ratio.hi < 1);
    const char *text = known                  ? attn_figure(ratio.ratio, figure)
                       : attn_row_timed(cell) ? "no base"
                                              : attn_row_mark(cell);
    fprintf(out, " %zu %u %u %d \"%s\"\n", place, colour, known ? text_on(colour) : 0x55606c,
            hatched ? 1 : 0, text);
    map->hatched = map->hatched || hatched;
    attn_marks_add(&map->marks, text);
}

/* One line a cell: row, column, colour, colour of the text, 1 where hatched, text. */
static int write_cells(const struct attn_canvas *canvas, struct map *map, const char *name)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = attn_canvas_open(canvas, name, &text, &length);
    if (!out)
        return -1;
    fprintf(out, "# row column colour text_colour hatched text\n");
    for (size_t r = 0; r < map->n_rows; r++)
        for (size_t c = 0; c < map->n_columns; c++) {
            if (map->rows[r].line == canvas->speedup->grid.n_lines)
                continue;
            fprintf(out, "%zu", r + 1);
            put_cell(out, canvas->speedup, map, &map->rows[r], c + 1, range_of(map));
        }
    /* gnuplot 5.4.4 crashes on labels of which the only one is left out. */
    fprintf(out, "? ? ? ? ? ?\n");
    return attn_canvas_finish(canvas, out, name, ".dat", &text, &length);
}

static void row_label(const struct attn_speedup *speedup, const struct map_row *row,
                      char text[ATTN_ROW_NAME_MAX])
{
    const struct attn_family *family = row->family;
    const bool sweep = family->length && family->name[family->length - 1] == '/';
    const char *name = family->name;
    size_t length = family->length - sweep;
    if (row->line < speedup->grid.n_lines) {
        const struct attn_view_row *cell = speedup->grid.lines[row->line].row;
        name = *cell->name ? cell->name + (sweep ? family->length : 0) : cell->line;
        length = strlen(name);
    }
    attn_row_name(text, name, length);
}

static void define_rows(FILE *out, const struct attn_speedup *speedup, const struct map *map)
{
    fprintf(out, "n_rows = %zu\narray rows[%zu]\narray heads[%zu]\n", map->n_rows, map->n_rows,
            map->n_rows);
    for (size_t r = 0; r < map->n_rows; r++) {
        char label[ATTN_ROW_NAME_MAX];
        row_label(speedup, &map->rows[r], label);
        fprintf(out, "heads[%zu] = %d\nrows[%zu] = ", r + 1,
                map->rows[r].line == speedup->grid.n_lines, r + 1);
        attn_put_gnuplot(out, label);
        fputc('\n', out);
    }
}

/* The colour bar: a colour for each half power of two. */
static void define_bar(FILE *out, double range)
{
    const int steps = (int)(4 * range) + 1;
    fprintf(out, "n_steps = %d\narray steps[%d]\narray tics[%d]\n", steps, steps, steps);
    for (int i = 0; i < steps; i++) {
        const double power = i / 2.0 - range;
        fprintf(out, "steps[%d] = %u\ntics[%d] = ", i + 1, attn_speedup_colour(exp2(power), range),
                i + 1);
        fprintf(out, i % 2 ? "''\n" : power < 0 ? "'1/%.0f'\n" : "'%.0f'\n", exp2(fabs(power)));
    }
}

/* What the cells are, and what is left out: a line each. */
static void put_notes(const struct attn_canvas *canvas, const struct map *map, char *text,
                      size_t size)
{
    char protocol[128], marks[400];
    const struct attn_speedup *speedup = canvas->speedup;
    attn_protocol_text(canvas->view, canvas->machine, protocol, sizeof protocol);
    attn_marks_text(&map->marks, marks, sizeof marks);
    int used =
        snprintf(text, size, "Time of %.60s over time of the backend, medians of %s, hot cache",
                 canvas->view->backends[speedup->grid.columns[speedup->baseline]].label, protocol);
    if (map->hatched)
        used += snprintf(
            text + used, size - (size_t)used,
            "\nHatched: the 95 %% interval holds 1, or there is none (fewer than 4 rounds)");
    if (*marks)
        used += snprintf(text + used, size - (size_t)used, "\nNo figure: %s", marks);
    if (*map->without)
        used += snprintf(text + used, size - (size_t)used, "\nNo figure in these cases: %s",
                         map->without);
    if (map->empty)
        snprintf(text + used, size - (size_t)used, "\n%zu cases without any speed-up are left out",
                 map->empty);
}

static void define_map(FILE *out, const struct attn_canvas *canvas, const struct map *map,
                       struct attn_plot *plot)
{
    char notes[1200], left_out[64] = "";
    attn_define(out, "base", plot->name);
    attn_define(out, "title", plot->title);
    attn_define_labels(out, canvas->view, map->backends, map->n_columns);
    define_rows(out, canvas->speedup, map);
    define_bar(out, range_of(map));
    put_notes(canvas, map, notes, sizeof notes);
    attn_define_footer(out, canvas->machine, notes);
    if (map->left_out)
        snprintf(left_out, sizeof left_out, " %zu cases with less work are left out.",
                 map->left_out);
    attn_canvas_caption(plot, "", notes, left_out);
}

int attn_plot_speedup(const struct attn_canvas *canvas, const struct attn_series *series,
                      struct attn_plot *plot)
{
    char *text = NULL;
    size_t length = 0;
    struct map map = {0};
    const struct attn_speedup *speedup = canvas->speedup;
    (void)series;
    if (speedup->baseline == speedup->grid.n_columns)
        return 0;
    choose_rows(&map, canvas);
    if (!map.n_rows || !map.n_columns)
        return 0;
    snprintf(plot->name, sizeof plot->name, "speedup");
    snprintf(plot->title, sizeof plot->title, "Speed-up over %.100s",
             canvas->view->backends[speedup->grid.columns[speedup->baseline]].label);
    if (write_cells(canvas, &map, plot->name) != 0)
        return -1;
    FILE *out = attn_canvas_open(canvas, plot->name, &text, &length);
    if (!out)
        return -1;
    define_map(out, canvas, &map, plot);
    return attn_canvas_finish(canvas, out, plot->name, ".def.gp", &text, &length) == 0 ? 1 : -1;
}
