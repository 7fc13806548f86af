/* SPDX-License-Identifier: Apache-2.0 */
/* test_changes.c - change points against a table made by Apache Otava (changes.json), and by hand.
 *
 *     test_changes TABLE
 */
#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "results/changes.h"

static const char *table;

static double number(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

static void near(double got, double want, double within)
{
    if (!(fabs(got - want) <= within * fabs(want)))
        fail_msg("%.17g, not %.17g", got, want);
}

static void check_series(const json_t *series)
{
    const json_t *list = json_object_get(series, "values");
    const json_t *wanted = json_object_get(series, "changes");
    const struct attn_change_rule rule = {(size_t)number(series, "window"), number(series, "p"),
                                          number(series, "margin")};
    const size_t n = json_array_size(list);
    double *values = calloc(n, sizeof *values);
    struct attn_change *changes = calloc(n, sizeof *changes);
    assert_true(values && changes);
    for (size_t i = 0; i < n; i++)
        values[i] = json_number_value(json_array_get(list, i));
    const size_t count = attn_changes_find(values, n, &rule, changes);
    assert_int_equal(count, json_array_size(wanted));
    for (size_t k = 0; k < count; k++) {
        double figures[4];
        for (size_t f = 0; f < 4; f++)
            figures[f] = json_number_value(json_array_get(json_array_get(wanted, k), f));
        assert_int_equal(changes[k].at, (size_t)figures[0]);
        near(changes[k].before, figures[1], 1e-12);
        near(changes[k].after, figures[2], 1e-12);
        if (figures[3] > 1e-30)
            near(changes[k].p, figures[3], 1e-6);
        else
            assert_true(changes[k].p < 1e-29);
    }
    free(values);
    free(changes);
}

static void test_table_of_otava(void **state)
{
    (void)state;
    json_error_t error;
    json_t *root = json_load_file(table, 0, &error);
    if (!root)
        fail_msg("%s, line %d: %s", table, error.line, error.text);
    size_t i, changes = 0;
    json_t *series;
    json_array_foreach(json_object_get(root, "series"), i, series)
    {
        check_series(series);
        changes += json_array_size(json_object_get(series, "changes"));
    }
    assert_true(i > 30 && changes > 60);
    json_decref(root);
}

static size_t find(const double *values, size_t n, double margin, struct attn_change *changes)
{
    const struct attn_change_rule rule = {ATTN_CHANGE_WINDOW, ATTN_CHANGE_P, margin};
    return attn_changes_find(values, n, &rule, changes);
}

static void test_margin(void **state)
{
    (void)state;
    double values[20];
    struct attn_change changes[20];
    for (size_t i = 0; i < 20; i++)
        values[i] = (i < 12 ? 1 : 1.04) + 1e-4 * (double)(i % 3);
    assert_int_equal(find(values, 20, 0.03, changes), 1);
    assert_int_equal(changes[0].at, 12);
    near(changes[0].after / changes[0].before, 1.04, 1e-3);
    assert_int_equal(find(values, 20, 0.05, changes), 0);
    for (size_t i = 12; i < 20; i++) /* as far down as 4 % is up */
        values[i] /= 1.04 * 1.04;
    assert_int_equal(find(values, 20, 0.03, changes), 1);
    assert_int_equal(find(values, 20, 0.05, changes), 0);
}

/* Every point that is returned meets the rule by its own sides: the point before a dropped one,
 * too. */
static void test_neighbours_of_a_dropped_point(void **state)
{
    (void)state;
    /* 1.5 % up, then 2.5 % up, then 1.5 % up: with a margin of 3 % the first is dropped, and what
     * is left of the others must be judged by the sides that they then have. */
    double values[40];
    struct attn_change changes[40];
    for (size_t i = 0; i < 40; i++)
        values[i] = (i < 10 ? 1 : i < 20 ? 1.015 : i < 30 ? 1.04 : 1.055) + 1e-4 * (double)(i % 2);
    const size_t count = find(values, 40, 0.03, changes);
    assert_int_equal(count, 1);
    double before = 0, after = 0;
    for (size_t i = 0; i < 40; i++)
        *(i < changes[0].at ? &before : &after) += values[i];
    near(changes[0].before, before / (double)changes[0].at, 1e-12);
    near(changes[0].after, after / (double)(40 - changes[0].at), 1e-12);
    assert_true(changes[0].after / changes[0].before > 1.03);
}

static void test_nothing_to_find(void **state)
{
    (void)state;
    const double values[] = {1, 2};
    struct attn_change changes[2];
    assert_int_equal(find(values, 0, 0, changes), 0);
    assert_int_equal(find(values, 1, 0, changes), 0);
    assert_int_equal(find(values, 2, 0, changes), 0);
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    table = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table_of_otava),
        cmocka_unit_test(test_margin),
        cmocka_unit_test(test_neighbours_of_a_dropped_point),
        cmocka_unit_test(test_nothing_to_find),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
