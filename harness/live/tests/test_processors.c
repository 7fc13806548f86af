/* SPDX-License-Identifier: Apache-2.0 */
/* test_processors.c - which processors are taken, and that nobody else takes them. Other programs
 * may claim some at the same time, so that a claim here need not be alone. */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "live/processors.h"

static void test_the_idlest_come_first(void **state)
{
    (void)state;
    const double load[] = {0.9, 0.1, 0.5, 0.2};
    const uint32_t apart[] = {0, 1, 2, 3}, pairs[] = {0, 0, 2, 2};
    size_t order[4];
    attn_claim_order(load, apart, 4, order);
    const size_t by_load[] = {1, 3, 2, 0};
    assert_memory_equal(order, by_load, sizeof(order));
    /* Processor 1 shares its core with a busy one: 0.1 + 0.45 is more than 0.2 + 0.25. */
    attn_claim_order(load, pairs, 4, order);
    const size_t by_core[] = {3, 1, 2, 0};
    assert_memory_equal(order, by_core, sizeof(order));
}

static void test_a_claim_is_for_one(void **state)
{
    (void)state;
    struct attn_claim first, second;
    char why[256];
    cpu_set_t allowed;
    assert_int_equal(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
    assert_int_equal(attn_claim_take(1, 0.02, 0, &first, why, sizeof(why)), 0);
    assert_int_equal(first.n, 1);
    assert_true(CPU_ISSET(first.processors[0], &allowed));
    assert_int_equal(attn_claim_take(1, 0.02, 0, &second, why, sizeof(why)), 0);
    if (first.alone && second.alone)
        assert_int_not_equal(first.processors[0], second.processors[0]);
    if (CPU_COUNT(&allowed) == 1)
        assert_false(second.alone);
    attn_claim_give(&second);

    /* All of them, of which the first is still claimed. */
    const uint32_t all = (uint32_t)CPU_COUNT(&allowed);
    if (all <= ATTN_CLAIM_MAX && first.alone) {
        assert_int_equal(attn_claim_take(all, 0, 0, &second, why, sizeof(why)), 0);
        assert_int_equal(second.n, all);
        assert_false(second.alone);
        attn_claim_give(&second);
    }
    const double steal = attn_claim_steal(&first);
    assert_true(steal >= 0 && steal <= 1);
    attn_claim_give(&first);
    assert_int_equal(first.n, 0);
    assert_int_equal(attn_claim_take(CPU_SETSIZE, 0, 0, &first, why, sizeof(why)), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_idlest_come_first),
        cmocka_unit_test(test_a_claim_is_for_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
