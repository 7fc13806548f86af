/* SPDX-License-Identifier: Apache-2.0 */
/* test_predict.c - which runs are refused, from runs that were seen. No worker is needed. */
#include "run/predict.h"

#include <math.h>

#include "case/tests/case_test.h"
#include "pack/make.h"

static struct attn_instance *make(const char *line)
{
    char why[512];
    struct attn_case_list list = parse(line);
    struct attn_instance *instance;
    if (attn_instance_create(&list.items[0], 1, &instance, why, sizeof why))
        fail_msg("%s: %s", line, why);
    attn_case_list_free(&list);
    return instance;
}

static void saw(struct attn_seat *seat, const char *line, double seconds)
{
    struct attn_instance *instance = make(line);
    attn_predict_saw(seat, instance, seconds);
    attn_instance_free(instance);
}

/* Seconds that a run is predicted to take; 0: it is not refused. */
static double refused(struct attn_seat *seat, const char *line)
{
    struct attn_instance *instance = make(line);
    struct attn_judgement verdict;
    double seconds = 0;
    if (attn_predict_refuses(seat, instance, &verdict)) {
        assert_int_equal(verdict.status, ATTN_SKIP);
        assert_int_equal(
            sscanf(verdict.reason, "budget: a run is predicted to take %lf s", &seconds), 1);
    }
    attn_instance_free(instance);
    return seconds;
}

/* It makes all S x S numbers of a window, so its rate falls with the length. */
static void no_larger_case_follows_one_that_took_far_too_long(void **state)
{
    (void)state;
    static const struct attn_session session = {.settings.run_limit_s = 1};
    static const struct attn_contestant contestant = {.info.exactness = ATTN_EXACT};
    struct attn_seat seat;
    attn_seat_init(&seat, &session, &contestant);
    saw(&seat, "s=4096 d=64 mask=window:16:16", 0.2);
    assert_true(refused(&seat, "s=8192 d=64 mask=window:16:16") == 0); /* by its FLOPs 0.4 s */
    saw(&seat, "s=8192 d=64 mask=window:16:16", 1.9);
    assert_true(refused(&seat, "s=8192 d=64 mask=window:16:16 seed=2") == 0);
    saw(&seat, "s=8192 d=64 mask=window:16:16", 2.2);
    assert_true(refused(&seat, "s=8192 d=64 mask=window:16:16 seed=2") == 2.2);
    assert_true(refused(&seat, "s=4096 d=64 mask=window:16:16 seed=2") == 0);
    assert_true(refused(&seat, "s=600 d=64") == 0); /* of another kind */
    attn_seat_free(&seat);
    /* 4 times as long for twice the FLOPs, so 4 times 0.6 s, or 4 times 0.4 s. */
    attn_seat_init(&seat, &session, &contestant);
    saw(&seat, "s=3072 d=64 mask=window:16:16", 0.15);
    saw(&seat, "s=6200 d=64 mask=window:16:16", 0.6);
    assert_true(fabs(refused(&seat, "s=12400 d=64 mask=window:16:16") - 2.4) < 0.1);
    attn_seat_free(&seat);
    attn_seat_init(&seat, &session, &contestant);
    saw(&seat, "s=3072 d=64 mask=window:16:16", 0.1);
    saw(&seat, "s=6200 d=64 mask=window:16:16", 0.4);
    assert_true(refused(&seat, "s=12400 d=64 mask=window:16:16") == 0);
    attn_seat_free(&seat);
}

/* A seat of two that are peers, of which nothing is known. */
static void begin_seat(struct attn_seat seats[2], size_t s)
{
    static const struct attn_session session = {.settings.budget_s = 100};
    static const struct attn_contestant contestant = {.info.exactness = ATTN_EXACT};
    attn_seat_init(&seats[s], &session, &contestant);
    seats[s].peers = seats;
    seats[s].n_peers = 2;
}

/* Of two peers the slow one is left out where it takes over eight times as long, on cases of the
 * kind that both have shown, and not where that is a moment. */
static void what_is_hopeless_beside_its_peers_is_left_out(void **state)
{
    (void)state;
    struct attn_seat seats[2];
    for (size_t s = 0; s < 2; s++)
        begin_seat(seats, s);
    assert_true(refused(&seats[1], "s=600 d=64") == 0); /* nothing is known */
    saw(&seats[0], "s=1024 d=64", 0.004);
    saw(&seats[1], "s=1024 d=64", 0.031);
    assert_true(refused(&seats[1], "s=4096 d=64") == 0); /* 7.75 times */
    assert_true(refused(&seats[0], "s=4096 d=64") == 0);
    assert_true(refused(&seats[1], "s=1024 d=64 dtype=bf16") == 0);
    attn_seat_free(&seats[1]);
    begin_seat(seats, 1);
    saw(&seats[1], "s=512 d=64", 0.4); /* nor does the longest run tell */
    saw(&seats[1], "s=512 d=64", 0.001);
    assert_true(refused(&seats[1], "s=4096 d=64") == 0);
    attn_seat_free(&seats[1]);
    begin_seat(seats, 1);
    saw(&seats[1], "s=1024 d=64", 0.033);
    assert_true(refused(&seats[1], "s=4096 d=64") == 0); /* one run may have been held up */
    saw(&seats[1], "s=512 d=64", 0.033);
    assert_true(fabs(refused(&seats[1], "s=4096 d=64") - 16 * 0.033) < 0.01);
    assert_true(refused(&seats[1], "s=512 d=64") == 0); /* 8 ms */
    /* The fastest took longer on this case than its best rate says. */
    saw(&seats[0], "s=4096 d=64", 0.07);
    assert_true(refused(&seats[1], "s=4096 d=64") == 0);
    attn_seat_free(&seats[0]);
    begin_seat(seats, 0);
    saw(&seats[0], "s=1024 d=64", 0.004);
    /* What is wrong or computes nothing may be as fast as it likes. */
    seats[0].was_wrong = true;
    assert_true(refused(&seats[1], "s=4096 d=64") == 0);
    static const struct attn_contestant nothing = {.info.exactness = ATTN_NONE};
    seats[0].was_wrong = false;
    seats[0].contestant = &nothing;
    assert_true(refused(&seats[1], "s=4096 d=64") == 0);
    for (size_t s = 0; s < 2; s++)
        attn_seat_free(&seats[s]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_larger_case_follows_one_that_took_far_too_long),
        cmocka_unit_test(what_is_hopeless_beside_its_peers_is_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
