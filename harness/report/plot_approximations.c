/* SPDX-License-Identifier: Apache-2.0 */
/* plot_approximations.c - error against time of operators that approximate softmax attention, a
 * panel for each input and size, with the time of exact attention. */
#include "report/canvas.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/approximations.h"
#include "report/labels.h"
#include "report/summary.h"
#include "report/text.h"

enum { PANELS_MAX = 6 };

/* The inside of a panel, in pixels, by whether there is one column of them. */
static const double plot_width[] = {374, 814}, plot_height = 242;
/* Of the small text there. */
static const double character = 6.5, text_height = 12;

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

/* A case on a backend. Only the fastest has a name beside it. */
struct point {
    size_t panel, backend; /* from 0; the place in the list of backends */
    double time, error;
    bool fastest;
    const struct attn_approximation *a;
};

struct panels {
    struct panel *items;
    size_t count, backends[ATTN_SERIES_BACKENDS], n_backends;
    struct point *points;
    size_t n_points, nameless; /* points whose name has no place */
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

/* What can be compared comes first: with exact attention, with each other; then long sequences. (The
 * cases of the edges of an operator are many, and take microseconds.) */
static int by_worth(const void *x, const void *y)
{
    const struct panel *a = x, *b = y;
    if (isnan(a->exact) != isnan(b->exact))
        return isnan(a->exact) ? 1 : -1;
    if ((a->cases > 1) != (b->cases > 1))
        return a->cases > 1 ? -1 : 1;
    if (a->first->s != b->first->s)
        return a->first->s < b->first->s ? 1 : -1;
    if (a->cases != b->cases)
        return a->cases < b->cases ? 1 : -1;
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

/* The panels that are worth most. Returns 0, or -1: no memory. */
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
    qsort(panels->items, panels->count, sizeof *panels->items, by_worth);
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

/* Every backend with a time of this case. Returns 0, or -1: no memory. */
static int add_case(const struct attn_view *view, const struct attn_approximation *a,
                    struct panels *panels)
{
    const size_t p = a->row ? panel_of(panels, a) : panels->count;
    for (size_t r = 0; p < panels->count && r < view->n_rows; r++) {
        const struct attn_view_row *row = &view->rows[r];
        if (strcmp(row->id, a->row->id) != 0 || row->threads != a->row->threads ||
            !attn_approximation_times(view, row))
            continue;
        struct panel *panel = &panels->items[p];
        struct point *more =
            reallocarray(panels->points, panels->n_points + 1, sizeof *panels->points);
        if (!more)
            return -1;
        panels->points = more;
        const size_t place = attn_series_place(panels->backends, &panels->n_backends, row->backend);
        more[panels->n_points++] =
            (struct point){p, place, row->median, error_of(a), row == a->row, a};
        panel->low = fmin(panel->low, row->median);
        panel->high = fmax(panel->high, row->median);
        panel->least = fmin(panel->least, error_of(a));
        panel->most = fmax(panel->most, error_of(a));
    }
    return 0;
}

/* The axes of a panel go on for a factor of 2 both ways. */
static double across(const struct panel *panel, double time, double width)
{
    return width * log(2 * time / panel->low) / log(4 * panel->high / panel->low);
}

static double up(const struct panel *panel, double error)
{
    return plot_height * log(2 * error / panel->least) / log(4 * panel->most / panel->least);
}

static void exact_name(const struct attn_view *view, const struct panel *panel, char *text,
                       size_t size)
{
    snprintf(text, size, "exact: %s",
             panel->fastest ? view->backends[panel->fastest->backend].label : "");
}

/* What no name may cover: the marks of all points, and the line of exact attention with its own
 * name, which stands upright left of its upper end. Returns their number. */
static size_t find_obstacles(const struct attn_view *view, const struct panels *panels, size_t p,
                             double width, struct attn_box *boxes)
{
    const struct panel *panel = &panels->items[p];
    size_t n = 0;
    for (size_t i = 0; i < panels->n_points; i++) {
        if (panels->points[i].panel != p)
            continue;
        const double x = across(panel, panels->points[i].time, width);
        const double y = up(panel, panels->points[i].error);
        boxes[n++] = (struct attn_box){x - 5, y - 4, x + 5, y + 4};
    }
    if (panel->exact > 0) {
        char text[160];
        const double x = across(panel, panel->exact, width);
        exact_name(view, panel, text, sizeof text);
        boxes[n++] = (struct attn_box){x - 1, 0, x + 1, plot_height};
        boxes[n++] = (struct attn_box){
            x - 16, plot_height - 8 - 1.2 * character * (double)strlen(text), x, plot_height};
    }
    return n;
}

/* Writes the names of a panel that have a place: panel, where, 1 if it ends there, name. */
static void put_names(FILE *out, const struct attn_view *view,
                      const struct attn_approximations *all, struct panels *panels, size_t p,
                      struct attn_box *boxes, struct attn_label *labels)
{
    const struct panel *panel = &panels->items[p];
    const double width = plot_width[panels->count == 1];
    char name[sizeof panel->first->variant];
    size_t n = 0;
    for (size_t i = 0; i < panels->n_points; i++) {
        const struct point *point = &panels->points[i];
        if (point->panel != p || !point->fastest)
            continue;
        name_of(all, panels, point->a, name, sizeof name);
        labels[n++] = (struct attn_label){.x = across(panel, point->time, width),
                                          .y = up(panel, point->error),
                                          .width = character * (double)strlen(name),
                                          .height = text_height};
    }
    panels->nameless += attn_labels_place(
        labels, n, boxes, find_obstacles(view, panels, p, width, boxes), width, plot_height);
    n = 0;
    for (size_t i = 0; i < panels->n_points; i++) {
        const struct point *point = &panels->points[i];
        if (point->panel != p || !point->fastest)
            continue;
        const struct attn_label *label = &labels[n++];
        if (!label->placed)
            continue;
        const bool ends = label->box.right < label->x;
        name_of(all, panels, point->a, name, sizeof name);
        fprintf(out, "%zu %.6g %.6g %d ", p + 1,
                (ends ? label->box.right : label->box.left) / width,
                (label->box.low + label->box.high) / 2 / plot_height, ends);
        put_quoted(out, name);
        fputc('\n', out);
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
        exact_name(view, panel, text, sizeof text);
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
    char protocol[128], notes[400], nameless[64] = "";
    bool exact = false;
    attn_define(out, "base", plot->name);
    attn_define(out, "title", plot->title);
    attn_define_labels(out, canvas->view, panels->backends, panels->n_backends);
    fprintf(out, "plot_width = %.0f\nplot_height = %.0f\n", plot_width[panels->count == 1],
            plot_height);
    define_panels(out, canvas->view, panels);
    attn_protocol_text(canvas->view, canvas->machine, protocol, sizeof protocol);
    if (panels->nameless)
        snprintf(nameless, sizeof nameless, "\nNames without room are left out: %zu",
                 panels->nameless);
    snprintf(notes, sizeof notes,
             "Point: a case on a backend, median of %s, hot cache. Error: Frobenius norm, "
             "|out - exact| / |exact|%s",
             protocol, nameless);
    attn_define_footer(out, canvas->machine, notes);
    attn_define(out, "ylabel", "error");
    for (size_t p = 0; p < panels->count; p++)
        exact = exact || panels->items[p].exact > 0;
    attn_canvas_caption(
        plot, "", notes,
        exact ? " Upright line: the fastest exact attention of the same sizes and type. Errors are "
                "those of the formulas, on some rows, in double. The table has the parameters."
              : " Errors are those of the formulas, on some rows, in double. The table has the "
                "parameters.");
}

/* Both blocks of the data file: points, then names. Returns 0, or -1: no memory. */
static int put_points(FILE *out, const struct attn_view *view,
                      const struct attn_approximations *all, struct panels *panels)
{
    for (size_t i = 0; i < all->n_cases; i++)
        if (add_case(view, &all->cases[i], panels) != 0)
            return -1;
    fprintf(out, "# panel backend time_ns error\n");
    for (size_t i = 0; i < panels->n_points; i++) {
        const struct point *point = &panels->points[i];
        fprintf(out, "%zu %zu %.6g %.6g\n", point->panel + 1, point->backend + 1, point->time,
                point->error);
    }
    struct attn_box *boxes = calloc(panels->n_points + 2, sizeof *boxes);
    struct attn_label *labels = calloc(panels->n_points + 1, sizeof *labels);
    /* A line in any case: gnuplot refuses an empty block, and crashes on labels without a point. */
    fprintf(out, "\n\n# panel across up ends variant\n0 0 0 0 \"\"\n");
    for (size_t p = 0; boxes && labels && p < panels->count; p++)
        put_names(out, view, all, panels, p, boxes, labels);
    const int status = boxes && labels ? 0 : -1;
    free(boxes);
    free(labels);
    return status;
}

static int write_points(const struct attn_canvas *canvas, const struct attn_approximations *all,
                        struct panels *panels, const char *name)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = attn_canvas_open(canvas, name, &text, &length);
    if (!out)
        return -1;
    if (put_points(out, canvas->view, all, panels) != 0) {
        snprintf(canvas->why, canvas->size, "no memory for %s", name);
        fclose(out);
        free(text);
        return -1;
    }
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
    free(panels.points);
    free(panels.items);
    attn_approximations_free(&all);
    return status;
}
