/* SPDX-License-Identifier: Apache-2.0 */
/* plot_passes.c - rates of the forward and the backward pass over S: a panel for each backend and
 * mask. */
#include "report/canvas.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/passes.h"
#include "report/summary.h"
#include "report/text.h"

enum { PANELS_MAX = 12 };

/* One backend in a sweep of the backward pass; the forward passes are those of the same cases. */
struct panel {
    const struct attn_series *series;
    size_t slot; /* of the backend */
    double ratio, greatest;
    bool whiskers;
};

struct panels {
    struct attn_series series[2]; /* without and with a causal mask */
    struct panel items[PANELS_MAX];
    size_t count, left_out;
};

/* The end of a rate's interval that the end of the time's interval gives; the rate without one. */
static double end_of(const struct attn_view_row *row, double time)
{
    const double rate = row->gflops * row->median / time;
    return isfinite(rate) ? rate : row->gflops;
}

static void put_pass(FILE *out, const struct attn_view_row *row, struct panel *panel)
{
    attn_put_number(out, row->gflops);
    attn_put_number(out, end_of(row, row->hi));
    attn_put_number(out, end_of(row, row->lo));
    panel->greatest = fmax(panel->greatest, end_of(row, row->lo));
    panel->whiskers = panel->whiskers || isfinite(row->hi);
}

/* Every size at which both passes have a rate. */
static void put_panel(FILE *out, const struct attn_passes *passes, size_t number,
                      struct panel *panel)
{
    double logs = 0, n = 0;
    for (size_t x = 0; x < panel->series->n_points; x++) {
        const struct attn_pass_pair *pair =
            attn_passes_find(passes, panel->series->cells[panel->slot][x]);
        if (!pair || !isfinite(pair->forward->gflops) || !isfinite(pair->backward->gflops))
            continue;
        fprintf(out, "%zu %.0f", number, panel->series->x[x]);
        put_pass(out, pair->forward, panel);
        put_pass(out, pair->backward, panel);
        fputc('\n', out);
        logs += log(pair->ratio.ratio);
        n++;
    }
    panel->ratio = exp(logs / n);
}

/* Has a backend both passes at two sizes or more? One is in the table. */
static bool is_shown(const struct attn_passes *passes, const struct attn_series *series,
                     size_t slot)
{
    size_t pairs = 0;
    for (size_t x = 0; x < series->n_points; x++) {
        const struct attn_pass_pair *pair = attn_passes_find(passes, series->cells[slot][x]);
        pairs += pair && isfinite(pair->forward->gflops) && isfinite(pair->backward->gflops);
    }
    return pairs > 1;
}

static void find_panels(const struct attn_view *view, const struct attn_passes *passes,
                        struct panels *panels)
{
    for (int causal = 0; causal < 2; causal++) {
        struct attn_series *series = &panels->series[causal];
        const struct attn_series_kind kind = {ATTN_SWEEP_S, causal, true};
        if (attn_series_find(view, kind, series) != 0)
            continue;
        for (size_t b = 0; b < series->n_backends; b++) {
            if (!is_shown(passes, series, b))
                continue;
            if (panels->count < PANELS_MAX)
                panels->items[panels->count++] = (struct panel){.series = series, .slot = b};
            else
                panels->left_out++;
        }
    }
}

/* "b=1, h=8, d=64, f32, no mask, 1 thread": of both passes, so without the operator. */
static const char *constants_of(const struct attn_series *series)
{
    static const char op[] = "attention_backward, ";
    const size_t length = sizeof op - 1;
    return series->constants + (strncmp(series->constants, op, length) == 0 ? length : 0);
}

static void define_panels(FILE *out, const struct attn_view *view, const struct panels *panels)
{
    static const char *const arrays[] = {"panel_title", "panel_text", "panel_time", "panel_sizes",
                                         "y_high"};
    fprintf(out, "n_panels = %zu\n", panels->count);
    for (size_t a = 0; a < sizeof arrays / sizeof *arrays; a++)
        fprintf(out, "array %s[%zu]\n", arrays[a], panels->count);
    for (size_t p = 0; p < panels->count; p++) {
        const struct panel *panel = &panels->items[p];
        const struct attn_series *series = panel->series;
        char text[96], figure[ATTN_FIGURE_MAX];
        attn_define_at(out, "panel_title", p, view->backends[series->backends[panel->slot]].label);
        attn_define_at(out, "panel_text", p, constants_of(series));
        snprintf(text, sizeof text, "backward takes %s times as long",
                 attn_figure(panel->ratio, figure));
        attn_define_at(out, "panel_time", p, text);
        attn_define_sizes(out, "panel_sizes", p, series);
        fprintf(out, "y_high[%zu] = %.6g\n", p + 1, panel->greatest);
    }
}

static void define_passes(FILE *out, const struct attn_canvas *canvas, const struct panels *panels,
                          struct attn_plot *plot)
{
    char protocol[128], line[320], more[320];
    bool whiskers = false;
    attn_define(out, "base", plot->name);
    attn_define(out, "title", plot->title);
    define_panels(out, canvas->view, panels);
    attn_protocol_text(canvas->view, canvas->machine, protocol, sizeof protocol);
    for (size_t p = 0; p < panels->count; p++)
        whiskers = whiskers || panels->items[p].whiskers;
    snprintf(line, sizeof line,
             "Point: median of %s, hot cache%s. FLOPs of a cell: forward 2 (dk + dv), backward "
             "2 (3 dk + 2 dv)",
             protocol, whiskers ? "; whisker: 95 % interval" : "");
    attn_define_footer(out, canvas->machine, line);
    int used = snprintf(more, sizeof more,
                        " Times as long: geometric mean over the sizes; at 2.5 both have the same "
                        "rate. Every panel has a scale of its own.%s",
                        whiskers ? " " ATTN_WHISKER_BOUND : "");
    if (panels->left_out)
        snprintf(more + used, sizeof more - (size_t)used, " %zu more panels did not fit.",
                 panels->left_out);
    attn_canvas_caption(plot, "", line, more);
}

static int write_points(const struct attn_canvas *canvas, const struct attn_passes *passes,
                        struct panels *panels, const char *name)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = attn_canvas_open(canvas, name, &text, &length);
    if (!out)
        return -1;
    fprintf(out, "# panel size forward low high backward low high, in GFLOP/s\n");
    for (size_t p = 0; p < panels->count; p++)
        put_panel(out, passes, p + 1, &panels->items[p]);
    return attn_canvas_finish(canvas, out, name, ".dat", &text, &length);
}

static int write_picture(const struct attn_canvas *canvas, const struct attn_passes *passes,
                         struct panels *panels, struct attn_plot *plot)
{
    char *text = NULL;
    size_t length = 0;
    find_panels(canvas->view, passes, panels);
    if (panels->count == 0)
        return 0;
    if (write_points(canvas, passes, panels, plot->name) != 0)
        return -1;
    FILE *out = attn_canvas_open(canvas, plot->name, &text, &length);
    if (!out)
        return -1;
    define_passes(out, canvas, panels, plot);
    return attn_canvas_finish(canvas, out, plot->name, ".def.gp", &text, &length) == 0 ? 1 : -1;
}

int attn_plot_passes(const struct attn_canvas *canvas, const struct attn_series *series,
                     struct attn_plot *plot)
{
    struct attn_passes passes = {0};
    struct panels *panels = calloc(1, sizeof *panels);
    int status = -1;
    (void)series;
    snprintf(plot->name, sizeof plot->name, "passes");
    snprintf(plot->title, sizeof plot->title, "Forward and backward pass: throughput over %s",
             attn_sweep_title(ATTN_SWEEP_S));
    if (panels && attn_passes_create(canvas->view, &passes) == 0)
        status = write_picture(canvas, &passes, panels, plot);
    else
        snprintf(canvas->why, canvas->size, "no memory for the picture of both passes");
    attn_passes_free(&passes);
    free(panels);
    return status;
}
