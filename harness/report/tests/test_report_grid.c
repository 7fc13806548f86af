/* SPDX-License-Identifier: Apache-2.0 */
/* test_report_grid.c - results by case and backend, and skips by reason, from a made-up run. */
#include "report/grid.h"

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

static int setup(void **state)
{
    char why[256];
    (void)state;
    run = synthetic_run((struct synthetic){.seed = 1});
    return attn_view_create(run.records, run.machine, &view, why, sizeof why);
}

static int teardown(void **state)
{
    (void)state;
    attn_view_free(&view);
    attn_run_release(&run);
    return 0;
}

static const struct attn_grid_line *line_of(const struct attn_grid *grid, const char *name)
{
    const struct attn_grid_line *found = NULL;
    for (size_t i = 0; i < grid->n_lines; i++)
        if (strcmp(grid->lines[i].row->name, name) == 0) {
            assert_null(found);
            found = &grid->lines[i];
        }
    return found;
}

/* The result of a backend on a line. */
static const struct attn_view_row *cell_of(const struct attn_grid *grid, const char *name,
                                           const char *backend)
{
    const struct attn_grid_line *line = line_of(grid, name);
    for (size_t c = 0; c < grid->n_columns; c++)
        if (strcmp(view.backends[grid->columns[c]].name, backend) == 0)
            return line->cells[c];
    fail();
    return NULL;
}

static void hot_and_cold(void **state)
{
    (void)state;
    struct attn_grid grid;
    assert_int_equal(attn_grid_create(&view, ATTN_GRID_HOT, &grid), 0);
    assert_int_equal(grid.n_lines, 40);
    assert_int_equal(grid.n_columns, 4); /* without the one that computes nothing */
    for (size_t c = 0; c < grid.n_columns; c++)
        assert_true(view.backends[grid.columns[c]].counted);
    const struct attn_grid_line *line = line_of(&grid, "seqlen_h8_s1024_d64");
    for (size_t c = 0; c < 4; c++) {
        assert_string_equal(line->cells[c]->cache, "hot");
        assert_int_equal(line->cells[c]->backend, grid.columns[c]);
    }
    assert_string_equal(attn_row_mark(cell_of(&grid, "seqlen_h8_s16384_d64", "naive")), "budget");
    attn_grid_free(&grid);

    assert_int_equal(attn_grid_create(&view, ATTN_GRID_COLD, &grid), 0);
    assert_int_equal(grid.n_lines, 26);
    assert_null(line_of(&grid, "seqlen_h8_s512_d64"));
    assert_string_equal(cell_of(&grid, "heads_h2_s1024_d64", "avx2")->cache, "cold");
    /* A result that failed says so here as well. */
    assert_string_equal(attn_row_mark(cell_of(&grid, "dim_h8_s1024_d40", "onednn")), "FAIL");
    attn_grid_free(&grid);

    assert_int_equal(attn_grid_create(&view, ATTN_GRID_CHECKS, &grid), 0);
    assert_int_equal(grid.n_lines, 40);
    attn_grid_free(&grid);
}

/* Cases of one file stand together, those with most work first. */
static void groups(void **state)
{
    (void)state;
    static const char *const expected[] = {"seqlen", "dim", "heads"};
    struct attn_grid grid;
    size_t found = 0;
    assert_int_equal(attn_grid_create(&view, ATTN_GRID_HOT, &grid), 0);
    for (size_t i = 0; i < grid.n_lines; i++) {
        if (!attn_grid_starts_group(&grid, i))
            continue;
        assert_in_range(found, 0, 2);
        assert_int_equal(grid.lines[i].group_length, strlen(expected[found]));
        assert_memory_equal(grid.lines[i].group, expected[found], strlen(expected[found]));
        found++;
    }
    assert_int_equal(found, 3);
    attn_grid_free(&grid);
}

/* A group without a time comes last, whatever its work. */
static void timed_groups_first(void **state)
{
    (void)state;
    char why[256];
    struct attn_view two;
    struct attn_grid grid;
    json_t *records = json_pack(
        "[{s:s,s:s,s:s,s:s,s:s,s:s,s:f},{s:s,s:s,s:s,s:s,s:s,s:s,s:f,s:[[f]],s:{s:f}}]", "type",
        "bench", "id", "1", "backend", "a", "status", "skip", "name", "large_1", "cache", "hot",
        "flops", 1e12, "type", "bench", "id", "2", "backend", "a", "status", "pass", "name",
        "small_1", "cache", "hot", "flops", 1e3, "samples_ns", 5.0, "time_ns", "median", 5.0);
    assert_non_null(records);
    assert_int_equal(attn_view_create(records, NULL, &two, why, sizeof why), 0);
    assert_int_equal(attn_grid_create(&two, ATTN_GRID_HOT, &grid), 0);
    assert_int_equal(grid.n_lines, 2);
    assert_string_equal(grid.lines[0].row->name, "small_1");
    attn_grid_free(&grid);
    attn_view_free(&two);
    json_decref(records);
}

/* A backend of which nothing was timed says why in tables of results, beside others. */
static void untimed_columns(void **state)
{
    (void)state;
    static const enum attn_grid_kind kinds[] = {ATTN_GRID_HOT, ATTN_GRID_RESULTS, ATTN_GRID_COLD};
    static const size_t columns[2][3] = {{1, 2, 0}, {0, 0, 0}};
    for (size_t none = 0; none < 2; none++) {
        char why[256];
        struct attn_view few;
        struct attn_grid grid;
        json_t *records = json_pack(
            "[{s:s,s:s,s:s,s:s},{s:s,s:s,s:s,s:s},{s:s,s:s,s:s,s:s,s:s},"
            "{s:s,s:s,s:s,s:s,s:s,s:[[f]],s:{s:f}}]",
            "type", "verify", "id", "1", "backend", "a", "status", "pass", "type", "verify", "id",
            "1", "backend", "b", "status", "pass", "type", "untimed", "id", "1", "backend", "a",
            "status", "pass", "reason", "interrupted", "type", "bench", "id", "1", "backend", "b",
            "status", "pass", "cache", "hot", "samples_ns", 5.0, "time_ns", "median", 5.0);
        assert_non_null(records);
        if (none)
            json_array_remove(records, json_array_size(records) - 1);
        assert_int_equal(attn_view_create(records, NULL, &few, why, sizeof why), 0);
        for (size_t k = 0; k < 3; k++) {
            assert_int_equal(attn_grid_create(&few, kinds[k], &grid), 0);
            assert_int_equal(grid.n_columns, columns[none][k]);
            if (grid.n_columns == 2) { /* the one with a timing stands first */
                assert_string_equal(few.backends[grid.columns[0]].name, "b");
                assert_string_equal(attn_row_mark(grid.lines[0].cells[1]), "untimed");
                assert_string_equal(grid.lines[0].cells[1]->untimed, "interrupted");
            }
            attn_grid_free(&grid);
        }
        attn_view_free(&few);
        json_decref(records);
    }
}

static void nothing_timed(void **state)
{
    (void)state;
    struct attn_grid grid;
    const struct attn_view empty = {0};
    assert_int_equal(attn_grid_create(&empty, ATTN_GRID_HOT, &grid), 0);
    assert_int_equal(grid.n_lines + grid.n_columns, 0);
    attn_grid_free(&grid);
    struct attn_skips skips;
    assert_int_equal(attn_skips_create(&empty, &skips), 0);
    assert_int_equal(skips.count, 0);
    attn_skips_free(&skips);
}

/* Numbers apart, equal reasons are one; digits inside words count. */
static void skips_by_reason(void **state)
{
    (void)state;
    static const char *const reasons[] = {
        "budget: a run is predicted to take 2.5 s, the limit is 1 s",
        "only f32 is implemented",
        "budget: a run is predicted to take 17 s, the limit is 1 s",
        "only f16 is implemented",
        "only f16 is implemented",
        "only f16 is implemented",
        "",
    };
    json_t *records = json_array();
    struct attn_view few;
    struct attn_skips skips;
    char why[256];
    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++) {
        const char id[] = {(char)('a' + i), '\0'};
        json_array_append_new(records, json_pack("{s:s,s:s,s:s,s:s,s:s}", "type", "verify", "id",
                                                 id, "backend", i % 2 ? "b" : "a", "status", "skip",
                                                 "reason", reasons[i]));
    }
    assert_int_equal(attn_view_create(records, NULL, &few, why, sizeof why), 0);
    assert_int_equal(attn_skips_create(&few, &skips), 0);
    assert_int_equal(skips.count, 4);
    assert_string_equal(skips.items[0].reason, "only f16 is implemented");
    assert_int_equal(skips.items[0].total, 3);
    assert_int_equal(skips.items[0].counts[0], 1);
    assert_int_equal(skips.items[0].counts[1], 2);
    assert_string_equal(skips.items[1].reason,
                        "budget: a run is predicted to take up to 17 s, the limit is 1 s");
    assert_int_equal(skips.items[1].total, 2);
    assert_string_equal(skips.items[2].reason, "no reason given");
    attn_skips_free(&skips);
    attn_view_free(&few);
    json_decref(records);
}

/* What two reasons of a run that differ in numbers are joined to. */
static void joined_is(const char *a, const char *b, const char *expected)
{
    char why[256];
    struct attn_view two;
    struct attn_skips skips;
    json_t *records = json_pack("[{s:s,s:s,s:s,s:s,s:s},{s:s,s:s,s:s,s:s,s:s}]", "type", "verify",
                                "id", "1", "backend", "a", "status", "skip", "reason", a, "type",
                                "verify", "id", "2", "backend", "a", "status", "skip", "reason", b);
    assert_int_equal(attn_view_create(records, NULL, &two, why, sizeof why), 0);
    assert_int_equal(attn_skips_create(&two, &skips), 0);
    assert_int_equal(skips.count, 1);
    assert_string_equal(skips.items[0].reason, expected);
    attn_skips_free(&skips);
    attn_view_free(&two);
    json_decref(records);
}

/* The largest is said, whichever comes first; over the least of several is over any of them. */
static void largest(void **state)
{
    (void)state;
    char longest[300], expected[256];
    joined_is("took 12 s, over 9.5 times N", "took 3 s, over 11 times N",
              "took up to 12 s, over 9.5 times N");
    joined_is("9 heads of f32", "10 heads of f32", "up to 10 heads of f32");
    joined_is("needs 2 GiB", "needs 2 GiB", "needs 2 GiB");
    /* Without room for the words, the end goes. */
    memset(longest, 'x', sizeof longest);
    memcpy(longest, "9 ", 2);
    longest[sizeof longest - 1] = '\0';
    snprintf(expected, sizeof expected, "up to %s", longest);
    char shorter[sizeof longest];
    memcpy(shorter, longest, sizeof longest);
    shorter[0] = '1';
    joined_is(longest, shorter, expected);
    joined_is("1 and 2", "1 and 300", "1 and up to 300");
}

static void marks(void **state)
{
    (void)state;
    struct attn_view_row row = {.status = ATTN_SKIP, .reason = "needs 412 GiB, have 24"};
    assert_string_equal(attn_row_mark(NULL), "not run");
    assert_string_equal(attn_row_mark(&row), "memory");
    row.reason = "the budget of registers is spent";
    assert_string_equal(attn_row_mark(&row), "n/a");
    row.status = ATTN_OOM;
    assert_string_equal(attn_row_mark(&row), "oom");
    row.status = ATTN_PASS;
    assert_string_equal(attn_row_mark(&row), "untimed");
}

static void labels(void **state)
{
    (void)state;
    char why[256];
    struct attn_view one;
    json_t *records =
        json_pack("[{s:s,s:s,s:s,s:s,s:s,s:s}]", "type", "verify", "id", "1", "backend", "a",
                  "status", "pass", "name", "pack", "case",
                  "data=/home/packs/l0.safetensors mask=len sha256=0123456789abcdef0123 sq=4");
    assert_int_equal(attn_view_create(records, NULL, &one, why, sizeof why), 0);
    assert_string_equal(one.rows[0].label, "pack: data=l0.safetensors mask=len "
                                           "sha256=0123456789ab sq=4");
    attn_view_free(&one);
    json_decref(records);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hot_and_cold),  cmocka_unit_test(timed_groups_first),
        cmocka_unit_test(groups),        cmocka_unit_test(untimed_columns),
        cmocka_unit_test(nothing_timed), cmocka_unit_test(skips_by_reason),
        cmocka_unit_test(marks),         cmocka_unit_test(labels),
        cmocka_unit_test(largest),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
