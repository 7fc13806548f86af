/* SPDX-License-Identifier: Apache-2.0 */
/* plot_samples.c - samples over the median of their case: course over the rounds, and distribution.
 */
#include "report/canvas.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/summary.h"
#include "report/text.h"
#include "results/statistics.h"

#define ROUNDS_MAX 128
/* Bins of equal width in the logarithm, from the axis' lower end to its upper. */
#define BINS 40
/* The axis holds 98 % of the samples, but ends here at the latest. */
#define LOWEST  0.5
#define HIGHEST 4.0

/* The samples of one backend, each over the median of its case. */
struct samples {
    double *values[ROUNDS_MAX]; /* by round */
    size_t counts[ROUNDS_MAX];
    double *all;
    size_t count;
    double *storage;
};

static bool belongs(const struct attn_view *view, const struct attn_view_row *row, size_t backend)
{
    return row->backend == backend && view->backends[backend].counted && !attn_row_cold(row) &&
           attn_row_timed(row);
}

static double sample_of(const struct attn_view_row *row, const json_t *round, size_t at)
{
    const json_t *value = json_array_get(round, at);
    const double ratio = json_is_number(value) ? json_number_value(value) / row->median : 0;
    return ratio > 0 && isfinite(ratio) ? ratio : 0;
}

/* Appends the samples of one round to `values`, from place *count; only counts them for NULL. */
static void add_round(const struct attn_view *view, size_t backend, size_t round, double *values,
                      size_t *count)
{
    for (size_t r = 0; r < view->n_rows; r++) {
        const struct attn_view_row *row = &view->rows[r];
        if (!belongs(view, row, backend))
            continue;
        const json_t *list = json_array_get(attn_field_at(row->bench, "samples_ns"), round);
        for (size_t i = 0; i < json_array_size(list); i++) {
            const double sample = sample_of(row, list, i);
            if (sample > 0 && values)
                values[*count] = sample;
            *count += sample > 0;
        }
    }
}

/* Collects and sorts. Returns 0, or -1: no memory. */
static int collect(const struct attn_view *view, size_t backend, struct samples *samples)
{
    size_t used = 0;
    *samples = (struct samples){0};
    for (size_t r = 0; r < ROUNDS_MAX; r++)
        add_round(view, backend, r, NULL, &samples->count);
    samples->storage = calloc(2 * samples->count + 1, sizeof *samples->storage);
    if (!samples->storage)
        return -1;
    for (size_t r = 0; r < ROUNDS_MAX; r++) {
        const size_t first = used;
        add_round(view, backend, r, samples->storage, &used);
        samples->values[r] = samples->storage + first;
        samples->counts[r] = used - first;
    }
    samples->all = samples->storage + used;
    memcpy(samples->all, samples->storage, used * sizeof *samples->all);
    for (size_t r = 0; r < ROUNDS_MAX; r++)
        attn_sort_doubles(samples->values[r], samples->counts[r]);
    attn_sort_doubles(samples->all, samples->count);
    return 0;
}

/* One line a round: backend, round, 10 %, median, 90 %. */
static void put_rounds(FILE *out, const struct samples *samples, size_t place)
{
    for (size_t r = 0; r < ROUNDS_MAX; r++) {
        const size_t n = samples->counts[r];
        if (!n)
            continue;
        fprintf(out, "%zu %zu %.6g %.6g %.6g\n", place, r + 1,
                attn_quantile_sorted(samples->values[r], n, 0.1),
                attn_quantile_sorted(samples->values[r], n, 0.5),
                attn_quantile_sorted(samples->values[r], n, 0.9));
    }
}

/* One line a bin: backend, low, high, share of the samples over that of the fullest bin. What lies
 * beyond the axis is in the first and the last. */
static void put_bins(FILE *out, const struct samples *samples, size_t place, double low,
                     double high)
{
    size_t bins[BINS] = {0}, most = 1;
    const double width = log(high / low) / BINS;
    for (size_t i = 0; i < samples->count; i++) {
        const double at = log(samples->all[i] / low) / width;
        size_t *bin = &bins[at < 0 ? 0 : at >= BINS ? BINS - 1 : (size_t)at];
        most = ++*bin > most ? *bin : most;
    }
    for (size_t i = 0; i < BINS; i++)
        if (bins[i])
            fprintf(out, "%zu %.6g %.6g %.6g\n", place, low * exp((double)i * width),
                    low * exp((double)(i + 1) * width), (double)bins[i] / (double)most);
}

struct course {
    struct samples *backends; /* ATTN_SERIES_BACKENDS of them */
    size_t indices[ATTN_SERIES_BACKENDS], count, rounds;
    double low, high;
};

static int collect_all(const struct attn_view *view, struct course *course)
{
    course->low = 0.95;
    course->high = 1.05;
    for (size_t b = 0; b < view->n_backends && course->count < ATTN_SERIES_BACKENDS; b++) {
        struct samples *samples = &course->backends[course->count];
        if (collect(view, b, samples) != 0)
            return -1;
        if (!samples->count) {
            free(samples->storage);
            samples->storage = NULL;
            continue;
        }
        course->indices[course->count++] = b;
        for (size_t r = 0; r < ROUNDS_MAX; r++)
            if (samples->counts[r] && r + 1 > course->rounds)
                course->rounds = r + 1;
        course->low = fmin(course->low, attn_quantile_sorted(samples->all, samples->count, 0.01));
        course->high = fmax(course->high, attn_quantile_sorted(samples->all, samples->count, 0.99));
    }
    course->low = fmax(course->low, LOWEST);
    course->high = fmin(course->high, HIGHEST);
    return 0;
}

static int write_course(const struct attn_canvas *canvas, const struct course *course,
                        const char *name)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = attn_canvas_open(canvas, name, &text, &length);
    if (!out)
        return -1;
    fprintf(out, "# backend round p10 median p90\n");
    for (size_t b = 0; b < course->count; b++)
        put_rounds(out, &course->backends[b], b + 1);
    fprintf(out, "\n\n# backend low high share\n");
    for (size_t b = 0; b < course->count; b++)
        put_bins(out, &course->backends[b], b + 1, course->low, course->high);
    return attn_canvas_finish(canvas, out, name, ".dat", &text, &length);
}

static int write_picture(const struct attn_canvas *canvas, const struct course *course,
                         struct attn_plot *plot)
{
    static const char line[] = "Each sample over the median of its case, hot cache. Line: median "
                               "of a round; band: its 10 % and 90 %; right: distribution";
    char *text = NULL;
    size_t length = 0;
    if (write_course(canvas, course, plot->name) != 0)
        return -1;
    if (!course->count)
        return 0;
    FILE *out = attn_canvas_open(canvas, plot->name, &text, &length);
    if (!out)
        return -1;
    attn_define(out, "base", plot->name);
    attn_define(out, "title", plot->title);
    attn_define_labels(out, canvas->view, course->indices, course->count);
    fprintf(out, "n_rounds = %zu\ny_low = %.6g\ny_high = %.6g\n", course->rounds, course->low,
            course->high);
    attn_define_footer(out, canvas->machine, line);
    snprintf(
        plot->caption, sizeof plot->caption,
        "%s. A line that rises or falls is drift; samples beyond the axis are in its outermost "
        "bins.",
        line);
    return attn_canvas_finish(canvas, out, plot->name, ".def.gp", &text, &length) == 0 ? 1 : -1;
}

int attn_plot_samples(const struct attn_canvas *canvas, const struct attn_series *series,
                      struct attn_plot *plot)
{
    struct course course = {.backends = calloc(ATTN_SERIES_BACKENDS, sizeof *course.backends)};
    int status = -1;
    (void)series;
    snprintf(plot->name, sizeof plot->name, "samples");
    snprintf(plot->title, sizeof plot->title, "Samples: drift over rounds, and distribution");
    plot->folded = true;
    if (!course.backends || collect_all(canvas->view, &course) != 0)
        snprintf(canvas->why, canvas->size, "no memory for the samples");
    else
        status = write_picture(canvas, &course, plot);
    for (size_t b = 0; course.backends && b < ATTN_SERIES_BACKENDS; b++)
        free(course.backends[b].storage);
    free(course.backends);
    return status;
}
