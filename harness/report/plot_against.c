/* SPDX-License-Identifier: Apache-2.0 */
/* plot_against.c - the ratios of two runs with their intervals, a line for each result. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/against.h"
#include "report/text.h"

/* Those that changed most; more do not fit a screen. */
#define ROWS_MAX 48
/* The axis ends at this ratio at the latest, and at its inverse. */
#define GREATEST_RATIO 16

struct ratios {
    const json_t *rows[ROWS_MAX]; /* by falling ratio */
    size_t n_rows, left_out;
    size_t backends[ATTN_SERIES_BACKENDS], n_backends; /* of the view */
    double greatest;
};

static double change_of(const json_t *result)
{
    return fabs(log(attn_field_number(result, "ratio")));
}

/* The results whose ratio is known, the greatest changes of them. */
static void choose_rows(struct ratios *ratios, const json_t *results)
{
    size_t i;
    json_t *result;
    json_array_foreach(results, i, result)
    {
        if (!isfinite(change_of(result)))
            continue;
        size_t at = ratios->n_rows;
        while (at > 0 && change_of(ratios->rows[at - 1]) < change_of(result))
            at--;
        ratios->left_out += ratios->n_rows == ROWS_MAX;
        if (at == ROWS_MAX)
            continue;
        if (ratios->n_rows < ROWS_MAX)
            ratios->n_rows++;
        memmove(&ratios->rows[at + 1], &ratios->rows[at],
                (ratios->n_rows - 1 - at) * sizeof ratios->rows[0]);
        ratios->rows[at] = result;
    }
}

static int by_ratio(const void *a, const void *b)
{
    double x = attn_field_number(*(const json_t *const *)a, "ratio");
    double y = attn_field_number(*(const json_t *const *)b, "ratio");
    return (x < y) - (x > y);
}

/* The place of the result's new backend, added if it is new, from 1; 0: no room, or unknown. */
static size_t place_of(struct ratios *ratios, const struct attn_view *view, const json_t *result)
{
    const char *label = attn_field_text(result, "new_backend");
    for (size_t b = 0; b < ratios->n_backends; b++)
        if (strcmp(view->backends[ratios->backends[b]].label, label) == 0)
            return b + 1;
    for (size_t b = 0; b < view->n_backends && ratios->n_backends < ATTN_SERIES_BACKENDS; b++)
        if (strcmp(view->backends[b].label, label) == 0) {
            ratios->backends[ratios->n_backends++] = b;
            return ratios->n_backends;
        }
    return 0;
}

/* One line a result: row, backend, ratio, low, high, verdict. */
static int write_rows(const struct attn_canvas *canvas, struct ratios *ratios, const char *name)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = attn_canvas_open(canvas, name, &text, &length);
    if (!out)
        return -1;
    fprintf(out, "# row backend ratio low high verdict\n");
    for (size_t r = 0; r < ratios->n_rows; r++) {
        const json_t *result = ratios->rows[r];
        const double lo = attn_field_number(result, "lo");
        fprintf(out, "%zu %zu", r + 1, place_of(ratios, canvas->view, result));
        attn_put_number(out, attn_field_number(result, "ratio"));
        attn_put_number(out, lo > 0 ? lo : (double)NAN);
        attn_put_number(out, attn_field_number(result, "hi"));
        fprintf(out, " \"%s\"\n", attn_field_text(result, "verdict"));
        ratios->greatest = fmax(ratios->greatest, exp(change_of(result)));
    }
    return attn_canvas_finish(canvas, out, name, ".dat", &text, &length);
}

static void define_rows(FILE *out, const struct ratios *ratios)
{
    fprintf(out, "n_rows = %zu\narray rows[%zu]\n", ratios->n_rows, ratios->n_rows);
    for (size_t r = 0; r < ratios->n_rows; r++) {
        char label[ATTN_ROW_NAME_MAX + 8];
        const char *text = attn_field_text(ratios->rows[r], "label");
        const size_t name = strcspn(text, ":"), length = text[name] ? name : strlen(text);
        const bool cold = strcmp(attn_field_text(ratios->rows[r], "cache"), "cold") == 0;
        attn_row_name(label, text, length);
        strcat(label, cold ? " (cold)" : "");
        fprintf(out, "rows[%zu] = ", r + 1);
        attn_put_gnuplot(out, label);
        fputc('\n', out);
    }
}

int attn_plot_against(const struct attn_canvas *canvas, const json_t *found, struct attn_plot *plot)
{
    char *text = NULL, left_out[80] = "";
    size_t length = 0;
    struct ratios ratios = {.greatest = 1};
    const double margin = attn_field_number(found, "margin");
    choose_rows(&ratios, json_object_get(found, "results"));
    qsort(ratios.rows, ratios.n_rows, sizeof ratios.rows[0], by_ratio);
    snprintf(plot->name, sizeof plot->name, "against");
    snprintf(plot->title, sizeof plot->title, "Time of the new run over time of the base");
    if (write_rows(canvas, &ratios, plot->name) != 0)
        return -1;
    if (!ratios.n_rows || !ratios.n_backends)
        return 0;
    FILE *out = attn_canvas_open(canvas, plot->name, &text, &length);
    if (!out)
        return -1;
    attn_define(out, "base", plot->name);
    attn_define(out, "title", plot->title);
    attn_define_labels(out, canvas->view, ratios.backends, ratios.n_backends);
    define_rows(out, &ratios);
    fprintf(out, "margin = %.6g\nx_high = %.6g\n", margin,
            fmin(fmax(1.25 * ratios.greatest, 1 + 4 * margin), GREATEST_RATIO));
    attn_define_footer(out, canvas->machine,
                       "Point: ratio of round medians; whisker: 95 % interval; grey: the margin");
    if (ratios.left_out)
        snprintf(left_out, sizeof left_out, " %zu results that changed less are left out.",
                 ratios.left_out);
    snprintf(plot->caption, sizeof plot->caption,
             "Right of 1 the new run is slower. Slower or faster: the whole interval lies beyond "
             "the margin of %g %%.%s",
             100 * margin, left_out);
    return attn_canvas_finish(canvas, out, plot->name, ".def.gp", &text, &length) == 0 ? 1 : -1;
}
