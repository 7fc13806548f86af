/* SPDX-License-Identifier: Apache-2.0 */
/* test_choose.c - families take turns, and no time is spent twice. */
#include <math.h>

#include "bench/choose.h"
#include "case/tests/case_test.h"

enum { COUNT = 7 };

/* Three families, of names with and without '/'. */
static const char *const names[COUNT] = {"a/1", "a/2", "a/3", "b_x", "b_yy", "ab_1/1", "a"};
static const double costs[COUNT] = {1, 2, 3, 10, 20, 5, 4};

/* The cases that are chosen with this much time, if they have had so many rounds, a digit each, and
 * families with a b have most work. */
static const char *choose_of(double left, const char *made, double work_of_b)
{
    static char chosen[COUNT + 1];
    static struct attn_case cases[COUNT];
    struct attn_choice choices[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        snprintf(cases[i].name, sizeof cases[i].name, "%s", names[i]);
        choices[i] = (struct attn_choice){.c = &cases[i],
                                          .cost = costs[i],
                                          .made = made[i] - '0',
                                          .work = names[i][0] == 'b' ? work_of_b : 1,
                                          .chosen = true};
    }
    attn_choose(choices, COUNT, left);
    for (size_t i = 0; i < COUNT; i++)
        chosen[i] = choices[i].chosen ? 'x' : '.';
    return chosen;
}

static const char *choose(double left, const char *made)
{
    return choose_of(left, made, 1);
}

static void test_families_take_turns(void **state)
{
    (void)state;
    static const struct {
        double left;
        const char *chosen;
    } want[] = {
        {0.5, "......."}, {1, "x......"},  {6, "x....x."},        {16, "x..x.x."},
        {18, "xx.x.x."},  {21, "xxxx.x."}, {44.9, "xxxxxx."},     {45, "xxxxxxx"},
        {7.9, "x....x."}, {8, "xx...x."},  {INFINITY, "xxxxxxx"},
    };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++)
        assert_string_equal(choose(want[i].left, "0000000"), want[i].chosen);
}

static void test_what_has_had_rounds_comes_first(void **state)
{
    (void)state;
    assert_string_equal(choose(3, "0010000"), "..x....");
    assert_string_equal(choose(8, "0010000"), "..x..x.");
    assert_string_equal(choose(18, "1100000"), "xx.x.x.");
    /* The most rounds first: what has had fewer, and no longer fits, is given up. */
    assert_string_equal(choose(2.9, "1230000"), ".x.....");
    assert_string_equal(choose(5, "1230000"), ".xx....");
    assert_string_equal(choose(0.5, "1230000"), ".......");
}

static void test_the_family_with_most_work_comes_first(void **state)
{
    (void)state;
    assert_string_equal(choose_of(9, "0000000", 2), "xx...x.");
    assert_string_equal(choose_of(10, "0000000", 2), "...x...");
    assert_string_equal(choose_of(16, "0000000", 2), "x..x.x.");
    assert_string_equal(choose_of(1, "1000000", 2), "x......");
}

static void test_the_work_of_a_family(void **state)
{
    (void)state;
    static const char *const lines[] = {"a/1 s=8 d=8", "a/2 s=16 d=8", "b_x s=8 d=8",
                                        "b_y s=8 d=8"};
    struct attn_case_list list = {0};
    char why[256];
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(attn_case_parse_line(strchr(lines[i], ' ') + 1, strlen(lines[i]) - 4, NULL,
                                              0, &list, why, sizeof why),
                         0);
        snprintf(list.items[i].name, sizeof list.items[i].name, "%.3s", lines[i]);
    }
    assert_true(attn_family_work(&list, &list.items[0]) ==
                5 * attn_family_work(&list, &list.items[2]) / 2);
    assert_true(attn_family_work(&list, &list.items[3]) == attn_family_work(&list, &list.items[2]));
    attn_case_list_free(&list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_families_take_turns),
        cmocka_unit_test(test_what_has_had_rounds_comes_first),
        cmocka_unit_test(test_the_family_with_most_work_comes_first),
        cmocka_unit_test(test_the_work_of_a_family),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
