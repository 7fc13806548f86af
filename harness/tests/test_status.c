/* SPDX-License-Identifier: Apache-2.0 */
/* test_status.c - names of statuses in both directions, and which exit code wins. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "results/status.h"

static void test_names(void **state)
{
    (void)state;
    for (int s = 0; s < ATTN_STATUS_COUNT; s++)
        assert_int_equal(attn_status_parse(attn_status_name((enum attn_status)s)), s);
    assert_string_equal(attn_status_name(ATTN_OOM), "oom");
    assert_string_equal(attn_status_name(ATTN_STATUS_COUNT), "?");
    assert_int_equal(attn_status_parse("passed"), -1);
    assert_int_equal(attn_status_parse(""), -1);
}

static void test_stronger(void **state)
{
    (void)state;
    static const enum attn_exit order[] = {1, 2, 7, 3, 6, 4, 8, 5, 0};
    const int n = (int)(sizeof(order) / sizeof(order[0]));
    for (int a = 0; a < n; a++)
        for (int b = 0; b < n; b++)
            assert_int_equal(attn_exit_stronger(order[a], order[b]), order[a < b ? a : b]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_stronger),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
