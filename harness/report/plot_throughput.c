/* SPDX-License-Identifier: Apache-2.0 */
/* plot_throughput.c - bars of GFLOP/s over one size, with intervals, roofs and marks. */
#include "report/canvas.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/grid.h"
#include "report/marks.h"
#include "report/summary.h"
#include "report/text.h"

/* The rate of each round's median. A line in any case: gnuplot refuses an empty block. */
static void write_rounds(FILE *out, const struct attn_series *series)
{
    fputs("\n\n# backend point gflops, a line a round\n1 1 ?\n", out);
    for (size_t b = 0; b < series->n_backends; b++)
        for (size_t p = 0; p < series->n_points; p++) {
            const struct attn_view_row *row = series->cells[b][p];
            double *medians = NULL;
            const size_t n =
                row && isfinite(row->gflops) ? attn_view_round_medians(row->bench, &medians) : 0;
            for (size_t r = 0; r < n; r++)
                fprintf(out, "%zu %zu %.6g\n", b + 1, p + 1,
                        row->gflops * row->median / medians[r]);
            if (n > 0)
                free(medians);
        }
}

/* What there is in the picture and has to be explained. */
struct shown {
    double top;
    bool whiskers, stars; /* a star: the cost of the harness is over 1 % */
    struct attn_marks marks;
};

/* One line a slot: backend, point, size, value, low and high end of the interval, mark. */
static int write_bars(const struct attn_canvas *canvas, const struct attn_series *series,
                      const char *name, struct shown *shown)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = attn_canvas_open(canvas, name, &text, &length);
    if (!out)
        return -1;
    fprintf(out, "# backend point size gflops low high mark\n");
    for (size_t b = 0; b < series->n_backends; b++)
        for (size_t p = 0; p < series->n_points; p++) {
            const struct attn_view_row *row = series->cells[b][p];
            double value = row ? row->gflops : (double)NAN;
            /* The interval is of the time; the rate's is its inverse. */
            double low = row ? value * row->median / row->hi : (double)NAN;
            double high = row ? value * row->median / row->lo : (double)NAN;
            fprintf(out, "%zu %zu %.0f", b + 1, p + 1, series->x[p]);
            attn_put_number(out, value);
            attn_put_number(out, low);
            attn_put_number(out, high);
            const char *mark =
                row && isfinite(value) ? row->marked ? "*" : "-" : attn_row_mark(row);
            fprintf(out, " \"%s\"\n", mark);
            attn_marks_add(&shown->marks, mark);
            shown->stars = shown->stars || strcmp(mark, "*") == 0;
            shown->whiskers = shown->whiskers || isfinite(high);
            if (isfinite(value))
                shown->top = fmax(shown->top, isfinite(high) ? high : value);
        }
    write_rounds(out, series);
    return attn_canvas_finish(canvas, out, name, ".dat", &text, &length);
}

/* The rung and the figure of a roof, on the margin beside it. */
static void define_roof(FILE *out, const char *name, double gflops, const char *isa)
{
    char label[64], figure[ATTN_FIGURE_MAX];
    fprintf(out, "%s = %.6g\n", name, gflops);
    snprintf(label, sizeof label, "%.10s%s%s", isa, *isa ? ": " : "", attn_figure(gflops, figure));
    fprintf(out, "%s_label = ", name);
    attn_put_gnuplot(out, label);
    fputc('\n', out);
}

/* Roofs as measured: of the widest rung, and of AVX2 where that is another one. Rungs within 15 %
 * would print their labels over each other. */
static double define_roofs(FILE *out, const json_t *machine)
{
    double roof = attn_field_number(machine, "ceilings.fma_gflops_f32");
    double lower = attn_field_number(machine, "ceilings.avx2_gflops_f32");
    const char *isa = attn_field_text(machine, "ceilings.isa");
    bool has_roof = isfinite(roof) && roof > 0;
    bool has_lower = has_roof && lower > 0 && lower < 0.85 * roof && strcmp(isa, "avx2") != 0;
    define_roof(out, "roof", has_roof ? roof : 0, isa);
    define_roof(out, "roof2", has_lower ? lower : 0, "avx2");
    return has_roof ? roof : 0;
}

/* "Bar: ...", and in a line of its own what stands where there is no bar. */
static void put_notes(const struct attn_canvas *canvas, const struct attn_series *series,
                      bool roofs, const struct shown *shown, const char *without, char *text,
                      size_t size)
{
    char protocol[128], marks[400];
    attn_protocol_text(canvas->view, canvas->machine, protocol, sizeof protocol);
    attn_marks_text(&shown->marks, marks, sizeof marks);
    int used = snprintf(text, size, "Bar: median of %s; dots: medians of rounds%s%s%s. %s",
                        protocol, shown->whiskers ? "; whisker: 95 % interval" : "",
                        roofs ? "; dashed: measured f32 FMA peak" : "",
                        shown->stars ? "; *: harness's own cost over 1 %" : "",
                        series->kind.backward ? ATTN_FLOP_BACKWARD : ATTN_FLOP_CONVENTION);
    if (*marks)
        used += snprintf(text + used, size - (size_t)used, "\nNo bar: %s", marks);
    if (*without)
        snprintf(text + used, size - (size_t)used, "%sNo bar %s: %s", *marks ? ". " : "\n",
                 *series->names[0] ? "in any case" : "at any size", without);
}

static bool has_rate(const struct attn_view_row *row)
{
    return isfinite(row->gflops);
}

/* Both files of a picture whose name and title are known. */
static int write_plot(const struct attn_canvas *canvas, const struct attn_series *all,
                      const char *x_label, struct attn_plot *plot)
{
    char *text = NULL, notes[1000], more[160], without[400];
    int used;
    size_t length = 0;
    struct shown shown = {0};
    struct attn_series series;
    attn_series_keep(canvas->view, all, has_rate, &series, &shown.marks, without, sizeof without);
    if (write_bars(canvas, &series, plot->name, &shown) != 0)
        return -1;
    FILE *out = attn_canvas_open(canvas, plot->name, &text, &length);
    if (!out)
        return -1;
    attn_define(out, "base", plot->name);
    attn_define(out, "title", plot->title);
    attn_define(out, "constants", series.constants);
    attn_define(out, "x_label", x_label);
    attn_define_labels(out, canvas->view, series.backends, series.n_backends);
    attn_define_points(out, &series);
    const double roof = define_roofs(out, canvas->machine);
    shown.top = fmax(shown.top, roof);
    fprintf(out, "y_top = %.6g\n", shown.top > 0 ? shown.top * 1.12 : 1.0);
    put_notes(canvas, &series, roof > 0, &shown, without, notes, sizeof notes);
    attn_define_footer(out, canvas->machine, notes);
    used = snprintf(more, sizeof more, "%s", shown.whiskers ? " " ATTN_WHISKER_BOUND : "");
    if (series.left_out)
        snprintf(more + used, sizeof more - (size_t)used,
                 " %zu more sizes or backends did not fit.", series.left_out);
    attn_canvas_caption(plot, series.constants, notes, more);
    return attn_canvas_finish(canvas, out, plot->name, ".def.gp", &text, &length) == 0 ? 1 : -1;
}

int attn_plot_throughput(const struct attn_canvas *canvas, const struct attn_series *series,
                         struct attn_plot *plot)
{
    attn_series_name(series, "throughput", plot->name, sizeof plot->name);
    attn_series_title(series, "Throughput", plot->title, sizeof plot->title);
    return write_plot(canvas, series, attn_sweep_title(series->kind.axis), plot);
}

/* Cases beside each other; more would be illegible. */
enum { CASES = 12 };

/* The timed cases, those with most work first. */
static void take_cases(const struct attn_grid *grid, struct attn_series *series)
{
    for (size_t c = 0; c < grid->n_columns && series->n_backends < ATTN_SERIES_BACKENDS; c++)
        series->backends[series->n_backends++] = grid->columns[c];
    for (size_t i = 0; i < grid->n_lines; i++) {
        const struct attn_grid_line *line = &grid->lines[i];
        bool timed = false;
        for (size_t c = 0; c < series->n_backends; c++)
            timed = timed || (line->cells[c] && isfinite(line->cells[c]->gflops));
        if (!timed || series->n_points == CASES) {
            series->left_out += timed;
            continue;
        }
        const size_t p = series->n_points++;
        for (size_t c = 0; c < series->n_backends; c++)
            series->cells[c][p] = line->cells[c];
        series->x[p] = (double)(p + 1);
        attn_row_name(series->names[p], *line->row->name ? line->row->name : line->row->line,
                      strlen(*line->row->name ? line->row->name : line->row->line));
    }
}

int attn_plot_cases(const struct attn_canvas *canvas, const struct attn_series *series,
                    struct attn_plot *plot)
{
    struct attn_series cases = {.constants = "hot caches"};
    struct attn_grid grid;
    (void)series;
    if (attn_grid_create(canvas->view, ATTN_GRID_HOT, &grid) != 0) {
        snprintf(canvas->why, canvas->size, "no memory for the picture of cases");
        return -1;
    }
    take_cases(&grid, &cases);
    attn_grid_free(&grid);
    snprintf(plot->name, sizeof plot->name, "throughput_cases");
    snprintf(plot->title, sizeof plot->title, "Throughput by case");
    return cases.n_points > 0 ? write_plot(canvas, &cases, "", plot) : 0;
}
