/* SPDX-License-Identifier: Apache-2.0 */
/* test_seat.c - a backend's rates are kept apart by operator and score. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "run/seat.h"

enum { OPS = 5, SCORES = 40 };

static double rate_for(uint32_t op, uint32_t score)
{
    return 1e9 * (1 + op) + 1e6 * score;
}

static void no_two_scores_share_a_rate(void **state)
{
    (void)state;
    struct attn_seat seat;
    attn_seat_init(&seat, NULL, NULL);
    for (uint32_t op = 0; op < OPS; op++)
        for (uint32_t score = 0; score < SCORES; score++) {
            const struct attn_problem p = {.op = op, .score = score};
            assert_true(attn_seat_rate(&seat, &p) == 0);
            attn_seat_saw_rate(&seat, &p, rate_for(op, score));
        }
    for (uint32_t op = 0; op < OPS; op++)
        for (uint32_t score = 0; score < SCORES; score++) {
            const struct attn_problem p = {.op = op, .score = score};
            assert_true(attn_seat_rate(&seat, &p) == rate_for(op, score));
        }
    attn_seat_free(&seat);
}

static void the_best_rate_stays(void **state)
{
    (void)state;
    struct attn_seat seat;
    const struct attn_problem p = {.op = ATTN_OP_MHA, .score = ATTN_SCORE_GAUSSIAN};
    attn_seat_init(&seat, NULL, NULL);
    attn_seat_saw_rate(&seat, &p, 2e9);
    attn_seat_saw_rate(&seat, &p, 1e9);
    assert_true(attn_seat_rate(&seat, &p) == 2e9);
    attn_seat_leave(&seat); /* workers go, rates stay: bench does so after each block */
    assert_true(attn_seat_rate(&seat, &p) == 2e9);
    attn_seat_saw_rate(&seat, &p, 3e9);
    assert_true(attn_seat_rate(&seat, &p) == 3e9);
    attn_seat_free(&seat);
    assert_true(attn_seat_rate(&seat, &p) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_two_scores_share_a_rate),
        cmocka_unit_test(the_best_rate_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
