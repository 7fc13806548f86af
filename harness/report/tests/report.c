/* SPDX-License-Identifier: Apache-2.0 */
/* report.c - from a made-up run folder to every document, and from damaged ones to a refusal.
 *
 * test_report SCRIPT_DIR [KEEP]: KEEP names an existing folder in which the run and its report are
 * left to be looked at. */
#include "report/report.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "folder.h"
#include "report/gnuplot.h"
#include "report/series.h"
#include "report/text.h"
#include "synthetic.h"

static const char *script_dir, *keep;

/* Writes the run's report under `folder`; returns what attn_report_write does. */
static int report(const struct attn_run_data *run, char *note, size_t note_size)
{
    char out[128], why[512] = "";
    snprintf(out, sizeof out, "%s/report", folder);
    const struct attn_report_options options = {0};
    int status =
        attn_report_write(run, &options, script_dir, out, note, note_size, why, sizeof why);
    assert_true((status == 0) == (why[0] == '\0'));
    return status;
}

/* Fields of the first CSV record, quotes understood; moves *at past it. */
static int csv_fields(const char **at)
{
    int fields = 1, quoted = 0;
    for (; **at && (quoted || **at != '\n'); (*at)++) {
        quoted ^= **at == '"';
        fields += !quoted && **at == ',';
    }
    *at += **at == '\n';
    assert_false(quoted);
    return fields;
}

static void check_csv(const struct attn_run_data *run)
{
    char *text = folder_text("results.csv");
    const char *at = text;
    int columns = csv_fields(&at);
    size_t lines = 0, benches = 0, i;
    for (; *at; lines++)
        assert_int_equal(csv_fields(&at), columns);
    json_t *record;
    json_array_foreach(run->records, i, record)
    {
        benches += strcmp(attn_field_text(record, "type"), "bench") == 0;
    }
    assert_int_equal(lines, benches);
    free(text);
}

/* Well-formed enough for a parser: tags nest, and no bare & or < in text or attributes. */
static void check_xml(const char *text)
{
    char stack[8][32];
    int depth = 0;
    for (const char *at = strstr(text, "?>") + 2; *at; at++) {
        if (*at == '&') {
            size_t name = strspn(at + 1, "abcdefghijklmnopqrstuvwxyz#0123456789");
            assert_true(at[name + 1] == ';');
        }
        assert_true(*at != '>');
        if (*at != '<')
            continue;
        char name[32];
        int closing = at[1] == '/';
        size_t length = strcspn(at + 1 + closing, " >");
        assert_true(length > 0 && length < sizeof name);
        memcpy(name, at + 1 + closing, length);
        name[length] = '\0';
        const char *end = strchr(at, '>');
        assert_non_null(end);
        for (const char *c = at + 1; c < end; c++)
            assert_true(*c != '<');
        if (closing)
            assert_string_equal(stack[--depth], name);
        else
            strcpy(stack[depth++], name);
        assert_in_range(depth, 0, 7);
        at = end;
    }
    assert_int_equal(depth, 0);
}

static void check_html(bool pictures)
{
    char *text = folder_text("index.html");
    assert_int_equal(folder_count(text, "{{"), 0);
    /* Nothing from outside: the pictures' name spaces alone are written like addresses. */
    assert_int_equal(folder_count(text, "http:") + folder_count(text, "https:"),
                     folder_count(text, "xmlns"));
    assert_int_equal(folder_count(text, "data:image/svg+xml,"), pictures ? 12 : 0);
    assert_int_equal(folder_count(text, "<details>"), 3);
    /* A case stands once in the hot table, if timed cold in that one, in the speed-ups, and in the
     * checks. */
    assert_int_equal(folder_count(text, ">seqlen_h8_s1024_d64: "), 4);
    assert_int_equal(folder_count(text, ">seqlen_h8_s512_d64: "), 3);
    assert_int_equal(folder_count(text, "<h2>Speed-up over naive</h2>"), 1);
    assert_int_equal(folder_count(text, ">causal masks are not supported here<"), 1);
    /* Failures stand before the results, escaped. */
    const char *failure = strstr(text, "signal 11 at &lt;0x10&gt; &amp; &quot;out of&quot; range");
    assert_non_null(failure);
    assert_true(failure < strstr(text, "<h2>Results</h2>"));
    assert_int_equal(folder_count(text, "<0x10>"), 0);
    assert_non_null(strstr(text, "not available: no CUDA device"));
    assert_non_null(strstr(text, "prefers-color-scheme: dark"));
    free(text);
}

static void a_whole_report(void **state)
{
    (void)state;
    char note[512] = "", why[512] = "";
    struct attn_run_data made = synthetic_run((struct synthetic){.seed = 1}), run;
    assert_int_equal(synthetic_folder(&made, folder), 0);
    attn_run_release(&made);
    if (attn_run_read(folder, &run, why, sizeof why) != 0)
        fail_msg("%s", why);
    assert_int_equal(report(&run, note, sizeof note), 0);
    bool pictures = strncmp(note, "no pictures", 11) != 0;
    if (pictures)
        assert_string_equal(note, "");
    check_csv(&run);
    check_html(pictures);

    char *text = folder_text("junit.xml");
    check_xml(text);
    assert_int_equal(folder_count(text, "<testsuite "), 4);
    assert_int_equal(folder_count(text, "<failure"), 2);
    assert_int_equal(folder_count(text, "<error"), 2);
    assert_int_equal(folder_count(text, "<skipped"), 10);
    free(text);
    text = folder_text("report.md");
    assert_non_null(strstr(text, "## Needs attention"));
    assert_int_equal(folder_count(text, "](plots/"), pictures ? 12 : 0);
    assert_int_equal(folder_count(text, "| seqlen\\_h8\\_s1024\\_d64: "), 1);
    assert_non_null(strstr(text, "\n### seqlen\n"));
    assert_non_null(strstr(text, "| causal masks are not supported here | 0 | 6 |\n"));
    assert_true(strstr(text, "## Needs attention") < strstr(text, "## Pictures"));
    assert_true(strstr(text, "## Pictures") < strstr(text, "## Results"));
    assert_non_null(strstr(text, "\n## Speed-up over naive\n"));
    assert_non_null(strstr(text, "\n| all | "));
    free(text);
    for (int axis = 0; pictures && axis < ATTN_AXIS_COUNT; axis++) {
        char name[64];
        snprintf(name, sizeof name, "plots/throughput_%s_causal.png",
                 attn_axis_key((enum attn_axis)axis));
        text = folder_text(name);
        assert_memory_equal(text, "\x89PNG", 4);
        free(text);
    }

    /* Another baseline, and one that there is not. */
    struct attn_report_options options = {.baseline = "blas"};
    char out[128];
    snprintf(out, sizeof out, "%s/report", folder);
    assert_int_equal(
        attn_report_write(&run, &options, script_dir, out, note, sizeof note, why, sizeof why), 0);
    text = folder_text("report.md");
    assert_non_null(strstr(text, "\n## Speed-up over blas\n"));
    free(text);
    options.baseline = "cuda";
    assert_int_equal(
        attn_report_write(&run, &options, script_dir, out, note, sizeof note, why, sizeof why), 1);
    attn_run_release(&run);
}

static void sweeps(void **state)
{
    (void)state;
    char why[256];
    struct attn_run_data run = synthetic_run((struct synthetic){.seed = 1});
    /* A window of the same sizes belongs to no sweep of full attention. */
    json_t *stray = json_deep_copy(json_array_get(run.records, 3));
    assert_string_equal(attn_field_text(stray, "type"), "bench");
    json_object_set_new(stray, "case", json_string("dk=64 hq=8 mask=window:8:8 sq=128"));
    json_object_set_new(stray, "id", json_string("stray"));
    json_object_set_new(json_object_get(stray, "sizes"), "sq", json_integer(100));
    json_object_set_new(json_object_get(stray, "sizes"), "sk", json_integer(100));
    json_array_append_new(run.records, stray);
    struct attn_view view;
    struct attn_series s;
    assert_int_equal(attn_view_create(run.records, run.machine, &view, why, sizeof why), 0);

    assert_int_equal(attn_series_find(&view, ATTN_AXIS_S, false, &s), 0);
    assert_int_equal(s.n_points, 8);
    assert_true(s.x[0] == 128 && s.x[7] == 16384);
    assert_int_equal(s.n_backends, 4);
    assert_string_equal(view.backends[s.backends[0]].label, "naive");
    assert_string_equal(s.constants, "b=1, h=8, d=64, f32, no mask, 2 threads");
    assert_int_equal(s.cells[0][7]->status, ATTN_SKIP);
    assert_int_equal(s.cells[1][7]->status, ATTN_PASS);

    assert_int_equal(attn_series_find(&view, ATTN_AXIS_D, true, &s), 0);
    assert_int_equal(s.n_points, 8);
    assert_string_equal(s.constants, "b=1, h=8, S=1024, f32, causal mask, 2 threads");
    assert_int_equal(s.cells[3][2]->status, ATTN_FAIL); /* onednn at d=40 */
    assert_int_equal(s.cells[2][7]->status, ATTN_CRASH);
    assert_int_equal(attn_series_find(&view, ATTN_AXIS_H, true, &s), 0);
    assert_int_equal(s.n_points, 6);
    attn_view_free(&view);

    json_array_clear(run.records);
    assert_int_equal(attn_view_create(run.records, run.machine, &view, why, sizeof why), 0);
    assert_int_equal(attn_series_find(&view, ATTN_AXIS_S, false, &s), -1);
    attn_view_free(&view);
    attn_run_release(&run);
}

/* Adds a case of b=1, one head and full attention, timed on avx2. */
static void add_timed(struct attn_run_data *run, int s, int d, const char *extra, double flops)
{
    char line[96];
    snprintf(line, sizeof line, "dk=%d%s sq=%d", d, extra, s);
    json_t *record = json_deep_copy(json_array_get(run->records, 5));
    assert_string_equal(attn_field_text(record, "type"), "bench");
    assert_string_equal(attn_field_text(record, "backend"), "avx2");
    json_object_set_new(record, "case", json_string(line));
    json_object_set_new(record, "id", json_string(line));
    json_object_set_new(record, "flops", json_real(flops));
    json_t *sizes = json_object_get(record, "sizes");
    const char *const lengths[] = {"sq", "sk"}, *const widths[] = {"dq", "dk", "dv"};
    for (size_t i = 0; i < 2; i++)
        json_object_set_new(sizes, lengths[i], json_integer(s));
    for (size_t i = 0; i < 3; i++)
        json_object_set_new(sizes, widths[i], json_integer(d));
    json_array_append_new(run->records, record);
}

/* Neither many tiny sizes nor two huge ones make the sweep. */
static void the_telling_family(void **state)
{
    (void)state;
    char why[256];
    struct attn_run_data run = synthetic_run((struct synthetic){.seed = 1});
    for (int s = 1; s <= 20; s++)
        add_timed(&run, s, 8, "", 32.0 * s * s);
    add_timed(&run, 50000, 16, "", 1e15);
    add_timed(&run, 60000, 16, "", 1e15);
    struct attn_view view;
    struct attn_series s;
    assert_int_equal(attn_view_create(run.records, run.machine, &view, why, sizeof why), 0);
    assert_int_equal(attn_series_find(&view, ATTN_AXIS_S, false, &s), 0);
    assert_int_equal(s.n_points, 8);
    assert_string_equal(s.constants, "b=1, h=8, d=64, f32, no mask, 2 threads");
    attn_view_free(&view);

    while (json_array_size(run.records) > 0 &&
           json_integer_value(json_object_get(
               json_object_get(json_array_get(run.records, 0), "sizes"), "sq")) < 50000)
        json_array_remove(run.records, 0);
    assert_int_equal(json_array_size(run.records), 2);
    assert_int_equal(attn_view_create(run.records, run.machine, &view, why, sizeof why), 0);
    assert_int_equal(attn_series_find(&view, ATTN_AXIS_S, false, &s), -1);
    attn_view_free(&view);
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
    assert_int_equal(report(&run, note, sizeof note), 0);
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

static void a_gnuplot_that_hangs(void **state)
{
    (void)state;
    static const char program[] = "#!/bin/sh\necho $$ > pid\nexec sleep 600\n";
    char path[128], search[4200], why[256], *old = strdup(getenv("PATH"));
    size_t length;
    snprintf(path, sizeof path, "%s/gnuplot", folder);
    assert_int_equal(attn_file_write(path, program, strlen(program), why, sizeof why), 0);
    assert_int_equal(chmod(path, 0755), 0);
    snprintf(search, sizeof search, "%s:%s", folder, old);
    setenv("PATH", search, 1);
    int status = attn_gnuplot_run(folder, "x", "y.gp", 0.5);
    int error = errno;
    setenv("PATH", old, 1);
    free(old);
    assert_int_equal(status, -1);
    assert_int_equal(error, ETIMEDOUT);
    snprintf(path, sizeof path, "%s/pid", folder);
    char *text = attn_file_read(path, &length, why, sizeof why);
    assert_non_null(text);
    assert_int_equal(kill((pid_t)strtol(text, NULL, 10), 0), -1);
    assert_int_equal(errno, ESRCH);
    free(text);
}

/* A run of a few records, hostile or damaged, for which no picture is wanted. */
static struct attn_run_data small_run(void)
{
    struct attn_run_data run = synthetic_run((struct synthetic){.seed = 1});
    while (json_array_size(run.records) > 24)
        json_array_remove(run.records, 24);
    return run;
}

static void without_gnuplot(void **state)
{
    (void)state;
    char note[512], *path = strdup(getenv("PATH"));
    struct attn_run_data run = small_run();
    setenv("PATH", "/nonexistent", 1);
    assert_int_equal(report(&run, note, sizeof note), 0);
    setenv("PATH", path, 1);
    free(path);
    assert_memory_equal(note, "no pictures", 11);
    char *text = folder_text("report.md");
    assert_non_null(strstr(text, "no pictures: gnuplot"));
    assert_non_null(strstr(text, "## Results"));
    free(text);
    attn_run_release(&run);
}

/* What comes from files is text to every reader of ours: gnuplot, browsers, XML parsers. */
static void hostile_strings(void **state)
{
    (void)state;
    static const char name[] = "x'.system('touch hacked').'`touch hacked`\"|<script>&\n,]]>\x01";
    char note[512], path[128], escaped[64];
    struct attn_run_data run = synthetic_run((struct synthetic){.seed = 1});
    size_t i;
    json_t *record;
    json_array_foreach(run.records, i, record)
    {
        if (strcmp(attn_field_text(record, "backend"), "avx2") == 0)
            json_object_set_new(record, "backend", json_string(name));
    }
    json_object_set_new(json_object_get(run.machine, "cpu"), "model", json_string(name));
    assert_int_equal(report(&run, note, sizeof note), 0);
    snprintf(path, sizeof path, "%s/report/plots/hacked", folder);
    assert_int_equal(access(path, F_OK), -1);
    if (strncmp(note, "no pictures", 11) != 0)
        assert_string_equal(note, "");
    char *text = folder_text("index.html");
    assert_int_equal(folder_count(text, "<script"), 1); /* the template's */
    free(text);
    text = folder_text("junit.xml");
    check_xml(text);
    assert_null(strchr(text, '\x01'));
    free(text);
    text = folder_text("report.md");
    snprintf(escaped, sizeof escaped, "\\|&lt;script\\>");
    assert_non_null(strstr(text, escaped));
    assert_int_equal(folder_count(text, "<script"), 0);
    free(text);
    check_csv(&run);
    attn_run_release(&run);
}

static json_t *wrong_value(int kind)
{
    switch (kind) {
    case 0:
        return json_null();
    case 1:
        return json_string("<odd>");
    case 2:
        return json_integer(-7);
    case 3:
        return json_real(1e300);
    case 4:
        return json_pack("[[n],s,i]", "x", 0);
    case 5:
        return json_pack("{s:n}", "x");
    default:
        return json_true();
    }
}

/* Replaces each member of `object`, at any depth, by each wrong value in turn and by nothing, and
 * reports; a refusal is as good as a report. */
static size_t mutate(struct attn_run_data *run, json_t *object)
{
    size_t done = 0;
    const char *key;
    json_t *value, *keys = json_array();
    json_object_foreach(object, key, value)
    {
        json_array_append_new(keys, json_string(key));
    }
    for (size_t i = 0; i < json_array_size(keys); i++) {
        char note[512];
        key = json_string_value(json_array_get(keys, i));
        value = json_incref(json_object_get(object, key));
        for (int kind = 0; kind < 8; kind++) {
            if (kind < 7)
                json_object_set_new(object, key, wrong_value(kind));
            else
                json_object_del(object, key);
            (void)report(run, note, sizeof note);
            done++;
        }
        json_object_set(object, key, value);
        done += json_is_object(value) ? mutate(run, value) : 0;
        json_decref(value);
    }
    json_decref(keys);
    return done;
}

static void mutated_records(void **state)
{
    (void)state;
    char *path = strdup(getenv("PATH"));
    struct attn_run_data run = small_run();
    setenv("PATH", "/nonexistent", 1);
    size_t done = mutate(&run, json_array_get(run.records, 4));
    assert_string_equal(attn_field_text(json_array_get(run.records, 5), "type"), "bench");
    done += mutate(&run, json_array_get(run.records, 5));
    done += mutate(&run, run.machine);
    setenv("PATH", path, 1);
    free(path);
    assert_true(done > 400);
    attn_run_release(&run);
}

static void unreadable_runs(void **state)
{
    (void)state;
    struct attn_run_data made = small_run(), run;
    char path[128], why[512];
    assert_int_equal(attn_run_read("/nonexistent", &run, why, sizeof why), -1);
    assert_non_null(strstr(why, "not a run folder"));
    assert_int_equal(synthetic_folder(&made, folder), 0);
    attn_run_release(&made);
    snprintf(path, sizeof path, "%s/results.ndjson", folder);
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(truncate(path, info.st_size - 9), 0);
    assert_int_equal(attn_run_read(folder, &run, why, sizeof why), 0);
    assert_int_equal(run.torn, 1);
    assert_int_equal(json_array_size(run.records), 23);
    attn_run_release(&run);
    snprintf(path, sizeof path, "%s/machine.json", folder);
    assert_int_equal(attn_file_write(path, "{\n\"a\": }", 8, why, sizeof why), 0);
    assert_int_equal(attn_run_read(folder, &run, why, sizeof why), -1);
    assert_non_null(strstr(why, "machine.json, line 2"));
    assert_int_equal(attn_file_write(path, "[]", 2, why, sizeof why), 0);
    assert_int_equal(attn_run_read(folder, &run, why, sizeof why), -1);
}

static void figures(void **state)
{
    (void)state;
    char text[ATTN_FIGURE_MAX];
    assert_string_equal(attn_figure(0.1234, text), "0.123");
    assert_string_equal(attn_figure(1234.5, text), "1234");
    assert_string_equal(attn_figure(NAN, text), ATTN_DASH);
    assert_string_equal(attn_figure_time(999.9, text), "1.00 \xc2\xb5s");
    assert_string_equal(attn_figure_time(12345678, text), "12.3 ms");
    assert_string_equal(attn_figure_bytes(1536, text), "1.50 KiB");
    assert_string_equal(attn_figure_bytes(INFINITY, text), ATTN_DASH);
}

static int write_kept(void)
{
    char out[4200], note[512] = "", why[512] = "";
    struct attn_run_data run = synthetic_run((struct synthetic){.seed = 1});
    snprintf(out, sizeof out, "%s/report", keep);
    const struct attn_report_options options = {0};
    int status =
        synthetic_folder(&run, keep) != 0 ||
        attn_report_write(&run, &options, script_dir, out, note, sizeof note, why, sizeof why) != 0;
    attn_run_release(&run);
    printf("%s %s%s\n", out, note, why);
    return status;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_whole_report, folder_setup, folder_teardown),
        cmocka_unit_test(sweeps),
        cmocka_unit_test(the_telling_family),
        cmocka_unit_test_setup_teardown(a_short_sweep, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(a_gnuplot_that_hangs, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(without_gnuplot, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(hostile_strings, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(mutated_records, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(unreadable_runs, folder_setup, folder_teardown),
        cmocka_unit_test(figures),
    };
    if (argc < 2) {
        fprintf(stderr, "usage: %s SCRIPT_DIR [KEEP]\n", argv[0]);
        return 2;
    }
    script_dir = argv[1];
    keep = argc > 2 ? argv[2] : NULL;
    return keep ? write_kept() : cmocka_run_group_tests(tests, NULL, NULL);
}
