/* SPDX-License-Identifier: Apache-2.0 */
/* test_block.c - which cases a budget is spent on first. */
#include <math.h>

#include "bench/block.h"
#include "case/tests/case_test.h"

/* With nine more small ones, or none. */
static struct attn_case_list mixed(bool many)
{
    struct attn_case_list list = {0};
    char why[512];
    static const char *const lines[] = {
        "a: s=20 d=8",                 /* small */
        "b: h=8 s=512 d=64",           /* 6 ms */
        "c: h=2 s=8 d=8",              /* small */
        "d: h=8 s=128 d=64",           /* 0.4 ms */
        "e: h=12 sq=1 sk=1024 d=64",   /* a decode step that reads 6 MB */
        "f: h=8 s=128 d=64 scale=0.1", /* as d */
        "g: h=8 s=128 d=64 op=nystrom landmarks=64 start=head",
        "h: h=4 s=256 d=64 op=attention_backward" /* 1.6 ms */
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        assert_int_equal(try_line(lines[i], &list, why), 0);
    if (many)
        assert_int_equal(try_line("i: s=2,3,4,5,6,7,9,10,11 d=8", &list, why), 0);
    return list;
}

static void test_plain_cases_come_first_and_calls_last(void **state)
{
    (void)state;
    struct attn_case_list list = mixed(true);
    char order[18] = "";
    assert_int_equal(attn_block_order(&list), 0);
    for (size_t i = 0; i < list.count; i++)
        order[i] = list.items[i].name[0];
    assert_string_equal(order, "dfehbgaciiiiiiiii");
    attn_case_list_free(&list);
}

/* They cost nothing, and a heavy one may take all there is. */
static void test_few_small_cases_come_first(void **state)
{
    (void)state;
    struct attn_session session = {
        .cases = mixed(false), .settings.budget_s = 10, .roster.count = 10};
    char order[9] = "";
    assert_int_equal(attn_block_order(&session.cases), 0);
    for (size_t i = 0; i < session.cases.count; i++)
        order[i] = session.cases.items[i].name[0];
    assert_string_equal(order, "acdfehbg");
    struct attn_block block;
    attn_block_begin(&session, 0, &block);
    assert_int_equal(block.count, 2);
    assert_int_equal(block.class, ATTN_BLOCK_SMALL);
    /* They leave the others their shares. */
    session.began = attn_now();
    const double until = attn_block_until(&session, &block) - session.began;
    assert_true(until > 0 && until < 1);
    attn_case_list_free(&session.cases);
}

static void test_a_block_of_a_budget_holds_one_class(void **state)
{
    (void)state;
    struct attn_session session = {.cases = mixed(true)};
    static const struct {
        size_t first, count;
        enum attn_block_class class;
    } want[] = {{0, 5, ATTN_BLOCK_PLAIN}, {5, 1, ATTN_BLOCK_OTHER}, {6, 11, ATTN_BLOCK_SMALL}};
    struct attn_block block;
    attn_block_begin(&session, 0, &block);
    assert_int_equal(block.count, 17);
    session.settings.budget_s = 10;
    assert_int_equal(attn_block_order(&session.cases), 0);
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        attn_block_begin(&session, want[i].first, &block);
        assert_int_equal(block.count, want[i].count);
        assert_int_equal(block.class, want[i].class);
    }
    attn_case_list_free(&session.cases);
}

static void test_small_cases_have_the_time_to_be_verified(void **state)
{
    (void)state;
    struct attn_session session = {
        .cases = mixed(true), .settings.budget_s = 10, .roster.count = 10};
    struct attn_block block;
    assert_int_equal(attn_block_order(&session.cases), 0);
    attn_block_begin(&session, 5, &block);
    session.began = attn_now();
    assert_true(fabs(attn_block_until(&session, &block) - session.began - 8.46) < 1e-6);
    /* Plain cases have most of the rest: this one is like one of them, of which there are five, and
     * weighs four fifths. */
    attn_block_begin(&session, 0, &block);
    session.began = attn_now();
    const double until = attn_block_until(&session, &block) - session.began;
    assert_true(until < 8.46 && fabs(until - 8.46 * 25 / 29) < 0.1);
    attn_case_list_free(&session.cases);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain_cases_come_first_and_calls_last),
        cmocka_unit_test(test_few_small_cases_come_first),
        cmocka_unit_test(test_a_block_of_a_budget_holds_one_class),
        cmocka_unit_test(test_small_cases_have_the_time_to_be_verified),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
