/* SPDX-License-Identifier: Apache-2.0 */
/* plot_approximations.c - error against time of operators that approximate softmax attention, a
 * panel for each input and size, with the time of exact attention. */
#include "report/canvas.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/approximations.h"
#include "report/summary.h"
#include "report/text.h"

enum { PANELS_MAX = 6 };

/* Errors below it, such as of an identity, lie on the lower edge. */
static const double least_error = 1e-4;

/* The cases of one input and size; they need not lie side by side. */
struct panel {
    const struct attn_approximation *first; /* of its cases */
    size_t cases;
    double exact, low, high; /* times in ns; NAN: none */
    double least, most;      /* errors */
    const struct attn_view_row *fastest;
};

struct panels {
    struct panel *items;
    size_t count, backends[ATTN_SERIES_BACKENDS], n_backends;
};

static size_t panel_of(const struct panels *panels, const struct attn_approximation *a)
{
    size_t p = 0;
    while (p < panels->count && (strcmp(panels->items[p].first->input, a->input) != 0 ||
                                 !attn_approximation_sizes(panels->items[p].first->row, a->row)))
        p++;
    return p;
}

static double error_of(const struct attn_approximation *a)
{
    const double error = attn_field_number(a->error, "rel_fro");
    return error < least_error ? least_error : error;
}

/* Cases to compare come first, then long ones. */
static int by_cases(const void *x, const void *y)
{
    const struct panel *a = x, *b = y;
    if (a->cases != b->cases)
        return a->cases < b->cases ? 1 : -1;
    if (a->first->s != b->first->s)
        return a->first->s < b->first->s ? 1 : -1;
    return (a->first > b->first) - (a->first < b->first);
}

static int by_input(const void *x, const void *y)
{
    const struct panel *a = x, *b = y;
    const int order = strcmp(a->first->input, b->first->input);
    if (order != 0 || a->first->s != b->first->s)
        return order ? order : a->first->s < b->first->s ? -1 : 1;
    return (a->first > b->first) - (a->first < b->first);
}

/* The panels with most cases. Returns 0, or -1: no memory. */
static int find_panels(const struct attn_approximations *all, struct panels *panels)
{
    panels->items = calloc(all->n_cases + 1, sizeof *panels->items);
    if (!panels->items)
        return -1;
    for (size_t i = 0; i < all->n_cases; i++) {
        const struct attn_approximation *a = &all->cases[i];
        if (!a->row || !isfinite(error_of(a)))
            continue;
        const size_t p = panel_of(panels, a);
        struct panel *panel = &panels->items[p];
        if (p == panels->count) {
            *panel = (struct panel){.first = a, .exact = NAN, .low = INFINITY, .least = INFINITY};
            panels->count++;
        }
        panel->cases++;
        if (a->exact) {
            panel->fastest = a->exact;
            panel->exact = a->exact->median;
            panel->low = fmin(panel->low, panel->exact);
            panel->high = fmax(panel->high, panel->exact);
        }
    }
    qsort(panels->items, panels->count, sizeof *panels->items, by_cases);
    panels->count = panels->count < PANELS_MAX ? panels->count : PANELS_MAX;
    qsort(panels->items, panels->count, sizeof *panels->items, by_input);
    return 0;
}

/* As a string of a data file, which has no escapes. */
static void put_quoted(FILE *out, const char *text)
{
    fputc('"', out);
    for (; *text; text++)
        fputc(*text == '"' || (unsigned char)*text < ' ' ? '\'' : *text, out);
    fputc('"', out);
}

/* The operator, with its parameters only where another case of the panel has the same; of
 * attention, what is left of it. */
static void name_of(const struct attn_approximations *all, const struct panels *panels,
                    const struct attn_approximation *a, char *text, size_t size)
{
    static const char exact[] = "attention ";
    const char *name = a->variant;
    size_t same = 0, length = strcspn(name, " ");
    if (strncmp(name, exact, sizeof exact - 1) == 0)
        name += sizeof exact - 1;
    for (size_t i = 0; i < all->n_cases; i++) {
        const struct attn_approximation *other = &all->cases[i];
        same += other->row && panel_of(panels, other) == panel_of(panels, a) &&
                strncmp(other->variant, a->variant, length + 1) == 0;
    }
    snprintf(text, size, "%.*s", (int)(same > 1 || name != a->variant ? strlen(name) : length),
             name);
}

/* Every backend with a time of this case. */
static void put_case(FILE *out, const struct attn_view *view, const struct attn_approximations *all,
                     const struct attn_approximation *a, struct panels *panels)
{
    char name[sizeof a->variant] = "";
    const size_t p = a->row ? panel_of(panels, a) : panels->count;
    if (p < panels->count)
        name_of(all, panels, a, name, sizeof name);
    for (size_t r = 0; p < panels->count && r < view->n_rows; r++) {
        const struct attn_view_row *row = &view->rows[r];
        if (strcmp(row->id, a->row->id) != 0 || row->threads != a->row->threads ||
            !attn_approximation_times(view, row))
            continue;
        struct panel *panel = &panels->items[p];
        const size_t place = attn_series_place(panels->backends, &panels->n_backends, row->backend);
        fprintf(out, "%zu %zu %.6g %.6g ", p + 1, place + 1, row->median, error_of(a));
        /* Only the fastest has a name beside it. */
        put_quoted(out, row == a->row ? name : "");
        fputc('\n', out);
        panel->low = fmin(panel->low, row->median);
        panel->high = fmax(panel->high, row->median);
        panel->least = fmin(panel->least, error_of(a));
        panel->most = fmax(panel->most, error_of(a));
    }
}

/* "S = 1024, H = 12, d = 64, causal, bf16, input smooth" */
static void title_of(const struct panel *panel, char *text, size_t size)
{
    const json_t *sizes = panel->first->row->sizes;
    const char *type = attn_field_text(sizes, "dtype");
    const bool plain = strcmp(type, "f32") == 0;
    snprintf(text, size, "S = %.0f, H = %.0f, d = %.0f%s%s%s, input %s", panel->first->s,
             attn_field_number(sizes, "hq"), attn_field_number(sizes, "dk"),
             attn_field_true(sizes, "causal") ? ", causal" : "", plain ? "" : ", ",
             plain ? "" : type, panel->first->input);
}

static void define_panels(FILE *out, const struct attn_view *view, const struct panels *panels)
{
    static const char *const arrays[] = {"panel_title", "panel_exact", "exact", "x_low",
                                         "x_high",      "y_low",       "y_high"};
    char text[256];
    fprintf(out, "n_panels = %zu\n", panels->count);
    for (size_t a = 0; a < sizeof arrays / sizeof *arrays; a++)
        fprintf(out, "array %s[%zu]\n", arrays[a], panels->count);
    for (size_t p = 0; p < panels->count; p++) {
        const struct panel *panel = &panels->items[p];
        title_of(panel, text, sizeof text);
        attn_define_at(out, "panel_title", p, text);
        snprintf(text, sizeof text, "exact: %s",
                 panel->fastest ? view->backends[panel->fastest->backend].label : "");
        attn_define_at(out, "panel_exact", p, text);
        fprintf(out, "exact[%zu] = %.6g\nx_low[%zu] = %.6g\nx_high[%zu] = %.6g\n", p + 1,
                isfinite(panel->exact) ? panel->exact : 0, p + 1, panel->low, p + 1, panel->high);
        fprintf(out, "y_low[%zu] = %.6g\ny_high[%zu] = %.6g\n", p + 1, panel->least, p + 1,
                panel->most);
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
    attn_protocol_text(canvas->view, canvas->machine, protocol, sizeof protocol);
    snprintf(line, sizeof line,
             "Point: a case on a backend, median of %s, hot cache. Error: Frobenius norm, "
             "|out - exact| / |exact|",
             protocol);
    attn_define_footer(out, canvas->machine, line);
    attn_define(out, "ylabel", "error");
    snprintf(plot->caption, sizeof plot->caption,
             "%s. Upright line: the fastest exact attention of the same sizes and type. Errors are "
             "those of the formulas, on some rows, in double. The table has the parameters.",
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
        put_case(out, canvas->view, all, &all->cases[i], panels);
    return attn_canvas_finish(canvas, out, name, ".dat", &text, &length);
}

static int write_picture(const struct attn_canvas *canvas, const struct attn_approximations *all,
                         struct panels *panels, struct attn_plot *plot)
{
    char *text = NULL;
    size_t length = 0;
    if (panels->count == 0)
        return 0;
    if (write_points(canvas, all, panels, plot->name) != 0)
        return -1;
    FILE *out = attn_canvas_open(canvas, plot->name, &text, &length);
    if (!out)
        return -1;
    define_picture(out, canvas, panels, plot);
    return attn_canvas_finish(canvas, out, plot->name, ".def.gp", &text, &length) == 0 ? 1 : -1;
}

int attn_plot_approximations(const struct attn_canvas *canvas, const struct attn_series *series,
                             struct attn_plot *plot)
{
    struct attn_approximations all = {0};
    struct panels panels = {0};
    int status = -1;
    (void)series;
    snprintf(plot->name, sizeof plot->name, "approximations");
    snprintf(plot->title, sizeof plot->title, "Approximations: error against time");
    if (attn_approximations_create(canvas->view, &all) == 0 && find_panels(&all, &panels) == 0)
        status = write_picture(canvas, &all, &panels, plot);
    else
        snprintf(canvas->why, canvas->size, "no memory for the approximations");
    free(panels.items);
    attn_approximations_free(&all);
    return status;
}
