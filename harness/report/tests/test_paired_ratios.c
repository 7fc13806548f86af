/* SPDX-License-Identifier: Apache-2.0 */
/* test_paired_ratios.c - ratios of backends that took turns, and what the documents say of them. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "report/paired.h"
#include "report/ranking.h"
#include "report/speedup.h"
#include "report/text.h"
#include "report/writers.h"
#include "synthetic.h"

enum { ROUNDS = 6 };

static struct attn_run_data run;
static struct attn_view view;
static struct attn_grid grid;

static int begin(void **state)
{
    (void)state;
    run = synthetic_small();
    return 0;
}

static int end(void **state)
{
    (void)state;
    attn_grid_free(&grid);
    attn_view_free(&view);
    attn_run_release(&run);
    return 0;
}

/* Gives a backend turns in all its hot results: ratios to the anchor, 0 where it missed a round. */
static void take_turns(const char *backend, const char *anchor, const double ratios[ROUNDS])
{
    size_t i;
    json_t *record;
    json_array_foreach(run.records, i, record)
    {
        if (strcmp(attn_field_text(record, "backend"), backend) != 0 ||
            strcmp(attn_field_text(record, "cache"), "hot") != 0)
            continue;
        json_t *rounds = json_array();
        for (int r = 0; r < ROUNDS; r++)
            if (ratios[r] > 0)
                json_array_append_new(rounds,
                                      json_pack("{s:i, s:f}", "round", r, "ratio", ratios[r]));
        json_object_set_new(record, "live",
                            json_pack("{s:{s:s, s:s, s:f}, s:o}", "paired", "anchor", anchor,
                                      "anchor_options", "", "ratio", ratios[0], "in_rounds",
                                      rounds));
    }
}

static void build(void)
{
    char why[256];
    attn_grid_free(&grid);
    attn_view_free(&view);
    if (attn_view_create(run.records, run.machine, &view, why, sizeof why) != 0)
        fail_msg("%s", why);
    assert_int_equal(attn_grid_create(&view, ATTN_GRID_HOT, &grid), 0);
    assert_true(grid.n_lines > 0);
}

static size_t column_of(const char *name)
{
    for (size_t c = 0; c < grid.n_columns; c++)
        if (strcmp(view.backends[grid.columns[c]].label, name) == 0)
            return c;
    fail_msg("%s has no column", name);
    return 0;
}

static const struct attn_view_row *row_of(const char *name)
{
    return grid.lines[0].cells[column_of(name)];
}

static const double one[ROUNDS] = {1, 1, 1, 1, 1, 1};

static void test_a_ratio_goes_by_way_of_the_anchor(void **state)
{
    (void)state;
    struct attn_ratio ratio;
    /* Both change from round to round, and their ratio is 2 in each. blas missed a round. */
    take_turns("naive", "avx2", (const double[ROUNDS]){3.0, 3.3, 3.6, 3.9, 4.2, 4.5});
    take_turns("blas", "avx2", (const double[ROUNDS]){1.5, 1.65, 1.8, 0, 2.1, 2.25});
    take_turns("avx2", "avx2", one);
    build();
    assert_true(attn_paired_ratio_of(row_of("naive"), row_of("blas"), &ratio));
    assert_true(fabs(ratio.ratio - 2) < 1e-9 && fabs(ratio.lo - 2) < 1e-9);
    assert_true(fabs(ratio.hi - 2) < 1e-9 && ratio.error < 1e-9 && ratio.df == 4);
    assert_true(attn_paired_ratio_of(row_of("naive"), row_of("avx2"), &ratio));
    assert_true(fabs(ratio.ratio - 3.75) < 1e-9 && ratio.lo < 3.75 && ratio.hi > 3.75);
    assert_true(ratio.lo >= 3 && ratio.hi <= 4.5);
}

static void test_other_anchors_do_not_compare(void **state)
{
    (void)state;
    struct attn_ratio ratio;
    take_turns("naive", "avx2", one);
    take_turns("blas", "onednn", one);
    build();
    assert_false(attn_paired_ratio_of(row_of("naive"), row_of("blas"), &ratio));
    assert_false(attn_paired_ratio_of(row_of("naive"), row_of("avx2"), &ratio)); /* no turns */
    assert_false(attn_paired_ratio_of(NULL, row_of("avx2"), &ratio));
    take_turns("blas", "avx2", (const double[ROUNDS]){0, 0, 0, 0, 0, 2});
    take_turns("naive", "avx2", (const double[ROUNDS]){1, 1, 1, 1, 1, 0});
    build();
    assert_false(attn_paired_ratio_of(row_of("naive"), row_of("blas"), &ratio));
}

static void test_one_round_has_no_interval(void **state)
{
    (void)state;
    struct attn_ratio ratio;
    take_turns("naive", "avx2", (const double[ROUNDS]){2, 0, 0, 0, 0, 0});
    take_turns("avx2", "avx2", one);
    build();
    assert_true(attn_paired_ratio_of(row_of("naive"), row_of("avx2"), &ratio));
    assert_true(ratio.ratio == 2 && ratio.lo == 0 && isinf(ratio.hi) && ratio.error < 0);
}

/* Marks rounds of a backend. */
static void disturb(const char *backend, int from, int to)
{
    size_t i;
    json_t *record;
    json_array_foreach(run.records, i,
                       record) if (strcmp(attn_field_text(record, "backend"), backend) ==
                                   0) for (int r = from; r < to; r++)
        json_object_set_new(json_array_get(attn_field_at(record, "live.in_rounds"), (size_t)r),
                            "disturbed", json_true());
}

static void test_disturbed_rounds_are_left_out(void **state)
{
    (void)state;
    struct attn_ratio ratio;
    take_turns("naive", "avx2", (const double[ROUNDS]){2, 2, 2, 3, 3, 3});
    take_turns("avx2", "avx2", one);
    disturb("naive", 3, 5);
    disturb("avx2", 4, 6);
    build();
    assert_true(attn_paired_ratio_of(row_of("naive"), row_of("avx2"), &ratio));
    assert_true(ratio.ratio == 2 && fabs(ratio.hi - 2) < 1e-9 && ratio.df == 2);
    disturb("avx2", 0, 1); /* two are left: too few */
    build();
    assert_true(attn_paired_ratio_of(row_of("naive"), row_of("avx2"), &ratio));
    assert_true(ratio.ratio == 2.5 && ratio.hi > 2.9 && ratio.df == 5);
}

/* Every ratio of the report is the paired one where there is one. */
static void test_speed_ups_are_paired(void **state)
{
    (void)state;
    struct attn_speedup speedup;
    char why[256];
    take_turns("naive", "avx2", (const double[ROUNDS]){70, 70, 70, 70, 70, 70});
    take_turns("avx2", "avx2", one);
    build();
    assert_int_equal(attn_speedup_create(&view, "naive", &speedup, why, sizeof why), 0);
    assert_true(fabs(attn_speedup_of(&speedup, 0, column_of("avx2")).ratio - 70) < 1e-9);
    const double apart = attn_speedup_of(&speedup, 0, column_of("blas")).ratio;
    assert_true(isfinite(apart) && apart != 70);
    attn_speedup_free(&speedup);
}

static char *written(int (*put)(FILE *, const struct attn_view *))
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    assert_int_equal(put(out, &view), 0);
    fclose(out);
    return text;
}

static void test_documents_show_ratios_to_the_best(void **state)
{
    (void)state;
    /* blas was a little faster in turns than the anchor. */
    take_turns("naive", "avx2", (const double[ROUNDS]){1.9, 1.92, 1.88, 1.9, 1.9, 1.9});
    take_turns("blas", "avx2", (const double[ROUNDS]){0.95, 0.95, 0.95, 0.95, 0.95, 0.95});
    take_turns("avx2", "avx2", one);
    build();
    assert_int_equal(attn_paired_best(&grid, 0), column_of("blas"));
    const struct attn_paired_widths widths = attn_paired_widths_of(&grid);
    assert_true(widths.ratios >= 2 && widths.median >= 0 && widths.median < 0.05);
    char *html = written(attn_html_put_paired), *markdown = written(attn_markdown_put_paired);
    const char *const texts[] = {html, markdown};
    for (size_t t = 0; t < 2; t++) {
        assert_non_null(strstr(texts[t], "Ratios to the best backend"));
        assert_non_null(strstr(texts[t], "The median width of "));
        assert_non_null(strstr(texts[t], "2.000 (1.9")); /* 1.88 and 1.92 over 0.95 */
        assert_non_null(strstr(texts[t], "1.053 (1.053\xe2\x80\x93"
                                         "1.053)"));
    }
    free(html);
    free(markdown);
}

/* Whether the time of a backend is bold in the table of results. */
static bool is_bold(const char *html, const char *name)
{
    char start[64];
    snprintf(start, sizeof start, "<td class=\"b best\" data-v=\"%.6g\">", row_of(name)->median);
    return strstr(html, start) != NULL;
}

/* Bold goes by turns, whatever the medians say, and ties are all bold. */
static void test_bold_goes_by_turns(void **state)
{
    (void)state;
    static const double slower[ROUNDS] = {1.04, 1.05, 1.04, 1.03, 1.04, 1.04};
    static const double tied[ROUNDS] = {1.04, 0.96, 1.02, 0.98, 1.03, 0.99};
    take_turns("blas", "blas", one); /* slower than avx2 by its medians */
    take_turns("avx2", "blas", slower);
    take_turns("onednn", "blas", slower);
    build();
    assert_true(row_of("avx2")->median < row_of("blas")->median);
    assert_false(attn_row_ties(row_of("avx2"), row_of("blas")));
    assert_false(attn_row_ties(row_of("naive"), row_of("blas")));
    assert_true(attn_row_ties(row_of("blas"), row_of("blas")));
    assert_false(attn_row_ties(row_of("blas"), NULL));
    char *html = written(attn_html_put_results);
    assert_true(is_bold(html, "blas") && !is_bold(html, "avx2"));
    assert_non_null(strstr(html, "<small>1.04 in turns</small>"));
    free(html);
    take_turns("avx2", "blas", tied);
    take_turns("onednn", "blas", tied);
    build();
    html = written(attn_html_put_results);
    assert_true(is_bold(html, "blas") && is_bold(html, "avx2") && !is_bold(html, "naive"));
    assert_null(strstr(html, " in turns</small>"));
    free(html);
}

static void test_without_turns_nothing_is_written(void **state)
{
    (void)state;
    build();
    assert_int_equal(attn_paired_best(&grid, 0), grid.n_columns);
    assert_true(isnan(attn_paired_widths_of(&grid).median));
    char *html = written(attn_html_put_paired), *markdown = written(attn_markdown_put_paired);
    assert_string_equal(html, "");
    assert_string_equal(markdown, "");
    free(html);
    free(markdown);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_ratio_goes_by_way_of_the_anchor, begin, end),
        cmocka_unit_test_setup_teardown(test_other_anchors_do_not_compare, begin, end),
        cmocka_unit_test_setup_teardown(test_one_round_has_no_interval, begin, end),
        cmocka_unit_test_setup_teardown(test_disturbed_rounds_are_left_out, begin, end),
        cmocka_unit_test_setup_teardown(test_speed_ups_are_paired, begin, end),
        cmocka_unit_test_setup_teardown(test_documents_show_ratios_to_the_best, begin, end),
        cmocka_unit_test_setup_teardown(test_bold_goes_by_turns, begin, end),
        cmocka_unit_test_setup_teardown(test_without_turns_nothing_is_written, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
