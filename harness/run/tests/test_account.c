/* SPDX-License-Identifier: Apache-2.0 */
/* test_account.c - how many checks of a verdict are enough. */
#include "run/account.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* A verdict on outputs with the first `made` of eight fills, and a reason for the others. */
static bool enough(int made, enum attn_why why_not, char *why, size_t size)
{
    static const struct attn_contestant exact = {.info.exactness = ATTN_EXACT};
    struct attn_entry entry = {.contestant = &exact, .end_done = true, .start_done = true};
    for (int f = 0; f < 8; f++)
        if (f < made)
            entry.fills_done |= 1u << f;
        else
            attn_account_miss(&entry, ATTN_PART_FILLS + f, why_not);
    return attn_account_enough(&entry, why, size);
}

static void half_of_the_checks(void **state)
{
    (void)state;
    char why[256];
    assert_true(enough(3, ATTN_WHY_SLOW, why, sizeof why)); /* with the two placements */
    assert_false(enough(2, ATTN_WHY_SLOW, why, sizeof why));
    assert_string_equal(why,
                        "only 4 of the 10 checks that apply were made; 6 were not because: too "
                        "slow, and no smaller case is fast enough");
    assert_false(enough(0, ATTN_WHY_REFUSED_SMALLER, why, sizeof why));
}

static void what_is_left_out_does_not_count(void **state)
{
    (void)state;
    char why[256];
    assert_true(enough(0, ATTN_WHY_FILLS, why, sizeof why));
    assert_true(enough(0, ATTN_WHY_REFUSED, why, sizeof why));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(half_of_the_checks),
                                       cmocka_unit_test(what_is_left_out_does_not_count)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
