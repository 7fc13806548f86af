/* SPDX-License-Identifier: Apache-2.0 */
/* test_report.c - from a made-up run folder to every document, with and without gnuplot.
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
#include "report/writers.h"
#include "synthetic.h"

static const char *script_dir, *keep;

/* Every file that the page links to lies beside it; returns how many links there are. */
static size_t check_links(const char *text)
{
    size_t links = 0;
    for (const char *at = text; (at = strstr(at, "href=\""));) {
        char path[256];
        at += strlen("href=\"");
        if (*at == '#')
            continue;
        snprintf(path, sizeof path, "%s/report/%.*s", folder, (int)strcspn(at, "\""), at);
        if (access(path, F_OK) != 0)
            fail_msg("there is no %s", path);
        links++;
    }
    return links;
}

static void check_html(bool pictures)
{
    char *text = folder_text("index.html");
    /* Documents, records of the run, and four files of every picture. */
    assert_true(check_links(text) >= (pictures ? 4 * 15 : 0) + 6);
    assert_non_null(strstr(text, "<dt>Files</dt><dd><a href=\"report.md\">report.md</a>, "));
    assert_non_null(strstr(text, "<a href=\"../results.ndjson\">results.ndjson</a>, "));
    if (pictures)
        assert_non_null(strstr(text, "<a href=\"plots/roofline.svg\">SVG</a>"));
    assert_int_equal(folder_count(text, "{{"), 0);
    assert_non_null(
        strstr(text, "; the 95 % interval of a time is that of the median over rounds"));
    /* Nothing from outside: the pictures' name spaces alone are written like addresses. */
    assert_int_equal(folder_count(text, "http:") + folder_count(text, "https:"),
                     folder_count(text, "xmlns"));
    assert_int_equal(folder_count(text, "data:image/svg+xml,"), pictures ? 15 : 0);
    assert_int_equal(folder_count(text, "<details>"), pictures ? 6 : 5);
    /* A case stands once in the ranking, in the hot table, if timed cold in that one, in the
     * speed-ups, and in the checks. */
    assert_int_equal(folder_count(text, ">seqlen_h8_s1024_d64: "), 5);
    assert_int_equal(folder_count(text, ">seqlen_h8_s512_d64: "), 4);
    assert_int_equal(folder_count(text, "<h2 id=\"fastest\">Fastest</h2>"), 1);
    assert_int_equal(folder_count(text, "<h2 id=\"speed-up\">Speed-up over naive</h2>"), 1);
    assert_int_equal(folder_count(text, ">causal masks are not supported here<"), 1);
    /* Failures stand before the results, escaped. */
    const char *failure = strstr(text, "signal 11 at &lt;0x10&gt; &amp; &quot;out of&quot; range");
    assert_non_null(failure);
    assert_true(failure < strstr(text, ">Results</h2>"));
    assert_int_equal(folder_count(text, "<0x10>"), 0);
    assert_non_null(strstr(text, "not available: no CUDA device"));
    /* A cell without a figure has its reason, and the legend says where reasons are. */
    assert_non_null(strstr(text, " title=\"causal masks are not supported here\">n/a</td>"));
    assert_non_null(strstr(text, "title=\"budget: a run is predicted to take 41 s, the limit is 1 s"
                                 "\">budget</td>"));
    assert_non_null(
        strstr(text, "untimed: verified only; 'Not timed' in the <a href=\"#verdict\">"));
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
    if (attn_run_read(folder, false, &run, why, sizeof why) != 0)
        fail_msg("%s", why);
    assert_int_equal(folder_report(&run, script_dir, note, sizeof note), 0);
    bool pictures = strncmp(note, "no pictures", 11) != 0;
    if (pictures)
        assert_string_equal(note, "");
    folder_check_csv(&run);
    check_html(pictures);

    char *text = folder_text("junit.xml");
    folder_check_xml(text);
    assert_int_equal(folder_count(text, "<testsuite "), 4);
    assert_int_equal(folder_count(text, "<failure"), 2);
    assert_int_equal(folder_count(text, "<error"), 2);
    assert_int_equal(folder_count(text, "<skipped"), 10);
    free(text);
    text = folder_text("report.md");
    assert_non_null(strstr(text, "## Needs attention"));
    assert_int_equal(folder_count(text, "](plots/"), pictures ? 15 : 0);
    assert_int_equal(folder_count(text, "| seqlen\\_h8\\_s1024\\_d64: "), 1);
    assert_non_null(strstr(text, "\n### seqlen\n"));
    assert_non_null(strstr(text, "| causal masks are not supported here | 0 | 6 |\n"));
    assert_true(strstr(text, "## Needs attention") < strstr(text, "## Pictures"));
    assert_true(strstr(text, "## Pictures") < strstr(text, "## Results"));
    assert_non_null(strstr(text, "\n## Speed-up over naive\n"));
    assert_non_null(strstr(text, "untimed: verified only; 'Not timed' in the verdict"));
    assert_null(strstr(text, "\n| all | ")); /* it would mix microseconds with seconds */
    assert_non_null(strstr(text, " | worst error/bound | worst grade | median slack |\n"));
    assert_true(folder_count(text, " | 8.00 |\n") >= 2); /* slacks of backends with verdicts */
    free(text);
    for (int axis = 0; pictures && axis < ATTN_SWEEP_COUNT; axis++) {
        char name[64];
        snprintf(name, sizeof name, "plots/throughput_%s_causal.png",
                 attn_sweep_key((enum attn_sweep)axis));
        text = folder_text(name);
        assert_memory_equal(text, "\x89PNG", 4);
        free(text);
    }

    /* Another baseline, and one that there is not. */
    char out[128];
    struct attn_report_options options = {
        .baseline = "blas", .script_dir = script_dir, .out_dir = out};
    snprintf(out, sizeof out, "%s/report", folder);
    assert_int_equal(attn_report_write(&run, &options, note, sizeof note, why, sizeof why), 0);
    text = folder_text("report.md");
    assert_non_null(strstr(text, "\n## Speed-up over blas\n"));
    free(text);
    options.baseline = "cuda";
    assert_int_equal(attn_report_write(&run, &options, note, sizeof note, why, sizeof why), 1);
    attn_run_release(&run);
}

/* A text of others: a name that is a file is a link, anything else is text. */
static void names_of_files(void **state)
{
    (void)state;
    char path[128], why[256], *text = NULL;
    size_t length;
    snprintf(path, sizeof path, "%s/a-b.log", folder);
    assert_int_equal(attn_file_write(path, "x", 1, why, sizeof why), 0);
    FILE *out = attn_text_open(&text, &length);
    attn_html_put_linked(out, folder, "see a-b.log. Not c.log, /etc/passwd, ../a-b.log or <b>&");
    fclose(out);
    assert_string_equal(text, "see <a href=\"a-b.log\">a-b.log</a>. Not c.log, /etc/passwd, "
                              "../a-b.log or &lt;b&gt;&amp;");
    free(text);
}

static void a_gnuplot_that_hangs(void **state)
{
    (void)state;
    static const char program[] = "#!/bin/sh\necho $$ > ${0%/*}/pid\nexec sleep 600\n";
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

/* The folder is named in a command of gnuplot. */
static void folders_with_hostile_names(void **state)
{
    (void)state;
    static const char *const names[] = {"~", "it's '", "'.'", "a\n\"b\" `c` $d \\"};
    char here[4096], path[128], why[256];
    size_t length;
    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(chdir(folder), 0);
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        assert_int_equal(mkdir(names[n], 0755), 0);
        snprintf(path, sizeof path, "%s/x.def.gp", names[n]);
        assert_int_equal(attn_file_write(path, "y = 1\n", 6, why, sizeof why), 0);
        snprintf(path, sizeof path, "%s/y.gp", names[n]);
        assert_int_equal(attn_file_write(path, "print y + 1\n", 12, why, sizeof why), 0);
        assert_int_equal(attn_gnuplot_run(names[n], "x", "y.gp", ATTN_GNUPLOT_LIMIT_S), 0);
        snprintf(path, sizeof path, "%s/x.log", names[n]);
        char *text = attn_file_read(path, &length, why, sizeof why);
        assert_string_equal(text, "2\n");
        free(text);
    }
    assert_int_equal(chdir(here), 0);
}

static void a_gnuplot_that_crashes(void **state)
{
    (void)state;
    static const char program[] = "#!/bin/sh\nkill -SEGV $$\n";
    char path[128], search[4200], note[512], why[256], *old = strdup(getenv("PATH"));
    struct attn_run_data run = synthetic_small();
    snprintf(path, sizeof path, "%s/gnuplot", folder);
    assert_int_equal(attn_file_write(path, program, strlen(program), why, sizeof why), 0);
    assert_int_equal(chmod(path, 0755), 0);
    snprintf(search, sizeof search, "%s:%s", folder, old);
    setenv("PATH", search, 1);
    assert_int_equal(folder_report(&run, script_dir, note, sizeof note), 2);
    setenv("PATH", old, 1);
    free(old);
    assert_memory_equal(note, "gnuplot crashed on ", 19);
    assert_non_null(strstr(note, ": Segmentation fault; plots/"));
    char *text = folder_text("index.html"); /* the rest is there */
    check_links(text);
    assert_non_null(strstr(text, ">Results</h2>"));
    free(text);
    attn_run_release(&run);
}

/* One backend, one type, one size: plots of labels have one point, or none. */
static void one_result(void **state)
{
    (void)state;
    char note[512];
    struct attn_run_data run = synthetic_small();
    size_t i;
    json_t *record, *one = json_array();
    const char *id = NULL;
    json_array_foreach(run.records, i, record)
    {
        const char *type = json_string_value(json_object_get(record, "type"));
        if (strcmp(type, "bench") == 0 && !id)
            id = json_string_value(json_object_get(record, "id"));
    }
    for (size_t backends = 1; backends <= 2; backends++) {
        json_array_clear(one);
        json_array_foreach(run.records, i, record)
        {
            const char *name = json_string_value(json_object_get(record, "backend"));
            if (strcmp(json_string_value(json_object_get(record, "id")), id) == 0 &&
                (strcmp(name, "naive") == 0 || (backends == 2 && strcmp(name, "avx2") == 0)))
                json_array_append(one, record);
        }
        assert_true(json_array_size(one) >= 2 * backends);
        struct attn_run_data part = run;
        part.records = one;
        assert_int_equal(folder_report(&part, script_dir, note, sizeof note), 0);
        char *text = folder_text("index.html");
        assert_non_null(strstr(text, "<figure class=\"throughput_cases\">"));
        assert_non_null(strstr(text, "<figure class=\"errors\">"));
        free(text);
        /* The type, the point and its figure stand in one line. */
        text = folder_text("plots/errors.svg");
        if (backends == 1)
            assert_int_equal(folder_count(text, "translate(477.00,"), 3);
        else
            assert_int_equal(folder_count(text, "translate(476.99,"), 2); /* with the axis */
        free(text);
    }
    json_decref(one);
    attn_run_release(&run);
}

/* A run of verify says nothing of how it timed. */
static void nothing_timed(void **state)
{
    (void)state;
    static const char *const words[] = {"rotocol", "eilings", "Rates", "Shares", "95 % interval"};
    static const char *const files[] = {"index.html", "report.md"};
    char note[512];
    struct attn_run_data run = synthetic_small();
    for (size_t verified = 0; verified < 2; verified++) {
        for (size_t i = json_array_size(run.records); verified && i-- > 0;)
            if (strcmp(attn_field_text(json_array_get(run.records, i), "type"), "verify") != 0)
                json_array_remove(run.records, i);
        assert_int_equal(folder_report(&run, script_dir, note, sizeof note), 0);
        for (size_t f = 0; f < 2; f++) {
            char *text = folder_text(files[f]);
            for (size_t w = 0; w < sizeof words / sizeof *words; w++)
                if (!verified && f == 0)
                    assert_non_null(strstr(text, words[w]));
                else if (verified)
                    assert_null(strstr(text, words[w]));
            assert_int_equal(strstr(text, "Nothing was timed.") != NULL, verified);
            free(text);
        }
    }
    attn_run_release(&run);
}

/* Two rounds have a range and no interval, in both documents. */
static void two_rounds(void **state)
{
    (void)state;
    char note[512];
    struct attn_run_data run = synthetic_run((struct synthetic){.seed = 1, .rounds = 2});
    assert_int_equal(folder_report(&run, script_dir, note, sizeof note), 0);
    char *text = folder_text("index.html");
    assert_non_null(strstr(text, " ms (2)</small>"));
    /* Those that were made; five were asked for. */
    assert_non_null(strstr(text, "<dt>Protocol</dt><dd>2 rounds of "));
    assert_non_null(strstr(text, "; times of fewer than 4 rounds have no interval"));
    assert_null(strstr(text, "<i>\xc2\xb1"));
    free(text);
    text = folder_text("report.md");
    assert_non_null(strstr(text, " (2 rounds: "));
    assert_non_null(strstr(text, "; times of fewer than 4 rounds have no interval"));
    free(text);
    attn_run_release(&run);
}

static void without_gnuplot(void **state)
{
    (void)state;
    char note[512], *path = strdup(getenv("PATH"));
    struct attn_run_data run = synthetic_small();
    setenv("PATH", "/nonexistent", 1);
    assert_int_equal(folder_report(&run, script_dir, note, sizeof note), 0);
    setenv("PATH", path, 1);
    free(path);
    assert_memory_equal(note, "no pictures", 11);
    char *text = folder_text("report.md");
    assert_non_null(strstr(text, "no pictures: gnuplot"));
    assert_non_null(strstr(text, "## Results"));
    free(text);
    attn_run_release(&run);
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
    const struct attn_report_options options = {.script_dir = script_dir, .out_dir = out};
    int status = synthetic_folder(&run, keep) != 0 ||
                 attn_report_write(&run, &options, note, sizeof note, why, sizeof why) != 0;
    attn_run_release(&run);
    printf("%s %s%s\n", out, note, why);
    return status;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(names_of_files, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(a_whole_report, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(a_gnuplot_that_hangs, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(folders_with_hostile_names, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(a_gnuplot_that_crashes, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(one_result, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(nothing_timed, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(two_rounds, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(without_gnuplot, folder_setup, folder_teardown),
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
