/* SPDX-License-Identifier: Apache-2.0 */
/* plot_throughput.c - bars of GFLOP/s over one size, with intervals, roofs and marks. */
#include "report/canvas.h"

#include <math.h>
#include <string.h>

#include "report/summary.h"
#include "report/text.h"

/* One line a slot: backend, point, size, value, low and high end of the interval, mark. */
static int write_bars(const struct attn_canvas *canvas, const struct attn_series *series,
                      const char *name, double *top, bool *marked)
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
            *marked = *marked || strcmp(mark, "*") == 0;
            if (isfinite(value))
                *top = fmax(*top, isfinite(high) ? high : value);
        }
    return attn_canvas_finish(canvas, out, name, ".dat", &text, &length);
}

/* Roofs as measured: of the widest rung, and of AVX2 where that is another one. Rungs within 15 %
 * would print their labels over each other. */
static double define_roofs(FILE *out, const json_t *machine)
{
    char label[160], figure[ATTN_FIGURE_MAX];
    double roof = attn_field_number(machine, "ceilings.fma_gflops_f32");
    double lower = attn_field_number(machine, "ceilings.avx2_gflops_f32");
    const char *isa = attn_field_text(machine, "ceilings.isa");
    bool has_roof = isfinite(roof) && roof > 0;
    bool has_lower = has_roof && lower > 0 && lower < 0.85 * roof && strcmp(isa, "avx2") != 0;
    snprintf(label, sizeof label, "measured f32 FMA roof%s%.32s: %s GFLOP/s", *isa ? ", " : "", isa,
             attn_figure(roof, figure));
    fprintf(out, "roof = %.6g\n", has_roof ? roof : 0.0);
    attn_define(out, "roof_label", label);
    snprintf(label, sizeof label, "measured f32 FMA roof, avx2: %s GFLOP/s",
             attn_figure(lower, figure));
    fprintf(out, "roof2 = %.6g\n", has_lower ? lower : 0.0);
    attn_define(out, "roof2_label", label);
    return has_roof ? roof : 0;
}

int attn_plot_throughput(const struct attn_canvas *canvas, const struct attn_series *series,
                         struct attn_plot *plot)
{
    char *text = NULL, protocol[128], line[320], left_out[64];
    size_t length = 0;
    double top = 0;
    bool marked = false;
    snprintf(plot->name, sizeof plot->name, "throughput_%s_%s", attn_sweep_key(series->axis),
             series->causal ? "causal" : "full");
    snprintf(plot->title, sizeof plot->title, "Throughput over %s", attn_sweep_title(series->axis));
    if (write_bars(canvas, series, plot->name, &top, &marked) != 0)
        return -1;
    FILE *out = attn_canvas_open(canvas, plot->name, &text, &length);
    if (!out)
        return -1;
    attn_define(out, "base", plot->name);
    attn_define(out, "title", plot->title);
    attn_define(out, "constants", series->constants);
    attn_define(out, "x_label", attn_sweep_title(series->axis));
    attn_define_labels(out, canvas->view, series->backends, series->n_backends);
    attn_define_points(out, series);
    top = fmax(top, define_roofs(out, canvas->machine));
    fprintf(out, "y_top = %.6g\n", top > 0 ? top * 1.12 : 1.0);
    attn_protocol_text(canvas->view, canvas->machine, protocol, sizeof protocol);
    snprintf(line, sizeof line, "Bar: median of %s; whisker: 95 %% interval. %s%s", protocol,
             ATTN_FLOP_CONVENTION, marked ? ". *: harness's own cost over 1 %" : "");
    attn_define_footer(out, canvas->machine, line);
    snprintf(left_out, sizeof left_out, " %zu more sizes or backends did not fit.",
             series->left_out);
    snprintf(plot->caption, sizeof plot->caption, "%s. %s. " ATTN_WHISKER_BOUND "%s",
             series->constants, line, series->left_out ? left_out : "");
    return attn_canvas_finish(canvas, out, plot->name, ".def.gp", &text, &length) == 0 ? 1 : -1;
}
