/* SPDX-License-Identifier: Apache-2.0 */
/* test_seat.c - a backend's rates are kept apart by kind of case. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "run/seat.h"

enum { OPS = 5, SCORES = 20, DTYPES = 3, KINDS = OPS * SCORES * DTYPES * 2 * 2 };

static struct attn_seat_kind kind_of(uint32_t n)
{
    return (struct attn_seat_kind){n % OPS, n / OPS % SCORES, n / OPS / SCORES % DTYPES,
                                   n / OPS / SCORES / DTYPES % 2, n / OPS / SCORES / DTYPES / 2};
}

static double rate_of(const struct attn_seat *seat, const struct attn_seat_kind *kind)
{
    const struct attn_seat_rate *rate = attn_seat_rate(seat, kind);
    return rate ? rate->flops : 0;
}

static void no_two_kinds_share_a_rate(void **state)
{
    (void)state;
    struct attn_seat seat;
    attn_seat_init(&seat, NULL, NULL);
    for (uint32_t n = 0; n < KINDS; n++) {
        const struct attn_seat_kind kind = kind_of(n);
        assert_null(attn_seat_rate(&seat, &kind));
        attn_seat_saw_run(&seat, &kind, 1e9 * (1 + n), 1);
    }
    for (uint32_t n = 0; n < KINDS; n++) {
        const struct attn_seat_kind kind = kind_of(n);
        assert_true(rate_of(&seat, &kind) == 1e9 * (1 + n));
    }
    attn_seat_free(&seat);
}

static void the_best_rate_and_the_longest_run_stay(void **state)
{
    (void)state;
    struct attn_seat seat;
    const struct attn_seat_kind kind = {ATTN_OP_MHA, ATTN_SCORE_GAUSSIAN, ATTN_F32, false, false};
    attn_seat_init(&seat, NULL, NULL);
    attn_seat_saw_run(&seat, &kind, 2e9, 1);
    attn_seat_saw_run(&seat, &kind, 4e9, 4);
    assert_true(rate_of(&seat, &kind) == 2e9);
    assert_true(attn_seat_rate(&seat, &kind)->seconds == 4);
    assert_true(attn_seat_rate(&seat, &kind)->longest == 4e9);
    attn_seat_leave(&seat); /* workers go, rates stay: bench does so after each block */
    assert_true(rate_of(&seat, &kind) == 2e9);
    attn_seat_saw_run(&seat, &kind, 3e9, 1);
    assert_true(rate_of(&seat, &kind) == 3e9);
    assert_true(attn_seat_rate(&seat, &kind)->longest == 4e9);
    attn_seat_free(&seat);
    assert_null(attn_seat_rate(&seat, &kind));
}

/* The kind of attention in f32, by its sizes and the share of its cells that is allowed. */
static struct attn_seat_kind attention(double heads, double sq, double sk, double d, double share)
{
    const struct attn_problem p = {.op = ATTN_OP_ATTENTION};
    const double dense = 4 * heads * sq * sk * d;
    return attn_seat_kind_of(&p, ATTN_F32, share * dense, dense,
                             (uint64_t)(8 * heads * (sq + sk) * d));
}

static bool by_memory(double heads, double sq, double sk, double d)
{
    return attention(heads, sq, sk, d, 1).by_memory;
}

static void decoding_is_of_another_kind_than_prefill(void **state)
{
    (void)state;
    assert_true(by_memory(32, 1, 4096, 128));
    assert_true(by_memory(1, 1, 1, 64));
    assert_true(by_memory(8, 8, 65536, 64)); /* speculative */
    assert_false(by_memory(1, 4096, 4096, 64));
    assert_false(by_memory(12, 256, 256, 64));
}

static void a_narrow_window_is_of_another_kind_than_all_keys(void **state)
{
    (void)state;
    assert_true(attention(1, 4096, 4096, 64, 0.06).sparse);
    assert_false(attention(1, 4096, 4096, 64, 0.5).sparse); /* causal */
    assert_false(attention(1, 4096, 4096, 64, 1).sparse);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_two_kinds_share_a_rate),
        cmocka_unit_test(the_best_rate_and_the_longest_run_stay),
        cmocka_unit_test(decoding_is_of_another_kind_than_prefill),
        cmocka_unit_test(a_narrow_window_is_of_another_kind_than_all_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
