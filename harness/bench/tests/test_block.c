/* SPDX-License-Identifier: Apache-2.0 */
/* test_block.c - which cases a budget is spent on first. */
#include <math.h>

#include "bench/block.h"
#include "case/tests/case_test.h"

static struct attn_case_list mixed(void)
{
    struct attn_case_list list = {0};
    char why[512];
    static const char *const lines[] = {
        "a: s=20 d=8",                /* small */
        "b: h=8 s=512 d=64",          /* 6 ms */
        "c: h=2 s=8 d=8",             /* small */
        "d: h=8 s=128 d=64",          /* 0.4 ms */
        "e: h=12 sq=1 sk=1024 d=64",  /* a decode step that reads 6 MB */
        "f: h=8 s=128 d=64 scale=0.1" /* as d */
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        assert_int_equal(try_line(lines[i], &list, why), 0);
    return list;
}

static void test_less_work_comes_first_and_calls_come_last(void **state)
{
    (void)state;
    struct attn_case_list list = mixed();
    char order[7] = "";
    assert_int_equal(attn_block_order(&list), 0);
    for (size_t i = 0; i < list.count; i++)
        order[i] = list.items[i].name[0];
    assert_string_equal(order, "dfebac");
    attn_case_list_free(&list);
}

static void test_a_block_of_a_budget_holds_no_small_cases_beside_others(void **state)
{
    (void)state;
    struct attn_session session = {.cases = mixed()};
    struct attn_block block;
    attn_block_begin(&session, 0, &block);
    assert_int_equal(block.count, 6);
    assert_false(block.small);
    session.settings.budget_s = 1;
    assert_int_equal(attn_block_order(&session.cases), 0);
    attn_block_begin(&session, 0, &block);
    assert_int_equal(block.count, 4);
    assert_false(block.small);
    attn_block_begin(&session, 4, &block);
    assert_int_equal(block.count, 2);
    assert_true(block.small);
    /* The others leave them the time to be verified, and to be timed once. */
    attn_block_begin(&session, 0, &block);
    session.settings.budget_s = 10;
    session.began = attn_now();
    assert_true(fabs(attn_block_until(&session, &block) - session.began - 9.6) < 1e-6);
    session.settings.hot = session.settings.cold = true;
    session.settings.samples = 3;
    session.settings.min_time_s = 0.01;
    session.roster.count = 4;
    session.began = attn_now();
    assert_true(fabs(attn_block_until(&session, &block) - session.began - 8.88) < 1e-6);
    session.roster.count = 0;
    attn_case_list_free(&session.cases);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_less_work_comes_first_and_calls_come_last),
        cmocka_unit_test(test_a_block_of_a_budget_holds_no_small_cases_beside_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
