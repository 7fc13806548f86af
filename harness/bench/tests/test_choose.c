/* SPDX-License-Identifier: Apache-2.0 */
/* test_choose.c - families take turns, and no time is spent twice. */
#include <math.h>

#include "bench/choose.h"
#include "case/tests/case_test.h"

enum { COUNT = 7 };

/* Three families, of names with and without '/'. */
static const char *const names[COUNT] = {"a/1", "a/2", "a/3", "b_x", "b_yy", "ab_1/1", "a"};
static const double costs[COUNT] = {1, 2, 3, 10, 20, 5, 4};

/* The cases that are chosen with this much time, if they have had so many rounds, a digit each. */
static const char *choose(double left, const char *made)
{
    static char chosen[COUNT + 1];
    static struct attn_case cases[COUNT];
    struct attn_choice choices[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        snprintf(cases[i].name, sizeof cases[i].name, "%s", names[i]);
        choices[i] = (struct attn_choice){&cases[i], costs[i], made[i] - '0', true};
    }
    attn_choose(choices, COUNT, left);
    for (size_t i = 0; i < COUNT; i++)
        chosen[i] = choices[i].chosen ? 'x' : '.';
    return chosen;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_families_take_turns),
        cmocka_unit_test(test_what_has_had_rounds_comes_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
