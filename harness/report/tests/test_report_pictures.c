/* SPDX-License-Identifier: Apache-2.0 */
/* test_report_pictures.c - the data that the pictures are drawn from, against the records.
 *
 * test_report_pictures SCRIPT_DIR */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "folder.h"
#include "report/gnuplot.h"
#include "report/plots.h"
#include "report/text.h"
#include "synthetic.h"

static const char *script_dir;

static bool drawn; /* the pictures of the last report */

/* Writes the report of `run`; gnuplot may be missing, but must not fail. */
static void report(const struct attn_run_data *run)
{
    char out[128], note[512], why[512] = "";
    snprintf(out, sizeof out, "%s/report", folder);
    const struct attn_report_options options = {.script_dir = script_dir, .out_dir = out};
    if (attn_report_write(run, &options, note, sizeof note, why, sizeof why) != 0)
        fail_msg("%s", why);
    drawn = strncmp(note, "no pictures", 11) != 0;
    if (drawn)
        assert_string_equal(note, "");
}

/* The first record of a type, of a case on a backend: timings in the hot cache come first. */
static json_t *record_of(const struct attn_run_data *run, const char *type, const char *line,
                         const char *backend)
{
    size_t i;
    json_t *record;
    json_array_foreach(run->records, i, record)
    {
        if (strcmp(attn_field_text(record, "type"), type) == 0 &&
            strcmp(attn_field_text(record, "case"), line) == 0 &&
            strcmp(attn_field_text(record, "backend"), backend) == 0)
            return record;
    }
    fail_msg("there is no %s of %s on %s", type, line, backend);
    return NULL;
}

static json_t *timing(const struct attn_run_data *run, const char *line, const char *backend)
{
    return record_of(run, "bench", line, backend);
}

/* Changes a size of a case in every record that has it. */
static void restate(const struct attn_run_data *run, const char *line, const char *key,
                    const char *value)
{
    size_t i;
    json_t *record;
    json_array_foreach(run->records, i, record)
    {
        if (strcmp(attn_field_text(record, "case"), line) == 0 && json_object_get(record, "sizes"))
            json_object_set_new(json_object_get(record, "sizes"), key, json_string(value));
    }
}

/* The numbers that follow `start`, which begins a line of FILE; returns how many (at most 8). */
static size_t numbers_after(const char *file, const char *start, double numbers[8])
{
    char *text = folder_text(file), *at = strstr(text, start);
    size_t n = 0;
    if (!at)
        fail_msg("%s has no line that begins with%s", file, start);
    assert_true(at == text || *start == '\n');
    at += strlen(start);
    for (char *end; n < 8 && *at != '\n'; at = end, n++) {
        numbers[n] = strtod(at, &end);
        if (end == at)
            break;
    }
    free(text);
    return n;
}

static void latency(void **state)
{
    (void)state;
    struct attn_run_data run = synthetic_run((struct synthetic){.seed = 1});
    double found[8];
    const json_t *record = timing(&run, "dk=64 hq=8 mask=causal sq=512", "avx2");
    /* No interval: of one round. */
    json_object_set_new(
        json_object_get(timing(&run, "dk=64 hq=8 mask=causal sq=1024", "avx2"), "time_ns"), "ci95",
        json_null());
    report(&run);
    assert_int_equal(numbers_after("plots/latency_S_causal.dat", "\n2 512", found), 3);
    const json_t *ci = attn_field_at(record, "time_ns.ci95");
    double want[] = {
        attn_field_number(record, "time_ns.median"),
        fmax(json_number_value(json_array_get(ci, 0)), attn_field_number(record, "time_ns.min")),
        json_number_value(json_array_get(ci, 1))};
    for (size_t i = 0; i < 3; i++)
        assert_true(fabs(found[i] / want[i] - 1) < 1e-5);
    assert_int_equal(numbers_after("plots/latency_S_causal.dat", "\n2 1024", found), 1);
    /* Where naive was stopped by the budget its line ends: 6 points, 8 of the others. */
    char *text = folder_text("plots/latency_S_full.dat");
    assert_int_equal(folder_count(text, "\n1 "), 6);
    assert_int_equal(folder_count(text, "\n2 "), 8);
    free(text);
    /* Quadratic work at a constant rate but for a drop of 20 %. */
    text = folder_text("plots/latency_S_full.def.gp");
    assert_non_null(strstr(text, "naive (slope 2.0"));
    free(text);
    /* Of two points none. */
    const double x[] = {1, 2, 4}, y[] = {1, 4, 16};
    char name[64];
    attn_series_legend("naive", x, y, 2, name, sizeof name);
    assert_string_equal(name, "naive");
    attn_series_legend("naive", x, y, 3, name, sizeof name);
    assert_string_equal(name, "naive (slope 2.00)");
    attn_run_release(&run);
}

/* A case is in the roofline when it has work, the roof's type and a hot cache. */
static void roofline(void **state)
{
    (void)state;
    struct attn_run_data run = synthetic_run((struct synthetic){.seed = 1});
    double found[8];
    report(&run);
    char *text = folder_text("plots/roofline.dat");
    size_t before = folder_count(text, "\n2 ");
    free(text);
    json_t *record = timing(&run, "dk=64 hq=8 mask=causal sq=512", "avx2");
    json_object_set_new(record, "flops", json_real(3e9));
    json_object_set_new(record, "bytes", json_real(2e9));
    json_object_set_new(record, "gflops", json_real(17.25));
    restate(&run, "dk=64 hq=8 mask=causal sq=2048", "dtype", "f64");
    restate(&run, "dk=64 hq=8 sq=2048", "score", "additive");
    json_object_set_new(timing(&run, "dk=64 hq=8 sq=128", "avx2"), "flops", json_real(9e5));
    json_object_set_new(timing(&run, "dk=64 hq=8 sq=256", "avx2"), "bytes", json_integer(0));
    report(&run);
    assert_int_equal(numbers_after("plots/roofline.dat", "\n2 1.5 ", found), 1);
    assert_true(found[0] == 17.25);
    text = folder_text("plots/roofline.dat");
    assert_int_equal(folder_count(text, "\n2 "), before - 4);
    free(text);
    numbers_after("plots/roofline.def.gp", "\npeak =", found);
    assert_true(found[0] == 228.4);
    numbers_after("plots/roofline.def.gp", "\nread =", found);
    assert_true(found[0] == 31.5);
    numbers_after("plots/roofline.def.gp", "\ngemm =", found);
    assert_true(found[0] == 201.3);
    numbers_after("plots/roofline.def.gp", "\nn_caches =", found);
    assert_true(found[0] == 2);
    numbers_after("plots/roofline.def.gp", "\ncache_read[2] =", found);
    assert_true(found[0] == 220);
    attn_run_release(&run);
}

/* Where a text of a picture stands, in pixels from the upper left. */
static void place_of(const char *svg, const char *text, double place[2])
{
    static const char translate[] = "translate(";
    char element[80];
    snprintf(element, sizeof element, "<text>%s</text>", text);
    const char *at = strstr(svg, element), *found = NULL;
    if (!at)
        fail_msg("the picture has no text '%s'", text);
    for (const char *next = svg; (next = strstr(next, translate)) && next < at; next++)
        found = next + strlen(translate);
    assert_int_equal(sscanf(found, "%lf,%lf", &place[0], &place[1]), 2);
}

/* Figures stand above the line of the bound, whose name stands on the margin. */
static void figures_above_the_bound(void)
{
    double bound[2], figure[2];
    char *svg = folder_text("plots/errors.svg");
    place_of(svg, "bound", bound);
    assert_true(bound[0] > 0.94 * 900);
    size_t figures = 0;
    char *data = folder_text("plots/errors.dat"), *line = strstr(data, "\n\n\n");
    for (line = strchr(line + 3, '\n') + 1; *line; line = strchr(line, '\n') + 1, figures++) {
        double worst;
        char text[32];
        assert_int_equal(sscanf(line, "%*d %*d %lf", &worst), 1);
        snprintf(text, sizeof text, "%#.3g", worst);
        place_of(svg, text, figure);
        assert_true(figure[1] < bound[1] - 8);
    }
    assert_int_equal(figures, 7);
    free(data);
    free(svg);
}

/* Every verification that has a bound is a point of its type and backend. */
static void errors(void **state)
{
    (void)state;
    static const char line[] = "dk=64 hq=8 sq=512";
    struct attn_run_data run = synthetic_run((struct synthetic){.seed = 1});
    double found[8];
    for (int s = 128; s <= 256; s *= 2) {
        char half[64];
        snprintf(half, sizeof half, "dk=64 hq=8 sq=%d", s);
        restate(&run, half, "dtype", "f16");
    }
    json_t *record = record_of(&run, "verify", "dk=64 hq=8 sq=128", "avx2");
    json_object_set_new(record, "max_ratio", json_real(0.75));
    json_object_set_new(record, "median_ratio", json_real(0.5));
    record = record_of(&run, "verify", "dk=64 hq=8 sq=256", "avx2");
    json_object_set_new(record, "max_ratio", json_real(0.25));
    json_object_set_new(record, "median_ratio", json_real(0.125));
    /* No bound, and no figure. */
    json_object_set_new(record_of(&run, "verify", line, "avx2"), "numerics", json_null());
    json_object_set_new(record_of(&run, "verify", line, "blas"), "max_ratio", json_null());
    for (int s = 128; s <= 256; s *= 2) {
        char half[64];
        snprintf(half, sizeof half, "dk=64 hq=8 sq=%d", s);
        json_object_set_new(record_of(&run, "verify", half, "blas"), "numerics", json_null());
    }
    report(&run);
    char *text = folder_text("plots/errors.dat"), *summary = strstr(text, "\n\n\n");
    assert_non_null(summary);
    assert_non_null(strstr(text, "\n7 2 -0.25 0.25\n7 2 0.25 0.75\n"));
    assert_non_null(strstr(summary, "\n7 2 0.75 0.3125 2\n"));
    /* Of 40 cases two are f16; naive was not run on 4, blas crashed on 2. */
    const char *const counts[] = {"\n1 1 ", " 34\n", "\n2 2 ", " 37\n", "\n3 3 ", " 35\n"};
    for (size_t i = 0; i < 6; i += 2) {
        const char *at = strstr(summary, counts[i]);
        assert_non_null(at);
        assert_memory_equal(strchr(at + 1, '\n') - 3, counts[i + 1], 4);
    }
    free(text);
    text = folder_text("plots/errors.def.gp");
    /* blas has no case in f16, and so no slot there. */
    assert_non_null(strstr(text, "types[1] = 'f32'\ntype_slots[1] = 4\n"
                                 "types[2] = 'f16'\ntype_slots[2] = 3\n"));
    /* The edges are explained where a case lies on them. */
    assert_null(strstr(text, "off the scale"));
    assert_non_null(strstr(text, "Upper edge: beyond 1e4'"));
    free(text);
    if (drawn)
        figures_above_the_bound();
    /* What is wrong by a factor of 13000 is in sight, on the upper edge. */
    numbers_after("plots/errors.def.gp", "\ny_high =", found);
    assert_true(found[0] == 1e4);
    json_object_set_new(record, "max_ratio", json_integer(0));
    report(&run);
    text = folder_text("plots/errors.def.gp");
    assert_non_null(strstr(text, "Lower edge, off the scale: below 1e-6"));
    free(text);
    attn_run_release(&run);
}

/* A legend has the backends that are in its picture; what is missing is named and explained. */
static void legends(void **state)
{
    (void)state;
    static const char *const causal[] = {"plots/throughput_S_causal.def.gp",
                                         "plots/latency_S_causal.def.gp",
                                         "plots/memory_S_causal.def.gp"};
    static const char *const says[] = {
        ("'No bar: untimed, verified only; n/a, not supported; budget, no time for it. No bar at "
         "any size: naive (untimed, budget)'"),
        "'No time at any size: naive (untimed, budget)'",
        "'No peak at any size: naive (untimed, budget)'"};
    struct attn_run_data run = synthetic_run((struct synthetic){.seed = 1});
    synthetic_untime(&run, "naive", "mask=causal");
    report(&run);
    for (size_t i = 0; i < 3; i++) {
        char *text = folder_text(causal[i]);
        assert_null(strstr(text, "] = 'naive"));
        if (!strstr(text, says[i]))
            fail_msg("%s does not say %s", causal[i], says[i]);
        free(text);
    }
    char *text = folder_text("plots/throughput_S_full.def.gp");
    assert_non_null(strstr(text, "] = 'naive'"));
    assert_non_null(strstr(text, "'No bar: budget, no time for it'\n"));
    assert_non_null(strstr(text, "; whisker: 95 % interval; dashed: measured f32 FMA peak"));
    free(text);
    attn_run_release(&run);
    /* One round has no interval, and a machine without ceilings no roof. */
    run = synthetic_run((struct synthetic){.seed = 1, .rounds = 1});
    json_object_del(run.machine, "ceilings");
    report(&run);
    text = folder_text("plots/throughput_S_full.def.gp");
    assert_null(strstr(text, "whisker"));
    assert_null(strstr(text, "dashed"));
    free(text);
    text = folder_text("plots/latency_S_full.def.gp");
    assert_null(strstr(text, "whisker"));
    free(text);
    attn_run_release(&run);
    /* Cases that are no sweep have no sizes. */
    run = synthetic_small();
    size_t i;
    json_t *record;
    json_array_foreach(run.records, i, record)
    {
        if (strcmp(attn_field_text(record, "backend"), "naive") == 0)
            json_object_del(record, "gflops");
    }
    report(&run);
    text = folder_text("plots/throughput_cases.def.gp");
    assert_null(strstr(text, "] = 'naive'"));
    assert_non_null(strstr(text, "'No bar in any case: naive'\n"));
    free(text);
    attn_run_release(&run);
}

/* The names of roofs stand where no bar and no point can be. */
static void names_of_roofs(void **state)
{
    (void)state;
    struct attn_run_data run = synthetic_run((struct synthetic){.seed = 1});
    report(&run);
    if (drawn) {
        double place[2], other[2];
        char *svg = folder_text("plots/throughput_S_full.svg");
        place_of(svg, "avx512: 228", place);
        assert_true(place[0] > 0.9 * 900);
        free(svg);
        svg = folder_text("plots/roofline.svg");
        place_of(svg, "201", place);
        assert_true(place[0] > 0.92 * 900);
        /* Above the highest point; the plot is 324 pixels high from 120 on. */
        const double top = 120 + 324 * (1 - 1 / (1 + 44 / 280.0));
        place_of(svg, "memory read: 31.5 GB/s", place);
        assert_true(place[1] < top);
        place_of(svg, "L2 220", other);
        assert_true(other[1] < top && other[0] < place[0]);
        free(svg);
    }
    attn_run_release(&run);
}

/* Lines of text that run out of a picture are cut off. */
static void lines_of_the_foot(void **state)
{
    (void)state;
    static const char *const files[] = {
        "throughput_S_full", "latency_S_full", "memory_S_full", "roofline", "errors",
        "samples",           "best",           "speedup"};
    struct attn_run_data run = synthetic_run((struct synthetic){.seed = 1});
    json_object_set_new(json_object_get(run.machine, "cpu"), "model",
                        json_string("A processor with a name of eighty bytes, which is as long as "
                                    "any that is printed"));
    report(&run);
    for (size_t f = 0; f < sizeof files / sizeof *files; f++) {
        char path[80];
        snprintf(path, sizeof path, "plots/%s.def.gp", files[f]);
        char *text = folder_text(path);
        size_t lines = 0;
        for (const char *at = text; (at = strstr(at, "\nnotes[")); lines++) {
            at = strchr(at, '\'') + 1;
            assert_true(strcspn(at, "\n") <= 138 + 1);
        }
        assert_true(lines >= 3);
        free(text);
    }
    attn_run_release(&run);
}

/* Two sizes are no sweep, but are where gnuplot would put tics of its own between ours. */
static void no_tics_but_ours(void)
{
    char path[128], why[256], *text = folder_text("plots/throughput_S_full.def.gp"), *two;
    assert_true(asprintf(&two, "%s\nn_points = 2\n", text) > 0);
    snprintf(path, sizeof path, "%s/report/plots/two.def.gp", folder);
    assert_int_equal(attn_file_write(path, two, strlen(two), why, sizeof why), 0);
    free(two);
    free(text);
    *strrchr(path, '/') = '\0';
    assert_int_equal(attn_gnuplot_run(path, "two", "throughput.gp", ATTN_GNUPLOT_LIMIT_S), 0);
    text = folder_text("plots/throughput_S_full.svg");
    assert_int_equal(folder_count(text, ">256<"), 1);
    assert_int_equal(folder_count(text, " 1.5<") + folder_count(text, " 0.5<"), 0);
    free(text);
}

/* As few sizes as a sweep may have; peaks of 0. */
static void a_short_sweep(void **state)
{
    (void)state;
    char note[512];
    struct attn_run_data run = synthetic_run((struct synthetic){.seed = 1});
    for (size_t i = json_array_size(run.records); i-- > 0;) {
        json_t *record = json_array_get(run.records, i);
        const char *length = strstr(attn_field_text(record, "case"), "sq=");
        if (strtol(length + 3, NULL, 10) > 512)
            json_array_remove(run.records, i);
        else if (strcmp(length, "sq=128") == 0 &&
                 strcmp(attn_field_text(record, "backend"), "avx2") == 0)
            json_object_set_new(record, "peak_bytes", json_integer(0));
    }
    assert_int_equal(folder_report(&run, script_dir, note, sizeof note), 0);
    char *text = folder_text("plots/memory_S_full.dat");
    assert_non_null(strstr(text, "\n2 128 0\n"));
    free(text);
    text = folder_text("report.md");
    assert_int_equal(folder_count(text, "0: no page"), 2);
    free(text);
    if (strncmp(note, "no pictures", 11) != 0) {
        assert_string_equal(note, "");
        no_tics_but_ours();
        /* The figure that has no place on the axis; no tic says so. */
        text = folder_text("plots/memory_S_full.svg");
        assert_int_equal(folder_count(text, ">0<"), 1);
        free(text);
    }
    attn_run_release(&run);
}

/* A report with more pictures than the list holds wrote past its end. */
static void no_more_pictures_than_fit(void **state)
{
    (void)state;
    char why[256] = "", note[256] = "";
    static struct attn_plots plots;
    const struct attn_plot plot = {.name = "one"};
    const struct attn_canvas canvas = {.out_dir = folder, .why = why, .size = sizeof why};
    plots.count = ATTN_PLOTS_MAX;
    assert_int_equal(
        attn_plots_draw(&canvas, script_dir, &plots, &plot, "errors.gp", note, sizeof note), -1);
    assert_int_equal(plots.count, ATTN_PLOTS_MAX);
    assert_non_null(strstr(why, "pictures"));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(latency, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(roofline, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(errors, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(legends, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(names_of_roofs, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(lines_of_the_foot, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(a_short_sweep, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(no_more_pictures_than_fit, folder_setup, folder_teardown),
    };
    if (argc < 2) {
        fprintf(stderr, "usage: %s SCRIPT_DIR\n", argv[0]);
        return 2;
    }
    script_dir = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
