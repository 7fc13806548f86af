/* SPDX-License-Identifier: Apache-2.0 */
/* test_settle.c - rounds end early only where more of them would say nothing new. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>

#include "bench/settle.h"

enum { BACKENDS = 3, BATCHES = 4, MOST = 12 };

static const struct attn_contestant anchor;

/* A backend whose time is `ratio` times the anchor's, off by `spread` in every other round, in n
 * rounds. Of these, the last `disturbed` ran beside other work. */
static struct attn_paired_rounds make(double ratio, double spread, int n, int disturbed)
{
    struct attn_paired_rounds p = {
        .rounds = calloc(MOST, sizeof *p.rounds), .n = n, .anchor = &anchor};
    assert_non_null(p.rounds);
    for (int r = 0; r < n; r++) {
        struct attn_group_side *side = &p.rounds[r].side;
        side->figures.batches = BATCHES;
        side->batches = calloc(BATCHES, sizeof *side->batches);
        assert_non_null(side->batches);
        const double to = r >= n - disturbed ? 1.5e5 : 1e5;
        for (int i = 0; i < BATCHES; i++)
            side->batches[i] = (struct attn_group_batch){
                .side = ratio * (r % 2 ? 1 + spread : 1) * to, .anchor = to};
    }
    return p;
}

/* Which of a case's backends are settled: "x" for each that is, "." for the others. */
static const char *settled(struct attn_paired_rounds a, struct attn_paired_rounds b,
                           struct attn_paired_rounds c)
{
    static char text[BACKENDS + 1];
    struct attn_paired_rounds *all[BACKENDS] = {&a, &b, &c};
    assert_int_equal(attn_settle(all, BACKENDS), 0);
    for (int i = 0; i < BACKENDS; i++) {
        text[i] = all[i]->settled ? 'x' : '.';
        attn_paired_free(all[i]);
    }
    return text;
}

static void test_a_place_and_a_ratio_must_be_known(void **state)
{
    (void)state;
    assert_string_equal(settled(make(1, 0, 6, 0), make(1.2, 0.001, 6, 0), make(3, 0.001, 6, 0)),
                        ".xx");
    /* Too few rounds; too near; too wide, at any distance. */
    assert_string_equal(settled(make(1, 0, 5, 0), make(1.2, 0.001, 5, 0), make(3, 0.001, 5, 0)),
                        "...");
    assert_string_equal(settled(make(1, 0, 6, 0), make(1.05, 0.001, 6, 0), make(3, 0.04, 6, 0)),
                        "...");
    assert_string_equal(settled(make(1, 0, 12, 0), make(1.04, 0.001, 12, 0), make(1, 0.01, 12, 0)),
                        "...");
}

/* Six rounds beside an anchor that failed then, and three beside its successor. */
static void test_rounds_to_another_anchor_say_nothing(void **state)
{
    (void)state;
    struct attn_interval ratio;
    struct attn_paired_rounds p = make(2, 0, 9, 0);
    for (int r = 0; r < p.n; r++) {
        p.rounds[r].no_ratio = r < 6;
        p.rounds[r].side.ratio = log(r < 6 ? 2.2 : 1.1);
    }
    assert_true(attn_paired_to_anchor(&p, &ratio));
    assert_true(fabs(ratio.value - 1.1) < 1e-12 && ratio.n == 3);
    attn_paired_free(&p);
}

static void test_the_fastest_need_not_be_the_anchor(void **state)
{
    (void)state;
    assert_string_equal(settled(make(1, 0, 8, 0), make(0.8, 0.001, 8, 0), make(0.9, 0.001, 8, 0)),
                        "x.x");
    /* As long as the fastest itself is not known well, nobody's place is. */
    assert_string_equal(settled(make(1, 0, 8, 0), make(0.8, 0.2, 8, 0), make(0.9, 0.001, 8, 0)),
                        "...");
}

static void test_disturbed_rounds_do_not_count(void **state)
{
    (void)state;
    assert_string_equal(settled(make(1, 0, 8, 2), make(2, 0.001, 8, 3), make(3, 0.001, 8, 2)),
                        "..x");
}

/* Who had no rounds, as a backend for which memory was short, keeps nobody waiting. */
static void test_a_backend_without_rounds_is_open(void **state)
{
    (void)state;
    assert_string_equal(settled(make(1, 0, 6, 0), make(2, 0.001, 6, 0), make(2, 0, 0, 0)), ".x.");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_place_and_a_ratio_must_be_known),
        cmocka_unit_test(test_rounds_to_another_anchor_say_nothing),
        cmocka_unit_test(test_the_fastest_need_not_be_the_anchor),
        cmocka_unit_test(test_disturbed_rounds_do_not_count),
        cmocka_unit_test(test_a_backend_without_rounds_is_open),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
