/* SPDX-License-Identifier: Apache-2.0 */
/* plot_roofline.c - rate over arithmetic intensity, under the machine's measured roofs. */
#include "report/canvas.h"

#include <math.h>
#include <string.h>

#include "report/summary.h"
#include "report/text.h"

/* FLOPs. Of less work, a run is mostly the cost of its call: some 10 us at the roof of one core. */
#define LEAST_WORK 1e6

enum { CACHES = 4 }; /* drawn */

struct cloud {
    size_t backends[ATTN_SERIES_BACKENDS], n_backends, points, cases;
    double x_low, x_high, y_low, y_high;
};

static double intensity(const struct attn_view_row *row)
{
    return attn_field_number(row->bench, "flops") / attn_field_number(row->bench, "bytes");
}

/* Whether the convention for FLOPs is the whole work of this result, in the type of the roof. */
static bool belongs(const struct attn_view *view, const struct attn_view_row *row)
{
    const char *op = attn_field_text(row->sizes, "op");
    const char *score = attn_field_text(row->sizes, "score");
    const bool whole = strcmp(op, "attention") == 0
                           ? strcmp(score, "scaled_dot") == 0 || strcmp(score, "dot") == 0
                           : *op && !*score;
    double x = intensity(row);
    return view->backends[row->backend].counted && !attn_row_cold(row) && whole &&
           strcmp(attn_field_text(row->sizes, "dtype"), "f32") == 0 &&
           attn_field_number(row->bench, "flops") >= LEAST_WORK && isfinite(row->gflops) &&
           isfinite(x) && x > 0;
}

/* The points of one backend, if there are any. */
static void put_points(FILE *out, const struct attn_view *view, size_t backend, json_t *cases,
                       struct cloud *cloud)
{
    size_t before = cloud->points;
    for (size_t r = 0; r < view->n_rows; r++) {
        const struct attn_view_row *row = &view->rows[r];
        if (row->backend != backend || !belongs(view, row))
            continue;
        double x = intensity(row);
        fprintf(out, "%zu %.6g %.6g\n", cloud->n_backends + 1, x, row->gflops);
        json_object_set_new(cases, row->id, json_true());
        cloud->x_low = fmin(cloud->x_low, x);
        cloud->x_high = fmax(cloud->x_high, x);
        cloud->y_low = fmin(cloud->y_low, row->gflops);
        cloud->y_high = fmax(cloud->y_high, row->gflops);
        cloud->points++;
    }
    if (cloud->points > before)
        cloud->backends[cloud->n_backends++] = backend;
}

/* The roofs within the outermost two: a library's best product of matrices in f32, and a slope for
 * each cache. */
static void define_inner(FILE *out, const json_t *machine)
{
    const json_t *reads = attn_field_at(machine, "ceilings.reads");
    char name[32], line[80], figure[ATTN_FIGURE_MAX];
    double gemm = 0;
    size_t i, n = 0;
    json_t *item;
    json_array_foreach(attn_field_at(machine, "ceilings.gemm"), i, item)
    {
        bool f32 = strcmp(attn_field_text(item, "dtype"), "f32") == 0;
        if (f32 && isfinite(attn_field_number(item, "gflops")))
            gemm = fmax(gemm, attn_field_number(item, "gflops"));
    }
    fprintf(out, "gemm = %.6g\narray cache_read[%d]\narray cache_label[%d]\n", gemm, CACHES,
            CACHES);
    attn_define(out, "gemm_label", attn_figure(gemm, figure));
    json_array_foreach(reads, i, item)
    {
        double gbs = attn_field_number(item, "gbs");
        if (n == CACHES || !(attn_field_number(item, "bytes") > 0) || !(gbs > 0) || !isfinite(gbs))
            continue;
        fprintf(out, "cache_read[%zu] = %.6g\n", ++n, gbs);
        snprintf(name, sizeof name, "cache_label[%zu]", n);
        snprintf(line, sizeof line, "%.16s %s", attn_field_text(item, "level"),
                 attn_figure(gbs, figure));
        attn_define(out, name, line);
    }
    fprintf(out, "n_caches = %zu\n", n);
}

static void define_roofline(FILE *out, const struct attn_canvas *canvas, struct cloud *cloud,
                            double peak, double read, struct attn_plot *plot)
{
    char constants[160], line[320], protocol[128], figure[ATTN_FIGURE_MAX];
    double threads = attn_field_number(canvas->machine, "threads");
    const char *isa = attn_field_text(canvas->machine, "ceilings.isa");
    int used = snprintf(constants, sizeof constants,
                        "%zu case%s of 1 MFLOP or more, f32, scaled or plain dot product, hot "
                        "cache",
                        cloud->cases, cloud->cases == 1 ? "" : "s");
    if (isfinite(threads))
        snprintf(constants + used, sizeof constants - (size_t)used, ", %.0f thread%s", threads,
                 threads == 1 ? "" : "s");
    attn_define(out, "base", plot->name);
    attn_define(out, "title", plot->title);
    attn_define(out, "constants", constants);
    attn_define_labels(out, canvas->view, cloud->backends, cloud->n_backends);
    /* Both roofs stay in sight, with room for their names. */
    fprintf(out, "x_low = %.6g\nx_high = %.6g\ny_low = %.6g\ny_high = %.6g\n",
            fmin(cloud->x_low, peak / read / 8), fmax(cloud->x_high, peak / read * 4), cloud->y_low,
            fmax(cloud->y_high, peak));
    fprintf(out, "peak = %.6g\nread = %.6g\n", peak, read);
    snprintf(line, sizeof line, "f32 FMA%s%.32s: %s GFLOP/s", *isa ? ", " : "", isa,
             attn_figure(peak, figure));
    attn_define(out, "peak_label", line);
    snprintf(line, sizeof line, "memory read: %s GB/s", attn_figure(read, figure));
    attn_define(out, "read_label", line);
    define_inner(out, canvas->machine);
    attn_protocol_text(canvas->view, canvas->machine, protocol, sizeof protocol);
    snprintf(line, sizeof line,
             "Point: one case, median of %s. Bytes: each operand once. Roofs measured in this run; "
             "dashed: caches in GB/s, best product of matrices (GEMM) in GFLOP/s",
             protocol);
    attn_define_footer(out, canvas->machine, line);
    attn_canvas_caption(plot, constants, line, " " ATTN_FLOP_CONVENTION ".");
}

int attn_plot_roofline(const struct attn_canvas *canvas, const struct attn_series *series,
                       struct attn_plot *plot)
{
    char *text = NULL;
    size_t length = 0;
    struct cloud cloud = {.x_low = INFINITY, .y_low = INFINITY};
    double peak = attn_field_number(canvas->machine, "ceilings.fma_gflops_f32");
    double read = attn_field_number(canvas->machine, "ceilings.read_gbs");
    json_t *cases = json_object();
    (void)series;
    snprintf(plot->name, sizeof plot->name, "roofline");
    snprintf(plot->title, sizeof plot->title, "Roofline: rate over arithmetic intensity");
    FILE *out = attn_canvas_open(canvas, plot->name, &text, &length);
    if (!out) {
        json_decref(cases);
        return -1;
    }
    fprintf(out, "# backend flops_per_byte gflops\n");
    for (size_t b = 0; b < canvas->view->n_backends; b++)
        if (cloud.n_backends < ATTN_SERIES_BACKENDS)
            put_points(out, canvas->view, b, cases, &cloud);
    cloud.cases = json_object_size(cases);
    json_decref(cases);
    if (attn_canvas_finish(canvas, out, plot->name, ".dat", &text, &length) != 0)
        return -1;
    if (!cloud.points || !(peak > 0 && read > 0 && isfinite(peak / read) && peak / read > 0))
        return 0;

    out = attn_canvas_open(canvas, plot->name, &text, &length);
    if (!out)
        return -1;
    define_roofline(out, canvas, &cloud, peak, read, plot);
    return attn_canvas_finish(canvas, out, plot->name, ".def.gp", &text, &length) == 0 ? 1 : -1;
}
