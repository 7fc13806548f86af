/* SPDX-License-Identifier: Apache-2.0 */
/* test_report_damaged.c - runs that are hostile, odd or cut short: a report or a refusal, and
 * nothing else.
 *
 * test_report_damaged SCRIPT_DIR */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "folder.h"
#include "report/text.h"
#include "synthetic.h"

static const char *script_dir;

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
    assert_int_equal(folder_report(&run, script_dir, note, sizeof note), 0);
    snprintf(path, sizeof path, "%s/report/plots/hacked", folder);
    assert_int_equal(access(path, F_OK), -1);
    if (strncmp(note, "no pictures", 11) != 0)
        assert_string_equal(note, "");
    char *text = folder_text("index.html");
    assert_int_equal(folder_count(text, "<script"), 1); /* the template's */
    free(text);
    text = folder_text("junit.xml");
    folder_check_xml(text);
    assert_null(strchr(text, '\x01'));
    free(text);
    text = folder_text("report.md");
    snprintf(escaped, sizeof escaped, "\\|&lt;script\\>");
    assert_non_null(strstr(text, escaped));
    assert_int_equal(folder_count(text, "<script"), 0);
    free(text);
    folder_check_csv(&run);
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
            (void)folder_report(run, script_dir, note, sizeof note);
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
    struct attn_run_data run = synthetic_small();
    setenv("PATH", "/nonexistent", 1);
    size_t done = mutate(&run, json_array_get(run.records, 4));
    assert_string_equal(attn_field_text(json_array_get(run.records, 5), "type"), "bench");
    done += mutate(&run, json_array_get(run.records, 5));
    done += mutate(&run, run.machine);
    run.matrix = synthetic_matrix();
    json_t *feature = json_array_get(json_object_get(run.matrix, "features"), 0);
    json_t *problem = json_array_get(json_object_get(feature, "problems"), 1);
    done += mutate(&run, run.matrix);
    done += mutate(&run, json_array_get(json_object_get(run.matrix, "backends"), 0));
    done += mutate(&run, feature) + mutate(&run, problem);
    done += mutate(&run, json_array_get(json_object_get(problem, "answers"), 0));
    setenv("PATH", path, 1);
    free(path);
    assert_true(done > 500);
    attn_run_release(&run);
}

static void unreadable_runs(void **state)
{
    (void)state;
    struct attn_run_data made = synthetic_small(), run;
    char path[128], why[512];
    assert_int_equal(attn_run_read("/nonexistent", false, &run, why, sizeof why), -1);
    assert_non_null(strstr(why, "not a run folder"));
    assert_int_equal(synthetic_folder(&made, folder), 0);
    snprintf(path, sizeof path, "%s/results.ndjson", folder);
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(attn_run_read(folder, false, &run, why, sizeof why), 0);
    assert_string_equal(run.lacking, "");
    assert_int_equal(attn_run_exit(&run, ATTN_EXIT_REGRESSION), ATTN_EXIT_REGRESSION);
    const size_t all = json_array_size(run.records);
    attn_run_release(&run);
    assert_null(run.matrix);
    assert_int_equal(truncate(path, info.st_size - 9), 0);
    assert_int_equal(attn_run_read(folder, false, &run, why, sizeof why), 0);
    assert_non_null(strstr(run.lacking, "unfinished: it was cut short and left half a record"));
    assert_int_equal(attn_run_exit(&run, ATTN_EXIT_OK), ATTN_EXIT_INCOMPLETE);
    assert_int_equal(attn_run_exit(&run, ATTN_EXIT_REGRESSION), ATTN_EXIT_INCOMPLETE);
    assert_int_equal(attn_run_exit(&run, ATTN_EXIT_NUMERICS), ATTN_EXIT_NUMERICS);
    assert_int_equal(json_array_size(run.records), all);
    attn_run_release(&run);
    assert_int_equal(truncate(path, info.st_size - 400), 0);
    FILE *file = fopen(path, "a");
    fputs("{}\n", file);
    fclose(file);
    assert_int_equal(attn_run_read(folder, false, &run, why, sizeof why), ATTN_RUN_DAMAGED);
    assert_int_equal(attn_run_read(folder, true, &run, why, sizeof why), 0);
    assert_non_null(strstr(run.lacking, "damaged: line "));
    assert_true(json_array_size(run.records) < all);
    attn_run_release(&run);
    assert_int_equal(synthetic_folder(&made, folder), 0);
    attn_run_release(&made);
    snprintf(path, sizeof path, "%s/matrix.json", folder);
    assert_int_equal(attn_file_write(path, "[1]", 3, why, sizeof why), 0);
    assert_int_equal(attn_run_read(folder, false, &run, why, sizeof why), -1);
    assert_non_null(strstr(why, "matrix.json, line 1: not a JSON object"));
    snprintf(path, sizeof path, "%s/machine.json", folder);
    assert_int_equal(attn_file_write(path, "{\n\"a\": }", 8, why, sizeof why), 0);
    assert_int_equal(attn_run_read(folder, false, &run, why, sizeof why), -1);
    assert_non_null(strstr(why, "machine.json, line 2"));
    assert_int_equal(attn_file_write(path, "[]", 2, why, sizeof why), 0);
    assert_int_equal(attn_run_read(folder, false, &run, why, sizeof why), -1);
}

/* What a spreadsheet would compute has a quote before it, which makes it text. */
static void no_formulas(void **state)
{
    (void)state;
    static const char *const fields[][2] = {{"=1+1", "\"'=1+1\""},    {"+1", "\"'+1\""},
                                            {"-1", "\"'-1\""},        {"@a\"b", "\"'@a\"\"b\""},
                                            {"\t=1", "\"'\t=1\""},    {"a=1", "a=1"},
                                            {"a,\"b", "\"a,\"\"b\""}, {"", ""}};
    for (size_t f = 0; f < sizeof fields / sizeof *fields; f++) {
        char *text = NULL;
        size_t length;
        FILE *out = open_memstream(&text, &length);
        attn_put_csv(out, fields[f][0]);
        fclose(out);
        assert_string_equal(text, fields[f][1]);
        free(text);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(hostile_strings, folder_setup, folder_teardown),
        cmocka_unit_test(no_formulas),
        cmocka_unit_test_setup_teardown(mutated_records, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(unreadable_runs, folder_setup, folder_teardown),
    };
    if (argc < 2) {
        fprintf(stderr, "usage: %s SCRIPT_DIR\n", argv[0]);
        return 2;
    }
    script_dir = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
