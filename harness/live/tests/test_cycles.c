/* SPDX-License-Identifier: Apache-2.0 */
/* test_cycles.c - two models in place of workers, on a clock that only they move. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "live/cycles.h"
#include "results/paired.h"

enum { ORDER_MOST = 2 * ATTN_CYCLES_MOST };

/* The world of a test: its time, and what has happened in it. */
struct scene {
    double time;
    size_t pauses, stops_after; /* stops_after: pauses; 0: never */
    int running;                /* batches under way */
    size_t n_order;
    char order[ORDER_MOST]; /* 'A' and 'B', in the order of batches */
    uint64_t random;
    bool paused; /* since the last batch */
    const uint32_t *clock;
};

struct model {
    struct scene *scene;
    char name;
    double run_s; /* processor time of a run */
    double noise; /* largest relative change of a batch */
    double taken; /* share of batches in which others take ten times as long on the wall */
    int64_t iterations;
    size_t batches, exchanges, fails_after;
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
    scene->paused = true;
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
    assert_int_equal(scene->running, 0);
    assert_true(scene->paused);
    scene->paused = false;
    scene->running++;
    if (scene->n_order < ORDER_MOST)
        scene->order[scene->n_order++] = m->name;
    m->batches++;
    m->exchanges += exchange;
    const double seconds =
        m->run_s * (double)m->iterations * (1 + m->noise * (2 * uniform(scene) - 1));
    const double wall = uniform(scene) < m->taken ? 10 * seconds : seconds;
    *sample = (struct attn_live_sample){.iterations = m->iterations,
                                        .wall_ns = 1e9 * wall,
                                        .processor_ns = 1e9 * seconds,
                                        .switches = wall > seconds};
    scene->time += wall;
    scene->running--;
    return m->fails_after > 0 && m->batches >= m->fails_after ? -1 : 0;
}

static int run(struct scene *scene, struct model models[2], uint32_t clock, uint64_t seed,
               struct attn_pair_figures *pair)
{
    const struct attn_cycles_world world = {.turns = {.now = scene_now,
                                                      .pause = scene_pause,
                                                      .stopped = scene_stopped,
                                                      .context = scene},
                                            .random = seed,
                                            .clock = scene->clock,
                                            .least_s = ATTN_PAIR_LEAST_S};
    struct attn_side sides[2];
    struct attn_live_sample first[2];
    for (int s = 0; s < 2; s++) {
        models[s].scene = scene;
        models[s].name = s ? 'B' : 'A';
        sides[s] = (struct attn_side){model_batch, &models[s]};
        first[s] = (struct attn_live_sample){.iterations = models[s].iterations, .clock = clock};
    }
    return attn_cycles_run(sides, first, &world, pair);
}

static void test_the_ratio_is_that_of_processor_time(void **state)
{
    (void)state;
    struct scene scene = {.random = 1};
    /* Others come in between B's batches far more often. */
    struct model models[2] = {{.run_s = 1e-5, .iterations = 20, .noise = 0.02, .taken = 0.05},
                              {.run_s = 1.05e-5, .iterations = 19, .noise = 0.02, .taken = 0.6}};
    struct attn_pair_figures pair;
    assert_int_equal(run(&scene, models, ATTN_CLOCK_THREAD, 1, &pair), 0);
    assert_true(fabs(pair.ratio - log(1.05)) < 0.002);
    assert_true(pair.ratio == pair.processor_ratio);
    assert_true(pair.wall_ratio > log(2)); /* the wall clock would be far off */
    assert_int_equal(pair.noise, ATTN_NOISE_CONTENDED);
    assert_true(fabs(pair.sides[0].processor - 1e4) < 100);
    assert_true(pair.sides[1].switches > pair.sides[0].switches);
    assert_int_equal(pair.sides[1].iterations, 19);
}

static void test_the_wall_clock_where_that_is_wanted(void **state)
{
    (void)state;
    struct scene scene = {.random = 2};
    struct model models[2] = {{.run_s = 1e-4, .iterations = 2}, {.run_s = 1e-4, .iterations = 2}};
    struct attn_pair_figures pair;
    models[1].taken = 1; /* all batches: ten times as long on the wall */
    assert_int_equal(run(&scene, models, ATTN_CLOCK_WALL, 1, &pair), 0);
    assert_true(fabs(pair.ratio - log(10)) < 1e-9);
    assert_true(fabs(pair.processor_ratio) < 1e-9);
    assert_int_equal(pair.noise, ATTN_NOISE_UNKNOWN);
}

static void test_the_clock_of_an_earlier_pair_stays(void **state)
{
    (void)state;
    struct scene scene = {.random = 2};
    struct model models[2] = {{.run_s = 1e-4, .iterations = 2}, {.run_s = 1e-4, .iterations = 2}};
    struct attn_pair_figures pair;
    const uint32_t clock = ATTN_CLOCK_PROCESS;
    models[1].taken = 1;
    scene.clock = &clock;
    assert_int_equal(run(&scene, models, ATTN_CLOCK_WALL, 1, &pair), 0);
    assert_int_equal(pair.clock, ATTN_CLOCK_PROCESS);
    assert_true(fabs(pair.ratio) < 1e-9);
}

static void test_a_few_strange_batches_change_nothing(void **state)
{
    (void)state;
    struct scene scene = {.random = 3};
    struct model models[2] = {{.run_s = 2e-4, .iterations = 1}, {.run_s = 2e-4, .iterations = 1}};
    struct attn_pair_figures pair;
    models[1].taken = 0.3;
    assert_int_equal(run(&scene, models, ATTN_CLOCK_WALL, 1, &pair), 0);
    assert_true(fabs(pair.ratio) < 1e-9);
}

static void test_a_pair_has_enough_cycles_and_time(void **state)
{
    (void)state;
    static const struct {
        double run_s;
        int64_t iterations;
        size_t least, most; /* cycles */
    } table[] = {
        {1e-6, 200, 300, 400}, /* short: 0.3 s of them */
        {2.4e-3, 1, 60, 60},   /* 60 take as long */
        {0.02, 1, 60, 60},     /* 60 take longer */
        {0.1, 1, 20, 20},      /* 4 s */
        {1, 1, 10, 10},        /* the fewest of all */
        {1e-12, 1, 700, 800},  /* nothing but pauses */
    };
    for (size_t t = 0; t < sizeof(table) / sizeof(table[0]); t++) {
        struct scene scene = {.random = 4};
        struct model models[2];
        struct attn_pair_figures pair;
        for (int s = 0; s < 2; s++)
            models[s] = (struct model){.run_s = table[t].run_s, .iterations = table[t].iterations};
        assert_int_equal(run(&scene, models, ATTN_CLOCK_THREAD, t, &pair), 0);
        if (pair.cycles < table[t].least || pair.cycles > table[t].most)
            fail_msg("%g s: %zu cycles", table[t].run_s, pair.cycles);
        assert_int_equal(models[0].batches, pair.cycles);
        assert_int_equal(models[1].batches, pair.cycles);
        assert_int_equal(scene.pauses, 2 * pair.cycles);
        size_t exchanges = 1;
        for (size_t cycle = ATTN_EXCHANGE_CYCLE; cycle < pair.cycles; cycle *= 2)
            exchanges++;
        assert_int_equal(models[0].exchanges, exchanges);
        assert_int_equal(models[1].exchanges, models[0].exchanges);
    }
}

/* Runs of 5 ms that wait for 45 more: 100 ms a cycle, but no long runs. */
static void test_waiting_is_no_long_run(void **state)
{
    (void)state;
    struct scene scene = {.random = 11};
    struct model models[2];
    struct attn_pair_figures pair;
    for (int s = 0; s < 2; s++)
        models[s] = (struct model){.run_s = 5e-3, .iterations = 1, .taken = 1};
    assert_int_equal(run(&scene, models, ATTN_CLOCK_THREAD, 1, &pair), 0);
    assert_int_equal(pair.cycles, ATTN_CYCLES_LEAST);
    assert_true(pair.seconds > ATTN_PAIR_LONG_S);
}

static void test_a_noisy_pair_goes_on(void **state)
{
    (void)state;
    double seconds[3];
    for (int n = 0; n < 3; n++) {
        const double noise[] = {0.01, 0.15, 0.9};
        struct scene scene = {.random = 10};
        struct model models[2];
        struct attn_pair_figures pair;
        for (int s = 0; s < 2; s++)
            models[s] = (struct model){.run_s = 1e-4, .iterations = 2, .noise = noise[n]};
        assert_int_equal(run(&scene, models, ATTN_CLOCK_THREAD, 1, &pair), 0);
        seconds[n] = pair.seconds;
        assert_true(n == 2 || pair.error <= ATTN_PAIR_ERROR);
    }
    assert_true(seconds[0] < 1.1 * ATTN_PAIR_LEAST_S);
    assert_true(seconds[1] > 1.5 * ATTN_PAIR_LEAST_S);
    assert_true(seconds[2] > 0.99 * ATTN_PAIR_STRETCH * ATTN_PAIR_LEAST_S);
    assert_true(seconds[2] < 1.01 * ATTN_PAIR_STRETCH * ATTN_PAIR_LEAST_S);
}

static void test_the_order_is_random(void **state)
{
    (void)state;
    struct scene scene = {.random = 5}, again = {.random = 5}, other = {.random = 5};
    struct model models[2] = {{.run_s = 1e-4, .iterations = 2}, {.run_s = 1e-4, .iterations = 2}};
    const struct model fresh[2] = {models[0], models[1]};
    struct attn_pair_figures pair;
    assert_int_equal(run(&scene, models, ATTN_CLOCK_THREAD, 6, &pair), 0);
    size_t first = 0, repeats = 0;
    for (size_t i = 0; i < pair.cycles; i++) {
        first += scene.order[2 * i] == 'A';
        repeats += i > 0 && scene.order[2 * i] == scene.order[2 * i - 2];
        assert_int_not_equal(scene.order[2 * i], scene.order[2 * i + 1]);
    }
    /* Of more than 300 fair throws, 35 to 65 %: five standard deviations. */
    const double least = 0.35 * (double)pair.cycles, most = 0.65 * (double)pair.cycles;
    assert_true((double)first > least && (double)first < most);
    assert_true((double)repeats > least && (double)repeats < most);
    memcpy(models, fresh, sizeof(models));
    assert_int_equal(run(&again, models, ATTN_CLOCK_THREAD, 6, &pair), 0);
    assert_memory_equal(scene.order, again.order, 200);
    memcpy(models, fresh, sizeof(models));
    assert_int_equal(run(&other, models, ATTN_CLOCK_THREAD, 7, &pair), 0);
    assert_memory_not_equal(scene.order, other.order, 200);
}

static void test_a_failure_and_a_stop_end_it(void **state)
{
    (void)state;
    struct scene scene = {.random = 8};
    struct model models[2] = {{.run_s = 1e-4, .iterations = 2},
                              {.run_s = 1e-4, .iterations = 2, .fails_after = 5}};
    struct attn_pair_figures pair;
    assert_int_equal(run(&scene, models, ATTN_CLOCK_THREAD, 1, &pair), -1);
    assert_int_equal(models[1].batches, 5);
    struct scene stopped = {.random = 8, .stops_after = 7};
    models[1].fails_after = 0;
    models[0].batches = models[1].batches = 0;
    assert_int_equal(run(&stopped, models, ATTN_CLOCK_THREAD, 1, &pair), -1);
    assert_int_equal(models[0].batches + models[1].batches, 6);
}

static void test_clocks_and_noise(void **state)
{
    (void)state;
    assert_int_equal(attn_pair_clock(ATTN_CLOCK_THREAD, ATTN_CLOCK_THREAD), ATTN_CLOCK_THREAD);
    assert_int_equal(attn_pair_clock(ATTN_CLOCK_THREAD, ATTN_CLOCK_PROCESS), ATTN_CLOCK_PROCESS);
    assert_int_equal(attn_pair_clock(ATTN_CLOCK_WALL, ATTN_CLOCK_THREAD), ATTN_CLOCK_WALL);
    assert_int_equal(attn_pair_clock(ATTN_CLOCK_DEVICE, ATTN_CLOCK_DEVICE), ATTN_CLOCK_DEVICE);
    assert_int_equal(attn_pair_clock(ATTN_CLOCK_DEVICE, ATTN_CLOCK_PROCESS), ATTN_CLOCK_WALL);
    assert_int_equal(attn_noise_of(1.01, 1), ATTN_NOISE_QUIET);
    assert_int_equal(attn_noise_of(1.1, 1), ATTN_NOISE_SHARED);
    assert_int_equal(attn_noise_of(2, 1), ATTN_NOISE_CONTENDED);
    assert_int_equal(attn_noise_of(2, 0), ATTN_NOISE_UNKNOWN);
    assert_string_equal(attn_noise_name(ATTN_NOISE_CONTENDED), "contended");
}

/* A whole comparison of models under load: the verdict, over many of them. */
static void test_verdicts_of_models(void **state)
{
    (void)state;
    enum { COMPARISONS = 20 };
    static const struct {
        double ratio;
        enum attn_paired_verdict verdict;
    } table[] = {{1, ATTN_PAIRED_SAME}, {1.1, ATTN_PAIRED_SLOWER}, {0.9, ATTN_PAIRED_FASTER}};
    for (size_t t = 0; t < sizeof(table) / sizeof(table[0]); t++) {
        struct scene scene = {.random = 9 + t};
        int right = 0;
        for (int n = 0; n < COMPARISONS; n++) {
            struct attn_paired paired;
            attn_paired_begin(&paired, ATTN_PAIRED_MARGIN);
            for (uint64_t p = 0; paired.verdict == ATTN_PAIRED_GO_ON; p++) {
                struct attn_pair_figures pair;
                struct model models[2] = {
                    {.run_s = 1e-4, .iterations = 2, .noise = 0.05, .taken = 0.3},
                    {.run_s = 1e-4, .iterations = 2, .noise = 0.05, .taken = 0.3}};
                models[1].run_s *= table[t].ratio;
                scene.n_order = 0;
                assert_int_equal(run(&scene, models, ATTN_CLOCK_THREAD, p, &pair), 0);
                attn_paired_add(&paired, pair.ratio);
            }
            right += paired.verdict == table[t].verdict;
        }
        if (right < COMPARISONS - 1)
            fail_msg("ratio %g: %d of %d", table[t].ratio, right, COMPARISONS);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_ratio_is_that_of_processor_time),
        cmocka_unit_test(test_the_wall_clock_where_that_is_wanted),
        cmocka_unit_test(test_the_clock_of_an_earlier_pair_stays),
        cmocka_unit_test(test_a_few_strange_batches_change_nothing),
        cmocka_unit_test(test_a_pair_has_enough_cycles_and_time),
        cmocka_unit_test(test_waiting_is_no_long_run),
        cmocka_unit_test(test_a_noisy_pair_goes_on),
        cmocka_unit_test(test_the_order_is_random),
        cmocka_unit_test(test_a_failure_and_a_stop_end_it),
        cmocka_unit_test(test_clocks_and_noise),
        cmocka_unit_test(test_verdicts_of_models),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
