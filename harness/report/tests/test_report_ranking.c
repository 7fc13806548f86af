/* SPDX-License-Identifier: Apache-2.0 */
/* test_report_ranking.c - the fastest backend of cases and families, and how sure that is. */
#include "report/ranking.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "report/text.h"
#include "report/writers.h"
#include "synthetic.h"

static struct attn_run_data run;
static struct attn_view view;
static struct attn_grid grid;
static struct attn_ranking ranking;

/* The ranking of `run` as it is now. */
static void build(void)
{
    char why[256];
    attn_ranking_free(&ranking);
    attn_grid_free(&grid);
    attn_view_free(&view);
    if (attn_view_create(run.records, run.machine, &view, why, sizeof why) != 0)
        fail_msg("%s", why);
    assert_int_equal(attn_grid_create(&view, ATTN_GRID_HOT, &grid), 0);
    assert_int_equal(attn_ranking_create(&grid, &ranking), 0);
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
    attn_ranking_free(&ranking);
    attn_grid_free(&grid);
    attn_view_free(&view);
    attn_run_release(&run);
    return 0;
}

static const char *label(size_t column)
{
    return column < grid.n_columns ? view.backends[grid.columns[column]].label : "none";
}

static const struct attn_rank *rank_of(const char *line)
{
    for (size_t i = 0; i < grid.n_lines; i++)
        if (strcmp(grid.lines[i].row->line, line) == 0)
            return &ranking.lines[i];
    fail_msg("%s has no line", line);
    return NULL;
}

static const struct attn_family *family_of(const char *name)
{
    for (size_t f = 0; f < ranking.n_families; f++)
        if (strlen(name) == ranking.families[f].length &&
            memcmp(ranking.families[f].name, name, strlen(name)) == 0)
            return &ranking.families[f];
    fail_msg("there is no family %s", name);
    return NULL;
}

/* Sets a field in the records of a backend, all or those of a case. */
static void change(const char *backend, const char *line, const char *key, const char *value)
{
    size_t i;
    json_t *record;
    json_array_foreach(run.records, i, record)
    {
        if (strcmp(attn_field_text(record, "backend"), backend) == 0 &&
            (!line || strcmp(attn_field_text(record, "case"), line) == 0))
            json_object_set_new(record, key, json_string(value));
    }
}

static void the_mean_of_ratios(void **state)
{
    (void)state;
    /* Two of equal error: it shrinks by the root of two, and degrees of freedom add. */
    const struct attn_ratio pair[] = {{2, 1, 4, 0.1, 6}, {8, 4, 16, 0.1, 6}};
    struct attn_ratio mean = attn_ratio_mean(pair, 2);
    assert_true(fabs(mean.ratio - 4) < 1e-12);
    assert_true(fabs(mean.error - 0.1 / sqrt(2)) < 1e-12 && fabs(mean.df - 12) < 1e-9);
    const double half = attn_student_t975(12) * 0.1 / sqrt(2);
    assert_true(fabs(log(mean.hi / 4) - half) < 1e-9 && fabs(log(4 / mean.lo) - half) < 1e-9);
    /* One alone stays what it is. */
    mean = attn_ratio_mean(pair, 1);
    assert_true(fabs(mean.ratio - 2) < 1e-12 && fabs(mean.df - 6) < 1e-9);
    /* An unknown error makes the whole unknown. */
    const struct attn_ratio unknown[] = {{2, 1, 4, 0.1, 6}, {2, 0, INFINITY, -1, 1}};
    mean = attn_ratio_mean(unknown, 2);
    assert_true(fabs(mean.ratio - 2) < 1e-12 && mean.lo == 0 && isinf(mean.hi));
    assert_true(isnan(attn_ratio_mean(unknown, 0).ratio));
}

static void the_first_of_a_case(void **state)
{
    (void)state;
    build();
    /* synthetic.c: 104 s / (s + 160) of onednn overtakes 88 s / (s + 90) of avx2 at 295. */
    const struct attn_rank *rank = rank_of("dk=64 hq=8 sq=128");
    assert_string_equal(label(rank->first), "avx2");
    assert_string_equal(label(rank->second), "onednn");
    assert_int_equal(rank->ranked, 4);
    assert_true(rank->clear && rank->ratio.lo > 1);
    const double expected = (88 * 128 / 218.0) / (104 * 128 / 288.0);
    assert_true(fabs(rank->ratio.ratio / expected - 1) < 0.05);
    rank = rank_of("dk=64 hq=8 sq=4096");
    assert_string_equal(label(rank->first), "onednn");
    /* An approximation is not ranked, nor is a wrong result, nor one without samples. */
    change("onednn", "dk=64 hq=8 sq=4096", "exactness", "approximate");
    change("avx2", "dk=64 hq=8 sq=128", "status", "fail");
    change("avx2", "dk=64 hq=8 sq=256", "samples_ns", "none");
    build();
    assert_string_equal(label(rank_of("dk=64 hq=8 sq=4096")->first), "avx2");
    assert_string_equal(label(rank_of("dk=64 hq=8 sq=128")->first), "onednn");
    assert_string_equal(label(rank_of("dk=64 hq=8 sq=256")->first), "onednn");
    assert_int_equal(rank_of("dk=64 hq=8 sq=256")->ranked, 3);
}

static void families(void **state)
{
    (void)state;
    change("naive", "dk=64 hq=8 sq=256", "name", "ends/s=256");
    change("avx2", "dk=64 hq=8 sq=256", "name", "ends/s=256");
    change("blas", "dk=64 hq=8 sq=256", "name", "ends/s=256");
    change("onednn", "dk=64 hq=8 sq=256", "name", "ends/s=256");
    build();
    const struct attn_family *family = family_of("ends/");
    assert_int_equal(family->cases, 1);
    family = family_of("seqlen");
    /* Sixteen but one: onednn is first in the six longest and, causal, in the only two that it does
     * not refuse; avx2 in the rest. */
    assert_int_equal(family->cases + family->alone, 15);
    size_t wins = 0;
    for (size_t c = 0; c < grid.n_columns; c++)
        wins += family->wins[c];
    assert_int_equal(wins, family->cases);
    assert_string_equal(label(family->first), "onednn");
    assert_string_equal(label(family->second), "avx2");
    assert_int_equal(family->wins[family->first], 8);
    assert_int_equal(family->wins[family->second], 7);
    assert_int_equal(family->shared, 9);
    assert_true(family->ratio.lo < family->ratio.ratio && family->ratio.ratio < family->ratio.hi);
    for (size_t f = 1; f < ranking.n_families; f++)
        assert_true(ranking.families[f].work <= ranking.families[f - 1].work);
    assert_int_equal(ranking.cases, 40);
}

/* Times of a backend in a case, as multiples of what they are. */
static void scale(const char *backend, const char *line, double by)
{
    size_t i, n, k;
    json_t *record, *round, *sample;
    json_array_foreach(run.records, i, record)
    {
        if (strcmp(attn_field_text(record, "case"), line) != 0 ||
            strcmp(attn_field_text(record, "backend"), backend) != 0 ||
            !json_object_get(record, "time_ns"))
            continue;
        json_t *time = json_object_get(record, "time_ns");
        json_object_set_new(time, "median", json_real(by * attn_field_number(time, "median")));
        json_array_foreach(json_object_get(record, "samples_ns"), n, round)
            json_array_foreach(round, k, sample)
                json_real_set(sample, by * json_number_value(sample));
    }
}

static const char *const all[] = {"null", "naive", "avx2", "blas", "onednn"};
enum { ALL = sizeof all / sizeof *all };

/* Case `line` a hundred thousand times as fast on all backends, and on `slow` only ten thousand. */
static void shrink_to_a_toy(const char *line, const char *slow)
{
    for (size_t b = 0; b < ALL; b++)
        scale(all[b], line, strcmp(all[b], slow) == 0 ? 1e-4 : 1e-5);
}

/* Of two that are next to the fastest in one case each, the one that is itself first in another. */
static void the_next_is_first_somewhere(void **state)
{
    (void)state;
    static const char *const lines[] = {"dk=64 hq=8 sq=128", "dk=64 hq=8 sq=4096"};
    for (size_t l = 0; l < 2; l++)
        for (size_t b = 0; b < ALL; b++)
            change(all[b], lines[l], "name", l ? "two/b" : "two/a");
    scale("blas", lines[1], 0.01);
    build();
    const struct attn_family *family = family_of("two/");
    assert_string_equal(label(family->first), "blas");
    assert_string_equal(label(family->second), "avx2"); /* onednn is faster in the mean */
    assert_int_equal(family->wins[family->first], 1);
    assert_int_equal(family->wins[family->second], 1);
}

/* Calls of some hundred nanoseconds do not weigh in the mean of a family beside real work. */
static void toys_do_not_weigh(void **state)
{
    (void)state;
    build();
    const double ratio = family_of("seqlen")->ratio.ratio;
    assert_string_equal(label(family_of("seqlen")->first), "onednn");
    size_t other = 0; /* one that somebody else wins */
    while (!attn_family_has(family_of("seqlen"), &grid.lines[other]) ||
           ranking.lines[other].first == grid.n_columns ||
           strcmp(label(ranking.lines[other].first), "avx2") != 0)
        other++;
    shrink_to_a_toy(grid.lines[other].row->line, "avx2");
    build();
    const struct attn_family *family = family_of("seqlen");
    assert_string_equal(label(family->first), "onednn");
    assert_int_equal(family->shared, 9); /* ten before */
    assert_true(fabs(family->ratio.ratio / ratio - 1) < 0.2);
    /* Nor do they make a backend the first, though all cases but one be such. */
    bool kept = false;
    for (size_t i = 0; i < grid.n_lines; i++) {
        const size_t first = ranking.lines[i].first;
        const bool keep = !kept && attn_family_has(family, &grid.lines[i]) &&
                          first < grid.n_columns && strcmp(label(first), "onednn") == 0 &&
                          grid.lines[i].cells[first]->median > 1e6;
        kept = kept || keep;
        for (int k = 0; k < 2 && !keep; k++)
            shrink_to_a_toy(grid.lines[i].row->line, "onednn");
    }
    build();
    assert_string_equal(label(family_of("seqlen")->first), "onednn");
    for (size_t i = 0; i < grid.n_lines; i++)
        shrink_to_a_toy(grid.lines[i].row->line, "avx2");
    build();
    assert_true(family_of("seqlen")->shared > 0); /* where there is nothing else */
}

/* Noise that hides the order leaves it unclear; so does a single round. */
static void the_unclear(void **state)
{
    (void)state;
    build();
    assert_true(ranking.clear > 30);
    attn_run_release(&run);
    run = synthetic_run((struct synthetic){.seed = 1, .noise = 2});
    build();
    assert_true(ranking.clear < 10);
    attn_run_release(&run);
    run = synthetic_run((struct synthetic){.seed = 1, .rounds = 1});
    build();
    assert_int_equal(ranking.clear, 0);
    assert_true(isinf(family_of("seqlen")->ratio.hi));
    for (size_t c = 0; c < grid.n_columns; c++) /* nobody knows, which is no tie */
        assert_false(family_of("seqlen")->ties[c]);
    for (size_t i = 0; i < grid.n_lines; i++)
        assert_false(ranking.lines[i].clear);
    /* Those that had no turns because they are far slower leave it clear, but not all that are 3
     * times as slow in one round. */
    for (int slow = 0; slow < 2; slow++) {
        size_t i, n, k;
        json_t *record, *round, *sample;
        json_array_foreach(run.records, i, record)
        {
            json_object_set_new(record, "live", json_pack("{s:s}", "reason", "has no turns"));
            if (slow && strcmp(attn_field_text(record, "backend"), "onednn") != 0)
                json_array_foreach(json_object_get(record, "samples_ns"), n, round)
                    json_array_foreach(round, k, sample)
                        json_real_set(sample, 20 * json_number_value(sample));
        }
        build();
        assert_int_equal(ranking.clear > 0, slow);
    }
}

/* Beside a first one with turns, processor time tells who is far slower: 3 times what the first
 * takes, by the same clock. */
static void far_by_processor(void **state)
{
    (void)state;
    static const struct {
        const char *clock;
        double times;
        bool clear;
    } cases[] = {{"thread", 3.1, true}, {"thread", 2.9, false}, {"wall", 3.1, false}};
    attn_run_release(&run);
    run = synthetic_run((struct synthetic){.seed = 1, .rounds = 1});
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        size_t i;
        json_t *record;
        json_array_foreach(run.records, i, record)
        {
            json_object_set_new(record, "live",
                                json_pack("{s:s, s:s, s:{s:f}}", "reason", "has no turns", "clock",
                                          cases[c].clock, "low_ns", "value", 100.0));
            json_object_set_new(record, "least_cpu_ns", json_real(100 * cases[c].times));
        }
        build();
        assert_int_equal(ranking.clear > 0, cases[c].clear);
    }
}

/* A case with one round does not hide how sure the others of its family are. */
static void one_round_among_others(void **state)
{
    (void)state;
    size_t i;
    json_t *record;
    build();
    const size_t shared = family_of("seqlen")->shared;
    json_array_foreach(run.records, i, record)
    {
        json_t *samples = json_object_get(record, "samples_ns");
        while (strcmp(attn_field_text(record, "case"), "dk=64 hq=8 sq=4096") == 0 &&
               json_array_size(samples) > 1)
            json_array_remove(samples, 1);
    }
    build();
    const struct attn_family *family = family_of("seqlen");
    assert_true(isinf(rank_of("dk=64 hq=8 sq=4096")->ratio.hi));
    assert_true(isfinite(family->ratio.hi) && family->ratio.lo > 0);
    assert_int_equal(family->shared, shared - 1);
}

static void the_pages(void **state)
{
    (void)state;
    char *text = NULL;
    size_t length;
    change("avx2", NULL, "backend", "a<b|c");
    build();
    const struct attn_report_parts parts = {.view = &view, .ranking = &ranking};
    FILE *out = open_memstream(&text, &length);
    attn_html_put_ranking(out, &parts);
    attn_markdown_put_ranking(out, &parts);
    fclose(out);
    assert_non_null(strstr(text, "Of 40 cases timed on two or more backends"));
    assert_non_null(strstr(text, "<td class=\"b win\">a&lt;b|c</td>"));
    assert_non_null(strstr(text, "| seqlen (single cases) | onednn | 8 of 16 | a&lt;b\\|c | "));
    assert_null(strstr(text, "a<b"));
    free(text);
    /* First in most cases, and behind in the mean. */
    ranking.families[0].ratio = (struct attn_ratio){.ratio = 0.5, .lo = 0.4, .hi = 0.6};
    memset(ranking.families[0].ties, 0, grid.n_columns * sizeof *ranking.families[0].ties);
    out = open_memstream(&text, &length);
    attn_html_put_ranking(out, &parts);
    attn_markdown_put_ranking(out, &parts);
    fclose(out);
    assert_non_null(strstr(text, "<td class=\"b unsure\">no one; "));
    assert_non_null(strstr(text, " | no one; "));
    free(text);
    /* One backend has nothing to be ranked with. */
    for (size_t i = json_array_size(run.records); i-- > 0;)
        if (strcmp(attn_field_text(json_array_get(run.records, i), "backend"), "blas") != 0)
            json_array_remove(run.records, i);
    build();
    out = open_memstream(&text, &length);
    attn_html_put_ranking(out, &parts);
    attn_markdown_put_ranking(out, &parts);
    fclose(out);
    assert_int_equal(length, 0);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_mean_of_ratios),
        cmocka_unit_test_setup_teardown(the_first_of_a_case, begin, end),
        cmocka_unit_test_setup_teardown(families, begin, end),
        cmocka_unit_test_setup_teardown(the_next_is_first_somewhere, begin, end),
        cmocka_unit_test_setup_teardown(toys_do_not_weigh, begin, end),
        cmocka_unit_test_setup_teardown(the_unclear, begin, end),
        cmocka_unit_test_setup_teardown(far_by_processor, begin, end),
        cmocka_unit_test_setup_teardown(one_round_among_others, begin, end),
        cmocka_unit_test_setup_teardown(the_pages, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
