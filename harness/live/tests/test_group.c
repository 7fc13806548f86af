/* SPDX-License-Identifier: Apache-2.0 */
/* test_group.c - models in place of workers, on a clock that only they move. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "live/group.h"

enum { SIDES = 4 };

struct scene {
    double time;
    double drift; /* by so much more do runs take with every second that goes by */
    size_t pauses, stops_after;
    double busy_from; /* from then on, other work has part of the core; 0: never */
    uint64_t random;
};

struct model {
    struct scene *scene;
    double run_s; /* processor time of a run */
    double noise; /* largest relative addition to a batch */
    double busy;  /* by so much more do runs take while other work has part of the core */
    int64_t iterations;
    size_t batches, exchanges, fails_after;
    size_t quick_every; /* one batch of so many takes half the time; 0: none */
};

static double uniform(struct scene *scene)
{
    scene->random = scene->random * 6364136223846793005u + 1442695040888963407u;
    return 0x1p-53 * (double)(scene->random >> 11);
}

static double scene_now(void *context)
{
    return ((struct scene *)context)->time;
}

static void scene_pause(void *context, double seconds)
{
    struct scene *scene = context;
    scene->time += seconds;
    scene->pauses++;
}

static bool scene_stopped(void *context)
{
    const struct scene *scene = context;
    return scene->stops_after > 0 && scene->pauses >= scene->stops_after;
}

static int model_batch(void *context, bool exchange, struct attn_live_sample *sample)
{
    struct model *m = context;
    struct scene *scene = m->scene;
    const bool busy = scene->busy_from > 0 && scene->time >= scene->busy_from;
    const double slow = (1 + scene->drift * scene->time) * (1 + m->noise * uniform(scene)) *
                        (busy ? 1 + m->busy : 1);
    const bool quick = m->quick_every > 0 && m->batches % m->quick_every == 0;
    const double seconds = m->run_s * (double)m->iterations * slow * (quick ? 0.5 : 1);
    m->batches++;
    m->exchanges += exchange;
    *sample = (struct attn_live_sample){
        .iterations = m->iterations, .wall_ns = 1e9 * seconds, .processor_ns = 1e9 * seconds};
    scene->time += seconds;
    return m->fails_after > 0 && m->batches >= m->fails_after ? -1 : 0;
}

static int run(struct scene *scene, struct model *models, size_t n, size_t anchor,
               struct attn_group_side *out)
{
    const struct attn_turns_world world = {
        .now = scene_now, .pause = scene_pause, .stopped = scene_stopped, .context = scene};
    const struct attn_group_plan plan = {.seconds = 0.02, .least = 3, .long_s = 0.1, .random = 1};
    struct attn_side sides[SIDES];
    struct attn_live_sample first[SIDES];
    for (size_t s = 0; s < n; s++) {
        models[s].scene = scene;
        sides[s] = (struct attn_side){model_batch, &models[s]};
        first[s] = (struct attn_live_sample){.iterations = models[s].iterations,
                                             .wall_ns = 1e9 * models[s].run_s,
                                             .clock = ATTN_CLOCK_THREAD};
    }
    if (attn_group_run(sides, first, n, anchor, &plan, &world, out))
        return -1;
    for (size_t s = 0; s < n; s++) {
        struct attn_group_side *rounds[] = {&out[s]};
        assert_int_equal(attn_group_ratios(rounds, 1), 0);
    }
    return 0;
}

static void release(struct attn_group_side *sides, size_t n)
{
    for (size_t s = 0; s < n; s++)
        free(sides[s].batches);
}

static void test_drift_of_the_machine_cancels(void **state)
{
    (void)state;
    /* All runs take about three times as long at the end. */
    struct scene scene = {.random = 1, .drift = 20};
    struct model models[] = {{.run_s = 1e-6, .iterations = 200, .noise = 0.02},
                             {.run_s = 2e-6, .iterations = 100, .noise = 0.02},
                             {.run_s = 3e-6, .iterations = 66, .noise = 0.02}};
    struct attn_group_side out[3];
    assert_int_equal(run(&scene, models, 3, 0, out), 0);
    assert_true(scene.time * scene.drift > 1.5);
    assert_true(out[0].figures.wall / out[0].low > 1.3); /* the drift is seen without pairs */
    assert_true(out[0].ratio == 0);
    assert_true(fabs(out[1].ratio - log(2)) < 0.01);
    assert_true(fabs(out[2].ratio - log(3)) < 0.01);
    assert_in_range(out[1].cycles, 99, 101);
    release(out, 3);
}

/* In two thirds of the cycles one kind of code takes 1.9 times as long and the other 1.2 times. */
static void test_a_shared_core_does_not_change_ratios(void **state)
{
    (void)state;
    struct scene scene = {.random = 8, .busy_from = 0.02};
    struct model models[] = {{.run_s = 1e-4, .iterations = 2, .noise = 0.02, .busy = 0.9},
                             {.run_s = 2e-4, .iterations = 1, .noise = 0.02, .busy = 0.2}};
    struct attn_group_side out[2];
    assert_int_equal(run(&scene, models, 2, 0, out), 0);
    assert_true(scene.time > 2.5 * scene.busy_from);
    assert_int_equal(out[1].cycles, 100);
    assert_in_range(out[1].undisturbed, 20, 50);
    assert_true(fabs(out[1].ratio - log(2)) < 0.01);
    release(out, 2);
}

static void test_few_undisturbed_cycles_make_no_ratio(void **state)
{
    (void)state;
    struct scene scene = {.random = 9};
    /* Batches differ so much that hardly any two are near their best at once. */
    struct model models[] = {{.run_s = 1e-2, .iterations = 1, .noise = 9},
                             {.run_s = 1e-2, .iterations = 1, .noise = 9}};
    struct attn_group_side out[2];
    assert_int_equal(run(&scene, models, 2, 0, out), 0);
    assert_true(out[1].undisturbed < ATTN_UNDISTURBED_LEAST && out[1].disturbed);
    assert_int_equal(out[1].cycles, 3);
    assert_true(isfinite(out[1].ratio));
    release(out, 2);
}

/* Its quick batches are a fifth, so that the low quantile is theirs. */
static void test_who_varies_alone_is_not_disturbed(void **state)
{
    (void)state;
    for (size_t anchor = 0; anchor < 2; anchor++) {
        struct scene scene = {.random = 10};
        struct model models[] = {{.run_s = 1e-4, .iterations = 2, .noise = 0.02},
                                 {.run_s = 2e-4, .iterations = 1, .noise = 0.02, .quick_every = 5}};
        struct attn_group_side out[2];
        assert_int_equal(run(&scene, models, 2, anchor, out), 0);
        assert_true(out[1].low < 1.1e5);
        assert_true(out[1 - anchor].undisturbed > 90);
        assert_true(fabs(fabs(out[1 - anchor].ratio) - log(2)) < 0.02);
        release(out, 2);
    }
}

/* A round that other work slows from its first cycle to its last has a ratio of its own. It shows
 * only beside the other rounds. */
static void test_rounds_tell_which_of_them_was_disturbed(void **state)
{
    (void)state;
    enum { ROUNDS = 4 };
    struct model models[] = {{.run_s = 1e-4, .iterations = 2, .noise = 0.02, .busy = 0.9},
                             {.run_s = 2e-4, .iterations = 1, .noise = 0.02, .busy = 0.2}};
    struct attn_group_side out[ROUNDS][2], *rounds[ROUNDS];
    for (int r = 0; r < ROUNDS; r++) {
        struct scene scene = {.random = 20 + (uint64_t)r, .busy_from = r == 2 ? 1e-9 : 0};
        assert_int_equal(run(&scene, models, 2, 0, out[r]), 0);
        assert_false(out[r][1].disturbed);
        rounds[r] = &out[r][1];
    }
    assert_true(fabs(rounds[2]->ratio - log(2 * 1.2 / 1.9)) < 0.02);
    assert_int_equal(attn_group_ratios(rounds, ROUNDS), 0);
    for (int r = 0; r < ROUNDS; r++) {
        assert_int_equal(rounds[r]->disturbed, r == 2);
        assert_int_equal(rounds[r]->cycles, 100);
        assert_true(fabs(rounds[r]->ratio - log(r == 2 ? 2 * 1.2 / 1.9 : 2)) < 0.02);
        release(out[r], 2);
    }
}

static void test_the_low_quantile_is_that_of_batches(void **state)
{
    (void)state;
    struct scene scene = {.random = 2};
    struct model model = {.run_s = 1e-5, .iterations = 10, .noise = 1};
    struct attn_group_side out;
    assert_int_equal(run(&scene, &model, 1, 0, &out), 0);
    assert_int_equal(out.figures.batches, 200);
    /* From 1 to 2 times 1e4 ns, evenly: a tenth of them lies below 1.1. */
    assert_true(out.low > 1.05e4 && out.low < 1.15e4);
    assert_true(out.figures.least < out.low && out.figures.wall > 1.35e4);
    release(&out, 1);
}

static void test_slow_sides_have_fewer_batches(void **state)
{
    (void)state;
    struct scene scene = {.random = 3};
    struct model models[] = {{.run_s = 1e-4, .iterations = 2},  /* 100 */
                             {.run_s = 1e-3, .iterations = 1},  /* 20 */
                             {.run_s = 0.05, .iterations = 1},  /* the fewest */
                             {.run_s = 0.25, .iterations = 1}}; /* long: one */
    const size_t batches[] = {100, 20, 3, 1};
    struct attn_group_side out[SIDES];
    assert_int_equal(run(&scene, models, SIDES, 0, out), 0);
    for (size_t s = 0; s < SIDES; s++) {
        assert_int_equal(models[s].batches, batches[s]);
        assert_int_equal(out[s].figures.batches, batches[s]);
        assert_int_equal(out[s].cycles, batches[s]); /* one of the anchor beside each */
        assert_true(fabs(out[s].ratio - log(models[s].run_s / 1e-4)) < 1e-6);
        assert_true(models[s].exchanges >= 1);
    }
    assert_int_equal(models[1].exchanges, 2); /* by its own batches, not by cycles */
    release(out, SIDES);
}

/* A slow anchor takes part in every cycle, or there would be batches without a partner. */
static void test_any_side_can_be_the_anchor(void **state)
{
    (void)state;
    struct scene scene = {.random = 4};
    struct model models[] = {{.run_s = 1e-4, .iterations = 2}, {.run_s = 1e-3, .iterations = 1}};
    struct attn_group_side out[2];
    assert_int_equal(run(&scene, models, 2, 1, out), 0);
    assert_int_equal(models[1].batches, 100);
    assert_int_equal(out[0].cycles, 100);
    assert_true(fabs(out[0].ratio - log(0.1)) < 1e-6);
    release(out, 2);
}

static void test_a_failure_ends_one_side(void **state)
{
    (void)state;
    struct scene scene = {.random = 5};
    struct model models[] = {{.run_s = 1e-4, .iterations = 2},
                             {.run_s = 1e-4, .iterations = 2, .fails_after = 7},
                             {.run_s = 1e-4, .iterations = 2}};
    struct attn_group_side out[3];
    assert_int_equal(run(&scene, models, 3, 0, out), 0);
    assert_true(!out[0].failed && out[1].failed && !out[2].failed);
    assert_int_equal(models[1].batches, 7);
    assert_true(isnan(out[1].ratio) && isnan(out[1].low));
    assert_true(models[0].batches >= 99 && models[2].batches >= 99);
    assert_true(fabs(out[2].ratio) < 1e-9);
    release(out, 3);
}

static void test_without_its_anchor_nothing_is_compared(void **state)
{
    (void)state;
    struct scene scene = {.random = 6};
    struct model models[] = {{.run_s = 1e-4, .iterations = 2, .fails_after = 7},
                             {.run_s = 1e-4, .iterations = 2}};
    struct attn_group_side out[2];
    assert_int_equal(run(&scene, models, 2, 0, out), 0);
    assert_true(out[0].failed && !out[1].failed);
    assert_true(isnan(out[1].ratio) && fabs(out[1].low - 1e5) < 1);
    release(out, 2);
}

static void test_a_stop_ends_all(void **state)
{
    (void)state;
    struct scene scene = {.random = 7, .stops_after = 9};
    struct model models[] = {{.run_s = 1e-4, .iterations = 2}, {.run_s = 1e-4, .iterations = 2}};
    struct attn_group_side out[2];
    assert_int_equal(run(&scene, models, 2, 0, out), -1);
    assert_int_equal(models[0].batches + models[1].batches, 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_drift_of_the_machine_cancels),
        cmocka_unit_test(test_a_shared_core_does_not_change_ratios),
        cmocka_unit_test(test_few_undisturbed_cycles_make_no_ratio),
        cmocka_unit_test(test_who_varies_alone_is_not_disturbed),
        cmocka_unit_test(test_rounds_tell_which_of_them_was_disturbed),
        cmocka_unit_test(test_the_low_quantile_is_that_of_batches),
        cmocka_unit_test(test_slow_sides_have_fewer_batches),
        cmocka_unit_test(test_any_side_can_be_the_anchor),
        cmocka_unit_test(test_a_failure_ends_one_side),
        cmocka_unit_test(test_without_its_anchor_nothing_is_compared),
        cmocka_unit_test(test_a_stop_ends_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
