/* SPDX-License-Identifier: Apache-2.0 */
/* plot_approximations.c - error against time of operators that approximate softmax attention, a
 * panel for each input and length, with the time of exact attention. */
#include "report/canvas.h"

#include <math.h>
#include <string.h>

#include "report/approximations.h"
#include "report/summary.h"
#include "report/text.h"

enum { PANELS_MAX = 6 };

/* Errors below it, such as of an identity, lie on the lower edge. */
static const double least_error = 1e-4;

/* The cases of one input and length; they need not lie side by side. */
struct panel {
    const char *input;
    double s, exact, low, high; /* times in ns; NAN: none */
    const struct attn_view_row *fastest;
};

struct panels {
    struct panel items[PANELS_MAX];
    size_t count, backends[ATTN_SERIES_BACKENDS], n_backends, points;
    double low, high; /* errors */
};

static size_t panel_of(const struct panels *panels, const struct attn_approximation *a)
{
    size_t p = 0;
    while (p < panels->count &&
           (panels->items[p].s != a->s || strcmp(panels->items[p].input, a->input) != 0))
        p++;
    return p;
}

static double error_of(const struct attn_approximation *a)
{
    const double error = attn_field_number(a->error, "rel_fro");
    return error < least_error ? least_error : error;
}

static void find_panels(const struct attn_approximations *all, struct panels *panels)
{
    for (size_t i = 0; i < all->n_cases; i++) {
        const struct attn_approximation *a = &all->cases[i];
        if (!a->row || !isfinite(error_of(a)))
            continue;
        const size_t p = panel_of(panels, a);
        if (p == PANELS_MAX)
            continue;
        struct panel *panel = &panels->items[p];
        if (p == panels->count) {
            *panel = (struct panel){.input = a->input, .s = a->s, .exact = NAN, .low = INFINITY};
            panels->count++;
        }
        if (a->exact) {
            panel->fastest = a->exact;
            panel->exact = a->exact->median;
            panel->low = fmin(panel->low, panel->exact);
            panel->high = fmax(panel->high, panel->exact);
        }
    }
}

static size_t place_of(struct panels *panels, size_t backend)
{
    size_t at = 0;
    while (at < panels->n_backends && panels->backends[at] != backend)
        at++;
    if (at == panels->n_backends && at < ATTN_SERIES_BACKENDS)
        panels->backends[panels->n_backends++] = backend;
    return at;
}

/* As a string of a data file, which has no escapes. */
static void put_quoted(FILE *out, const char *text)
{
    fputc('"', out);
    for (; *text; text++)
        fputc(*text == '"' || (unsigned char)*text < ' ' ? '\'' : *text, out);
    fputc('"', out);
}

/* Every backend with a time of this case. */
static void put_case(FILE *out, const struct attn_view *view, const struct attn_approximation *a,
                     struct panels *panels)
{
    const size_t p = panel_of(panels, a);
    for (size_t r = 0; a->row && p < panels->count && r < view->n_rows; r++) {
        const struct attn_view_row *row = &view->rows[r];
        if (strcmp(row->id, a->row->id) != 0 || row->threads != a->row->threads ||
            !attn_approximation_times(view, row))
            continue;
        struct panel *panel = &panels->items[p];
        const size_t place = place_of(panels, row->backend);
        fprintf(out, "%zu %zu %.6g %.6g ", p + 1, place + 1, row->median, error_of(a));
        /* Only the fastest has a name beside it. */
        put_quoted(out, row == a->row ? a->variant : "");
        fputc('\n', out);
        panel->low = fmin(panel->low, row->median);
        panel->high = fmax(panel->high, row->median);
        panels->low = fmin(panels->low, error_of(a));
        panels->high = fmax(panels->high, error_of(a));
        panels->points++;
    }
}

static void define_panels(FILE *out, const struct attn_view *view, const struct panels *panels)
{
    static const char *const arrays[] = {"panel_title", "panel_exact", "exact", "x_low", "x_high"};
    char text[256];
    fprintf(out, "n_panels = %zu\n", panels->count);
    for (size_t a = 0; a < sizeof arrays / sizeof *arrays; a++)
        fprintf(out, "array %s[%zu]\n", arrays[a], panels->count);
    for (size_t p = 0; p < panels->count; p++) {
        const struct panel *panel = &panels->items[p];
        snprintf(text, sizeof text, "S = %.0f, input %s", panel->s, panel->input);
        attn_define_at(out, "panel_title", p, text);
        snprintf(text, sizeof text, "exact: %s",
                 panel->fastest ? view->backends[panel->fastest->backend].label : "");
        attn_define_at(out, "panel_exact", p, text);
        fprintf(out, "exact[%zu] = %.6g\nx_low[%zu] = %.6g\nx_high[%zu] = %.6g\n", p + 1,
                isfinite(panel->exact) ? panel->exact : 0, p + 1, panel->low, p + 1, panel->high);
    }
}

static void define_picture(FILE *out, const struct attn_canvas *canvas, const struct panels *panels,
                           struct attn_plot *plot)
{
    char protocol[128], line[320];
    attn_define(out, "base", plot->name);
    attn_define(out, "title", plot->title);
    attn_define_labels(out, canvas->view, panels->backends, panels->n_backends);
    define_panels(out, canvas->view, panels);
    fprintf(out, "y_low = %.6g\ny_high = %.6g\n", panels->low, panels->high);
    attn_protocol_text(canvas->view, canvas->machine, protocol, sizeof protocol);
    snprintf(line, sizeof line,
             "Point: a case on a backend, median of %s, hot cache. Error: norm of the difference "
             "from exact attention over the norm of that",
             protocol);
    attn_define_footer(out, canvas->machine, line);
    attn_define(out, "ylabel", "error");
    snprintf(plot->caption, sizeof plot->caption,
             "%s. Upright line: the fastest exact attention of the same sizes and type. Errors are "
             "those of the formulas, on some rows, in double.",
             line);
}

static int write_points(const struct attn_canvas *canvas, const struct attn_approximations *all,
                        struct panels *panels, const char *name)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = attn_canvas_open(canvas, name, &text, &length);
    if (!out)
        return -1;
    fprintf(out, "# panel backend time_ns error variant\n");
    for (size_t i = 0; i < all->n_cases; i++)
        put_case(out, canvas->view, &all->cases[i], panels);
    return attn_canvas_finish(canvas, out, name, ".dat", &text, &length);
}

static int write_picture(const struct attn_canvas *canvas, const struct attn_approximations *all,
                         struct attn_plot *plot)
{
    struct panels panels = {.low = INFINITY};
    char *text = NULL;
    size_t length = 0;
    find_panels(all, &panels);
    if (panels.count == 0)
        return 0;
    if (write_points(canvas, all, &panels, plot->name) != 0)
        return -1;
    FILE *out = attn_canvas_open(canvas, plot->name, &text, &length);
    if (!out)
        return -1;
    define_picture(out, canvas, &panels, plot);
    return attn_canvas_finish(canvas, out, plot->name, ".def.gp", &text, &length) == 0 ? 1 : -1;
}

int attn_plot_approximations(const struct attn_canvas *canvas, const struct attn_series *series,
                             struct attn_plot *plot)
{
    struct attn_approximations all;
    (void)series;
    if (attn_approximations_create(canvas->view, &all) != 0) {
        snprintf(canvas->why, canvas->size, "no memory for the approximations");
        return -1;
    }
    snprintf(plot->name, sizeof plot->name, "approximations");
    snprintf(plot->title, sizeof plot->title, "Approximations: error against time");
    const int status = write_picture(canvas, &all, plot);
    attn_approximations_free(&all);
    return status;
}
