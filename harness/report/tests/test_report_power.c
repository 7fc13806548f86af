/* SPDX-License-Identifier: Apache-2.0 */
/* test_report_power.c - power by operator and type, from a made-up run. */
#include "report/power.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "report/writers.h"
#include "synthetic.h"

static struct attn_run_data run;
static struct attn_view view;

/* Every verdict has made 30 of 31 checks. The third one has missed something else than the others.
 */
static int setup(void **state)
{
    char why[256];
    size_t i, n = 0;
    json_t *record;
    (void)state;
    run = synthetic_run((struct synthetic){.seed = 1});
    json_array_foreach(run.records, i, record)
    {
        const char *type = json_string_value(json_object_get(record, "type"));
        if (strcmp(type, "verify") != 0)
            continue;
        json_object_set_new(record, "checks_made", json_integer(30));
        json_object_set_new(record, "checks_apply", json_integer(31));
        json_object_set_new(record, "power",
                            ++n == 3 ? json_pack("{s:i, s:i, s:[s, s]}", "refused", 8, "of", 10,
                                                 "missed", "scale_1.02", "out|1.05")
                                     : json_pack("{s:i, s:i, s:[s]}", "refused", 9, "of", 10,
                                                 "missed", "scale_1.02"));
    }
    return attn_view_create(run.records, run.machine, &view, why, sizeof why);
}

static int teardown(void **state)
{
    (void)state;
    attn_view_free(&view);
    attn_run_release(&run);
    return 0;
}

static void by_operator_and_type(void **state)
{
    (void)state;
    struct attn_power_table table;
    size_t verdicts = 0, of = 0, refused = 0;
    double least = 1;
    assert_int_equal(attn_power_table_create(&view, &table), 0);
    assert_true(table.count > 0);
    for (size_t n = 0; n < table.count; n++) {
        const struct attn_power_line *line = &table.lines[n];
        for (size_t m = 0; m < n; m++)
            assert_true(strcmp(table.lines[m].op, line->op) != 0 ||
                        strcmp(table.lines[m].dtype, line->dtype) != 0);
        assert_int_equal(line->checks_made, 30 * line->verdicts);
        assert_int_equal(line->checks_apply, 31 * line->verdicts);
        assert_int_equal(strncmp(line->text, "scale_1.02 (", 12), 0);
        verdicts += line->verdicts;
        of += line->of;
        refused += line->refused;
        least = fmin(least, line->least);
    }
    assert_int_equal(of, 10 * verdicts);
    assert_int_equal(refused, 9 * verdicts - 1);
    assert_true(fabs(least - 0.8) < 1e-12);
    attn_power_table_free(&table);
}

/* What the table writes into a document. */
static char *written(int (*put)(FILE *out, const struct attn_view *view))
{
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    assert_non_null(out);
    assert_int_equal(put(out, &view), 0);
    fclose(out);
    return text;
}

static void documents(void **state)
{
    (void)state;
    char *markdown = written(attn_markdown_put_power), *html = written(attn_html_put_power);
    assert_non_null(strstr(markdown, "## Power"));
    assert_non_null(strstr(markdown, "80 %"));
    assert_non_null(strstr(markdown, "out\\|1.05 (1)"));
    assert_non_null(strstr(html, "<h2>Power</h2>"));
    assert_non_null(strstr(html, "scale_1.02 ("));
    /* On a narrow screen a cell that names a case has no label: one of each line. */
    size_t lines = 0, cases = 0;
    for (const char *at = html; (at = strstr(at, "<tr><td class=\"case\">")); at++)
        lines++;
    for (const char *at = html; (at = strstr(at, "<td class=\"case\">")); at++)
        cases++;
    assert_true(lines > 0 && lines == cases);
    free(markdown);
    free(html);
}

/* Records are not trusted, and those of earlier versions have no such fields. */
static void other_records(void **state)
{
    (void)state;
    char why[256];
    size_t i;
    json_t *record;
    struct attn_power_table table;
    attn_view_free(&view);
    json_array_foreach(run.records, i, record)
    {
        json_object_set_new(record, "checks_apply", json_integer(i % 2 ? 31 : -1));
        json_object_set_new(record, "power",
                            i % 3
                                ? json_pack("{s:s, s:i, s:{}}", "refused", "9", "of", 10, "missed")
                                : json_string("all"));
    }
    assert_int_equal(attn_view_create(run.records, run.machine, &view, why, sizeof why), 0);
    assert_int_equal(attn_power_table_create(&view, &table), 0);
    attn_power_table_free(&table);
    json_array_foreach(run.records, i, record) json_object_del(record, "checks_apply");
    char *markdown = written(attn_markdown_put_power);
    assert_string_equal(markdown, "");
    free(markdown);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(by_operator_and_type, setup, teardown),
        cmocka_unit_test_setup_teardown(documents, setup, teardown),
        cmocka_unit_test_setup_teardown(other_records, setup, teardown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
