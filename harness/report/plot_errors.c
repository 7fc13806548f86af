/* SPDX-License-Identifier: Apache-2.0 */
/* plot_errors.c - error over proven bound of every case, by type and backend. */
#include "report/canvas.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/text.h"
#include "results/statistics.h"

/* Below it an error is nothing but exact arithmetic: the picture shows such a case on its edge. */
#define LEAST_RATIO 1e-6
/* Wrong results can be off by any factor; beyond this one they lie on the upper edge. */
#define GREATEST_RATIO 1e4
#define TYPES_MAX      8

struct errors {
    const char *types[TYPES_MAX];
    size_t n_types, backends[ATTN_SERIES_BACKENDS], n_backends;
    /* Backends with cases of each type; slots of one type stand side by side, an empty one between
     * types. */
    size_t counts[TYPES_MAX], slot;
    double low, high;
    bool at_lower, at_upper; /* has a case there, outside the scale */
    double *worst, *medians; /* of the slot at hand, room for every row */
    bool *seen;              /* by backend of the view */
};

/* One result of a case against a proven bound: of the reference, which is held against a pack's
 * answers, there is none. */
static bool belongs(const struct attn_view *view, const struct attn_view_row *row)
{
    return row->first && view->backends[row->backend].counted &&
           json_is_object(json_object_get(row->verify, "numerics")) &&
           *attn_field_text(row->sizes, "dtype") &&
           attn_field_number(row->verify, "max_ratio") >= 0;
}

/* Types from the widest, those unknown here last; backends in the view's order. */
static void find_slots(const struct attn_view *view, struct errors *errors)
{
    static const char *const known[] = {"f64", "f32", "f16", "bf16"};
    bool *seen = errors->seen;
    for (size_t k = 0; k <= sizeof known / sizeof known[0]; k++)
        for (size_t r = 0; r < view->n_rows; r++) {
            const struct attn_view_row *row = &view->rows[r];
            const char *type = attn_field_text(row->sizes, "dtype");
            if (!belongs(view, row) ||
                (k < sizeof known / sizeof known[0] && strcmp(type, known[k]) != 0))
                continue;
            size_t at = 0;
            while (at < errors->n_types && strcmp(errors->types[at], type) != 0)
                at++;
            if (at == errors->n_types && at < TYPES_MAX)
                errors->types[errors->n_types++] = type;
            seen[row->backend] = true;
        }
    for (size_t b = 0; b < view->n_backends; b++)
        if (seen[b] && errors->n_backends < ATTN_SERIES_BACKENDS)
            errors->backends[errors->n_backends++] = b;
}

/* Widens the range by a figure that has a place in it. */
static void widen(struct errors *errors, double ratio)
{
    if (ratio > LEAST_RATIO)
        errors->low = fmin(errors->low, ratio);
    errors->at_lower = errors->at_lower || ratio <= LEAST_RATIO;
    errors->at_upper = errors->at_upper || ratio > GREATEST_RATIO;
    errors->high = fmax(errors->high, fmin(ratio, GREATEST_RATIO));
}

/* Rising from left to right, a line a case; then the slot's summary in `lines`. A backend without a
 * case of the type has no slot. */
static void put_slot(FILE *out, FILE *lines, const struct attn_view *view, size_t type,
                     size_t backend, struct errors *errors)
{
    size_t n = 0, n_medians = 0;
    for (size_t r = 0; r < view->n_rows; r++) {
        const struct attn_view_row *row = &view->rows[r];
        double median = attn_field_number(row->verify, "median_ratio");
        if (row->backend != errors->backends[backend] || !belongs(view, row) ||
            strcmp(attn_field_text(row->sizes, "dtype"), errors->types[type]) != 0)
            continue;
        errors->worst[n++] = attn_field_number(row->verify, "max_ratio");
        if (median >= 0)
            errors->medians[n_medians++] = median;
    }
    if (n == 0)
        return;
    errors->counts[type]++;
    errors->slot++;
    attn_sort_doubles(errors->worst, n);
    attn_sort_doubles(errors->medians, n_medians);
    for (size_t i = 0; i < n; i++) {
        fprintf(out, "%zu %zu %.6g %.6g\n", errors->slot, backend + 1,
                ((double)i + 0.5) / (double)n - 0.5, errors->worst[i]);
        widen(errors, errors->worst[i]);
    }
    fprintf(lines, "%zu %zu", errors->slot, backend + 1);
    attn_put_number(lines, errors->worst[n - 1]);
    double middle = n_medians ? attn_quantile_sorted(errors->medians, n_medians, 0.5) : (double)NAN;
    attn_put_number(lines, middle);
    fprintf(lines, " %zu\n", n);
    if (isfinite(middle))
        widen(errors, middle);
}

static int write_data(const struct attn_canvas *canvas, const char *name, struct errors *errors)
{
    char *text = NULL, *line_text = NULL;
    size_t length = 0, line_length = 0;
    FILE *out = attn_canvas_open(canvas, name, &text, &length);
    FILE *lines = out ? attn_canvas_open(canvas, name, &line_text, &line_length) : NULL;
    if (!lines) {
        if (out)
            fclose(out);
        free(text);
        return -1;
    }
    fprintf(out, "# slot backend place worst/bound, a line a case\n");
    for (size_t t = 0; t < errors->n_types; t++, errors->slot++)
        for (size_t b = 0; b < errors->n_backends; b++)
            put_slot(out, lines, canvas->view, t, b, errors);
    if (fclose(lines) != 0) {
        fclose(out);
        free(text);
        return -1;
    }
    fprintf(out, "\n\n# slot backend worst median cases\n%s", line_text);
    free(line_text);
    return attn_canvas_finish(canvas, out, name, ".dat", &text, &length);
}

static void define_errors(FILE *out, const struct attn_canvas *canvas, const struct errors *errors,
                          struct attn_plot *plot)
{
    char line[320];
    snprintf(
        line, sizeof line,
        "Point: a case, worst error over bound, sorted; above: the largest. Line: median of the "
        "cases' medians%s%s",
        errors->at_lower ? "\nLower edge, off the scale: below 1e-6" : "",
        errors->at_upper ? "\nUpper edge: beyond 1e4" : "");
    static const char constants[] = "verified cases of all shapes and masks";
    attn_define(out, "base", plot->name);
    attn_define(out, "title", plot->title);
    attn_define(out, "constants", constants);
    attn_define_labels(out, canvas->view, errors->backends, errors->n_backends);
    fprintf(out, "n_types = %zu\narray types[%zu]\narray type_slots[%zu]\n", errors->n_types,
            errors->n_types, errors->n_types);
    for (size_t t = 0; t < errors->n_types; t++) {
        attn_define_at(out, "types", t, errors->types[t]);
        fprintf(out, "type_slots[%zu] = %zu\n", t + 1, errors->counts[t]);
    }
    fprintf(out, "y_low = %.6g\ny_high = %.6g\n", fmin(errors->low, 0.1), fmax(errors->high, 1));
    attn_define_footer(out, canvas->machine, line);
    attn_canvas_caption(plot, constants, line, "");
}

int attn_plot_errors(const struct attn_canvas *canvas, const struct attn_series *series,
                     struct attn_plot *plot)
{
    char *text = NULL;
    size_t length = 0;
    int status = -1;
    size_t rows = canvas->view->n_rows + 1;
    struct errors errors = {.low = INFINITY,
                            .worst = calloc(rows, sizeof *errors.worst),
                            .medians = calloc(rows, sizeof *errors.medians),
                            .seen = calloc(canvas->view->n_backends + 1, sizeof *errors.seen)};
    (void)series;
    snprintf(plot->name, sizeof plot->name, "errors");
    snprintf(plot->title, sizeof plot->title, "Error over proven bound by type and backend");
    snprintf(canvas->why, canvas->size, "no memory for %s", plot->name);
    if (!errors.worst || !errors.medians || !errors.seen)
        goto out;
    find_slots(canvas->view, &errors);
    if (errors.n_types && write_data(canvas, plot->name, &errors) != 0)
        goto out;
    canvas->why[0] = '\0';
    status = 0;
    if (!errors.n_types)
        goto out;
    FILE *out = attn_canvas_open(canvas, plot->name, &text, &length);
    if (out)
        define_errors(out, canvas, &errors, plot);
    status =
        out && attn_canvas_finish(canvas, out, plot->name, ".def.gp", &text, &length) == 0 ? 1 : -1;
out:
    free(errors.worst);
    free(errors.medians);
    free(errors.seen);
    return status;
}
