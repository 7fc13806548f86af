/* SPDX-License-Identifier: Apache-2.0 */
/* test_report_speedup.c - the choice of a baseline, and ratios and means over it. */
#include "report/speedup.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "report/text.h"
#include "synthetic.h"

static struct attn_run_data run;
static struct attn_view view;
static struct attn_speedup speedup;

/* The speed-ups of `run` as it is now. */
static void build(const char *wanted)
{
    char why[256];
    attn_speedup_free(&speedup);
    attn_view_free(&view);
    if (attn_view_create(run.records, run.machine, &view, why, sizeof why) != 0 ||
        attn_speedup_create(&view, wanted, &speedup, why, sizeof why) != 0)
        fail_msg("%s", why);
}

static int begin(void **state)
{
    (void)state;
    run = synthetic_run((struct synthetic){.seed = 1});
    return 0;
}

static int end(void **state)
{
    (void)state;
    attn_speedup_free(&speedup);
    attn_view_free(&view);
    attn_run_release(&run);
    return 0;
}

static const char *label(size_t column)
{
    return view.backends[speedup.grid.columns[column]].label;
}

static size_t column_of(const char *name)
{
    for (size_t c = 0; c < speedup.grid.n_columns; c++)
        if (strcmp(label(c), name) == 0)
            return c;
    fail_msg("%s has no column", name);
    return 0;
}

static size_t line_of(const char *line)
{
    for (size_t i = 0; i < speedup.grid.n_lines; i++)
        if (strcmp(speedup.grid.lines[i].row->line, line) == 0)
            return i;
    fail_msg("%s has no line", line);
    return 0;
}

/* Sets a field, or with NULL removes every record, of a backend from its `from`-th on. */
static void change(const char *backend, size_t from, const char *key, const char *value)
{
    size_t seen = 0;
    for (size_t i = 0; i < json_array_size(run.records);) {
        json_t *record = json_array_get(run.records, i);
        bool meant = strcmp(attn_field_text(record, "backend"), backend) == 0 && seen++ >= from;
        if (meant && !key) {
            json_array_remove(run.records, i);
            continue;
        }
        if (meant)
            json_object_set_new(record, key, json_string(value));
        i++;
    }
}

static void the_default_baseline(void **state)
{
    (void)state;
    build(NULL);
    assert_string_equal(label(speedup.baseline), "naive");
    assert_true(speedup.chosen);
    /* An approximation is nothing to measure others by; of the rest blas is the slowest. */
    change("naive", 0, "exactness", "approximate");
    build(NULL);
    assert_string_equal(label(speedup.baseline), "blas");
    /* Nor is what was timed in half of the cases or less, be it ever so slow. */
    change("naive", 0, "exactness", "exact");
    change("naive", 40, NULL, NULL);
    build(NULL);
    assert_string_equal(label(speedup.baseline), "blas");
}

static void a_named_baseline(void **state)
{
    (void)state;
    char why[256] = "";
    struct attn_speedup other;
    build("onednn");
    assert_string_equal(label(speedup.baseline), "onednn");
    assert_false(speedup.chosen);
    assert_int_equal(attn_speedup_create(&view, "null", &other, why, sizeof why), 1);
    assert_string_equal(why, "the baseline 'null' was not timed in this run; these were: onednn "
                             "avx2 naive blas");
    change("avx2", 0, "options", "tile=64");
    build("avx2:tile=64");
    assert_string_equal(label(speedup.baseline), "avx2:tile=64");
    build("avx2");
    assert_string_equal(label(speedup.baseline), "avx2:tile=64");
}

static void no_baseline(void **state)
{
    (void)state;
    char why[256] = "";
    struct attn_speedup other;
    change("naive", 0, NULL, NULL);
    change("blas", 0, NULL, NULL);
    change("onednn", 0, NULL, NULL);
    build(NULL);
    assert_int_equal(speedup.grid.n_columns, 1);
    assert_int_equal(speedup.baseline, 1);
    json_array_clear(run.records);
    build(NULL);
    assert_int_equal(speedup.baseline, speedup.grid.n_columns);
    assert_int_equal(attn_speedup_create(&view, "avx2", &other, why, sizeof why), 1);
    assert_non_null(strstr(why, "nothing was timed"));
}

static void ratios(void **state)
{
    (void)state;
    build(NULL);
    size_t avx2 = column_of("avx2"), line = line_of("dk=64 hq=8 sq=512");
    struct attn_ratio r = attn_speedup_of(&speedup, line, avx2);
    /* Both rates as the made-up run has them, times within some percent. */
    double want = 88 * 512.0 / (512 + 90) / 2.1;
    assert_true(fabs(r.ratio / want - 1) < 0.05);
    assert_true(r.lo < r.ratio && r.ratio < r.hi && r.hi / r.lo < 1.2);
    r = attn_speedup_of(&speedup, line, speedup.baseline);
    assert_true(r.ratio == 1 && r.lo < 1 && r.hi > 1);
    /* naive was stopped by the budget there. */
    assert_true(isnan(attn_speedup_of(&speedup, line_of("dk=64 hq=8 sq=8192"), avx2).ratio));
    /* Quick and wrong is no speed-up. */
    change("avx2", 0, "status", "fail");
    build("naive");
    r = attn_speedup_of(&speedup, line_of("dk=64 hq=8 sq=512"), column_of("avx2"));
    assert_true(isnan(r.ratio));
}

static void means(void **state)
{
    (void)state;
    build(NULL);
    size_t avx2 = column_of("avx2"), first = line_of("dk=64 hq=8 sq=128");
    assert_true(attn_grid_starts_group(&speedup.grid, first));
    size_t last = attn_speedup_group_end(&speedup, first);
    assert_int_equal(last - first, 16); /* eight lengths, full and causal */
    double product = 1, least = INFINITY, greatest = 0;
    size_t cases = 0;
    for (size_t i = first; i < last; i++) {
        double ratio = attn_speedup_of(&speedup, i, avx2).ratio;
        if (isnan(ratio))
            continue;
        product *= ratio;
        cases++;
        least = fmin(least, ratio);
        greatest = fmax(greatest, ratio);
    }
    struct attn_speedup_mean mean = attn_speedup_mean(&speedup, first, last, avx2);
    assert_int_equal(cases, 12);
    assert_int_equal(mean.cases, 12);
    assert_true(fabs(mean.mean / pow(product, 1 / 12.0) - 1) < 1e-12);
    assert_true(mean.least == least && mean.greatest == greatest);
    size_t late = line_of("dk=64 hq=8 sq=8192");
    mean = attn_speedup_mean(&speedup, late, late + 1, avx2);
    assert_true(mean.cases == 0 && isnan(mean.mean));
    assert_true(attn_speedup_any(&speedup, first, last));
    assert_false(attn_speedup_any(&speedup, late, late + 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_default_baseline, begin, end),
        cmocka_unit_test_setup_teardown(a_named_baseline, begin, end),
        cmocka_unit_test_setup_teardown(no_baseline, begin, end),
        cmocka_unit_test_setup_teardown(ratios, begin, end),
        cmocka_unit_test_setup_teardown(means, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
