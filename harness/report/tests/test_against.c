/* SPDX-License-Identifier: Apache-2.0 */
/* test_against.c - the page that compares a run with an earlier one. Draws nothing.
 *
 * test_against SCRIPT_DIR */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "folder.h"
#include "report/against.h"
#include "report/text.h"
#include "synthetic.h"

static const char *script_dir;
static struct attn_run_data base, next;
static char why[1024];

static int begin(void **state)
{
    char out[128];
    if (folder_setup(state) != 0)
        return -1;
    snprintf(out, sizeof out, "%s/report", folder);
    base = synthetic_run((struct synthetic){.seed = 1});
    next = synthetic_run((struct synthetic){.seed = 2, .slow = "avx2", .slowdown = 1.5});
    return mkdir(out, 0755);
}

static int end(void **state)
{
    attn_run_release(&base);
    attn_run_release(&next);
    return folder_teardown(state);
}

/* Writes the page; returns its text and the exit code. */
static char *against(const struct attn_compare_options *options, enum attn_exit *code)
{
    char out[128], note[512], *path = strdup(getenv("PATH"));
    const struct attn_report_options report = {.script_dir = script_dir, .out_dir = out};
    snprintf(out, sizeof out, "%s/report", folder);
    setenv("PATH", "/nonexistent", 1);
    int status = attn_against_write(&base, &next, options, &report, code, note, sizeof note, why,
                                    sizeof why);
    setenv("PATH", path, 1);
    free(path);
    if (status != 0)
        fail_msg("%s", why);
    return folder_text("against.html");
}

static void a_page(void **state)
{
    (void)state;
    enum attn_exit code;
    char *text = against(&(struct attn_compare_options){.margin = 0.1}, &code);
    assert_int_equal(code, ATTN_EXIT_OK);
    assert_string_equal(why, "");
    assert_int_equal(folder_count(text, "{{") + folder_count(text, "http:"), 0);
    assert_int_equal(folder_count(text, "</html>"), 1);
    assert_int_equal(folder_count(text, "<script"), 1);
    assert_non_null(strstr(text, "<p>Nothing: processor"));
    assert_null(strstr(text, "Not comparable"));
    assert_non_null(strstr(text, "; Linux "));
    assert_true(strstr(text, "What differs") < strstr(text, "<h2>Verdicts</h2>"));
    /* avx2 has 40 results hot and 26 cold. */
    assert_non_null(strstr(text, "<div class=\"tile fail\"><b>66</b>slower</div>"));
    const char *row = strstr(text, "<tr><td class=\"case\">avx2</td>");
    assert_non_null(row);
    assert_true(fabs(strtod(strstr(row, "data-v=\"") + 8, NULL) - 1.5) < 0.02);
    /* The worst stand first, each once. */
    const char *list = strstr(text, "<h2>Results</h2>");
    assert_true(strstr(list, ">slower</td>") < strstr(list, ">same</td>"));
    assert_int_equal(folder_count(list, ">slower</td>"), 66);
    free(text);
    /* The picture's rows: the largest changes, by falling ratio. */
    text = folder_text("plots/against.dat");
    double ratio, last = INFINITY;
    size_t rows = 0;
    for (const char *at = strchr(text, '\n'); at && at[1]; at = strchr(at + 1, '\n'), rows++) {
        assert_int_equal(sscanf(at, " %*u %*u %lf", &ratio), 1);
        assert_true(ratio <= last);
        last = ratio;
    }
    assert_int_equal(rows, 48);
    assert_true(last > 1.4);
    free(text);
}

static void what_differs(void **state)
{
    (void)state;
    enum attn_exit code;
    json_object_set_new(json_object_get(next.machine, "cpu"), "model", json_string("a<b>"));
    struct attn_compare_options options = {.margin = 0.1};
    char *text = against(&options, &code);
    assert_int_equal(code, ATTN_EXIT_BASELINE);
    assert_non_null(strstr(why, "not comparable: the CPU model"));
    assert_non_null(strstr(text, "<td class=\"\">CPU model</td>"));
    assert_non_null(strstr(text, "&quot;a&lt;b&gt;&quot;"));
    assert_null(strstr(text, "a<b>"));
    assert_non_null(strstr(text, "<h2>No verdicts</h2>"));
    assert_null(strstr(text, "<h2>Results</h2>"));
    assert_non_null(strstr(text, "<b>Not comparable:</b> 1 difference between the runs, listed "
                                 "below, may change times.</p>"));
    free(text);
    options.cross = true;
    text = against(&options, &code);
    assert_int_equal(code, ATTN_EXIT_OK);
    assert_true(strstr(text, "CPU model") < strstr(text, "<h2>Results</h2>"));
    assert_non_null(strstr(text, "; they were compared nevertheless, by --cross.</p>"));
    free(text);
}

static void nothing_in_both(void **state)
{
    (void)state;
    enum attn_exit code;
    size_t i;
    json_t *record;
    json_array_foreach(next.records, i, record)
    {
        json_object_set_new(record, "id", json_string("another"));
    }
    char *text = against(&(struct attn_compare_options){.margin = 0.1}, &code);
    assert_int_equal(code, ATTN_EXIT_NOTHING);
    assert_non_null(strstr(text, "no result was timed on both sides"));
    free(text);
}

/* Each field of a timing by each other type: a page or a refusal. */
static void hostile_records(void **state)
{
    (void)state;
    static const char *const odd[] = {
        "null", "\"<script>\"", "-7", "1e300", "[[null],\"x\",0]", "{\"x\":null}", "true"};
    enum attn_exit code;
    const char *key;
    json_t *value, *keys = json_array();
    attn_run_release(&base);
    attn_run_release(&next);
    base = synthetic_small();
    next = synthetic_small();
    json_t *record = json_array_get(next.records, 5);
    json_object_foreach(record, key, value)
    {
        json_array_append_new(keys, json_string(key));
    }
    for (size_t i = 0; i < json_array_size(keys); i++)
        for (size_t o = 0; o < sizeof odd / sizeof odd[0]; o++) {
            key = json_string_value(json_array_get(keys, i));
            if (strcmp(key, "type") == 0 || strcmp(key, "id") == 0 || strcmp(key, "backend") == 0 ||
                strcmp(key, "status") == 0)
                continue; /* refused */
            value = json_incref(json_object_get(record, key));
            json_object_set_new(record, key, json_loads(odd[o], JSON_DECODE_ANY, NULL));
            char *text = against(&(struct attn_compare_options){.margin = 0.1}, &code);
            assert_int_equal(folder_count(text, "<script"), 1);
            free(text);
            json_object_set_new(record, key, value);
        }
    json_decref(keys);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_page, begin, end),
        cmocka_unit_test_setup_teardown(what_differs, begin, end),
        cmocka_unit_test_setup_teardown(nothing_in_both, begin, end),
        cmocka_unit_test_setup_teardown(hostile_records, begin, end),
    };
    if (argc < 2) {
        fprintf(stderr, "usage: %s SCRIPT_DIR\n", argv[0]);
        return 2;
    }
    script_dir = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
