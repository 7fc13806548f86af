/* SPDX-License-Identifier: Apache-2.0 */
/* test_live.c - a plan that is timed batch by batch: what holds on any machine. */
#include <math.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "attempt.h"
#include "host/live.h"
#include "host/outputs.h"
#include "host/reply.h"
#include "tiny.h"

static struct attn_worker *start(const char *plugin)
{
    return attempt_worker(plugin, NULL, NULL);
}

/* The same problem with other values. */
static struct attn_instance *make_twin(int64_t sq, int64_t sk, int64_t d)
{
    struct attn_instance *twin = tiny_create(sq, sk, d, 0);
    for (uint32_t t = 0; t < 3; t++)
        for (size_t i = 0; i < twin->operands[t].span / sizeof(float); i++)
            ((float *)twin->tensors[t].data)[i] *= -0.75f;
    return twin;
}

static void check(const struct attn_outcome outcome)
{
    if (outcome.status != ATTN_PASS)
        fail_msg("%s: %s", attn_status_name(outcome.status), outcome.reason);
}

/* Batches, of which the first `exchanges` ask for other inputs. */
static void run_batches(struct attn_live *live, int n, int exchanges,
                        const struct attn_live_sample *first)
{
    for (int b = 0; b < n; b++) {
        struct attn_live_sample sample;
        check(attn_live_batch(live, b < exchanges, &sample));
        assert_int_equal(sample.iterations, first->iterations);
        assert_int_equal(sample.clock, first->clock);
        assert_true(sample.wall_ns > 0 && sample.processor_ns > 0);
        /* One thread has no more than the time on the wall, but for the reading of clocks. */
        assert_true(sample.processor_ns < 1.05 * sample.wall_ns + 1e5);
    }
}

static void test_batches(void **state)
{
    (void)state;
    /* An odd number of exchanges leaves the twin's inputs in place. */
    for (int exchanges = 0; exchanges < 3; exchanges++) {
        struct attn_worker *worker = start(PLUGIN("good"));
        struct attn_instance *base = tiny_create(32, 64, 16, 0), *twin = make_twin(32, 64, 16);
        const struct attn_live_params params = {.twin = twin};
        struct attn_live_sample first;
        struct attn_bench_reply reply;
        struct attn_plan_info info;
        struct attn_live *live;
        check(attn_live_begin(worker, base, &params, &live, &first));
        /* As many runs as fit into 0.2 ms, by the fastest single run; or one. */
        assert_true(first.wall_ns > 0);
        assert_true(first.iterations == 1 ||
                    (double)first.iterations * first.wall_ns <= 2e5 * (1 + 1e-9));
        assert_true((double)(first.iterations + 1) * first.wall_ns > 2e5 * (1 - 1e-9));
        assert_true(first.bytes > 0 && first.huge_bytes <= first.bytes);
        run_batches(live, 6, exchanges, &first);
        check(attn_live_end(live, &reply, &info));
        assert_int_equal(reply.last, exchanges % 2 ? ATTN_STATE_SECOND : 0);
        assert_in_range(reply.drawn, 1, ATTN_STATES);
        /* The last run's outputs lie in the base, those of the drawn run in the twin; both have to
         * be where their inputs are. */
        if (exchanges % 2) {
            struct attn_instance *drawn = tiny_create(32, 64, 16, 0);
            attn_outputs_copy(drawn, twin);
            attn_outputs_copy(twin, base);
            assert_true(tiny_error(twin) < 1e-5);
            attn_outputs_copy(reply.drawn - 1 == ATTN_STATE_SECOND ? twin : base, drawn);
            assert_true(tiny_error(reply.drawn - 1 == ATTN_STATE_SECOND ? twin : base) < 1e-5);
            tiny_free(drawn);
        } else {
            assert_true(tiny_error(base) < 1e-5);
        }
        assert_true(info.has_numerics);
        tiny_free(base);
        tiny_free(twin);
        /* The worker serves on. */
        base = tiny_create(3, 5, 4, 0);
        check(attn_live_begin(worker, base, &(struct attn_live_params){.iterations = 7}, &live,
                              &first));
        assert_int_equal(first.iterations, 7);
        check(attn_live_end(live, &reply, NULL));
        assert_true(tiny_error(base) < 1e-5);
        tiny_free(base);
        attn_worker_stop(worker);
    }
}

static void test_device(void **state)
{
    (void)state;
    struct attn_worker *worker = start(PLUGIN("device"));
    struct attn_instance *instance = tiny_create(3, 5, 4, 0);
    const struct attn_live_params params = {.iterations = 0};
    struct attn_live_sample first, sample;
    struct attn_bench_reply reply;
    struct attn_live *live;
    check(attn_live_begin(worker, instance, &params, &live, &first));
    assert_int_equal(first.clock, ATTN_CLOCK_DEVICE);
    assert_int_equal(first.iterations, 64); /* at most; 1 ms has 81 */
    check(attn_live_batch(live, false, &sample));
    assert_true(fabs(sample.device_ns / 64 - 12345) < 1e-6);
    check(attn_live_end(live, &reply, NULL));
    assert_true(reply.after.clock_mhz == 1500);
    assert_true(tiny_error(instance) < 1e-5);
    tiny_free(instance);
    attn_worker_stop(worker);
}

static struct attn_outcome begin_live(struct attn_worker *worker, struct attn_instance *instance)
{
    const struct attn_live_params params = {.iterations = 0};
    struct attn_live_sample first;
    struct attn_live *live;
    const struct attn_outcome outcome = attn_live_begin(worker, instance, &params, &live, &first);
    assert_null(live);
    return outcome;
}

static void test_failures(void **state)
{
    (void)state;
    attempt_failures(begin_live);
}

/* What a thread computes between two runs is in nobody's time. */
static void test_work_between_runs(void **state)
{
    (void)state;
    struct attn_worker *worker = attempt_worker(PLUGIN("linger"), "how=compute", NULL);
    struct attn_instance *instance = tiny_create(3, 5, 4, 0);
    const struct attn_live_params params = {.iterations = 1};
    struct attn_live_sample sample;
    struct attn_bench_reply reply;
    struct attn_live *live;
    check(attn_live_begin(worker, instance, &params, &live, &sample));
    for (int b = 0; b < 3; b++) {
        nanosleep(&(struct timespec){.tv_nsec = 80000000}, NULL);
        check(attn_live_batch(live, false, &sample));
    }
    const struct attn_outcome outcome = attn_live_end(live, &reply, NULL);
    assert_int_equal(outcome.status, ATTN_FAIL);
    assert_non_null(strstr(outcome.reason, "computes between runs"));
    tiny_free(instance);
    attn_worker_stop(worker);
}

/* A worker that lets another process compute has no processor time to tell. On a busy machine it
 * waits for a processor in each of its single runs at times, and so seems to want to compute: it
 * begins anew then. */
static void test_work_elsewhere(void **state)
{
    (void)state;
    struct attn_worker *worker = start(PLUGIN("proxy"));
    struct attn_instance *instance = tiny_create(32, 100, 32, 0);
    const struct attn_live_params params = {.iterations = 0};
    struct attn_live_sample first, sample;
    struct attn_bench_reply reply;
    struct attn_live *live;
    for (int attempt = 0; attempt < 12; attempt++) {
        check(attn_live_begin(worker, instance, &params, &live, &first));
        if (first.clock == ATTN_CLOCK_WALL)
            break;
        attn_live_end(live, &reply, NULL); /* fails, as it should: a child's time was hidden */
        attn_worker_stop(worker);
        worker = start(PLUGIN("proxy"));
    }
    assert_int_equal(first.clock, ATTN_CLOCK_WALL);
    check(attn_live_batch(live, false, &sample));
    assert_true(sample.processor_ns < 0.5 * sample.wall_ns);
    check(attn_live_end(live, &reply, NULL));
    assert_true(tiny_error(instance) < 1e-5);
    tiny_free(instance);
    attn_worker_stop(worker);
}

static void test_processors(void **state)
{
    (void)state;
    cpu_set_t allowed, has;
    assert_int_equal(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
    for (uint32_t p = 0; p < CPU_SETSIZE; p++) {
        if (!CPU_ISSET(p, &allowed))
            continue;
        struct attn_worker *worker = attempt_worker(PLUGIN("good"), "", &p);
        const pid_t pid = (pid_t)attn_worker_pid(worker);
        assert_int_equal(sched_getaffinity(pid, sizeof(has), &has), 0);
        assert_int_equal(CPU_COUNT(&has), 1);
        assert_true(CPU_ISSET(p, &has));
        attn_worker_stop(worker);
        if (p > 8) /* some of many */
            break;
    }
}

static void test_impossible_samples(void **state)
{
    (void)state;
    const struct attn_message_sample good = {
        .head = {.length = sizeof(good), .type = ATTN_MESSAGE_SAMPLE},
        .sample = {.iterations = 1, .wall_ns = 1, .clock = ATTN_CLOCK_DEVICE}};
    struct attn_message_sample bad[6] = {good, good, good, good, good, good};
    char why[256];
    assert_int_equal(attn_sample_check(&good, why, sizeof(why)), 0);
    bad[0].head.length--;
    bad[1].sample.wall_ns = NAN;
    bad[2].sample.processor_ns = -1;
    bad[3].sample.device_ns = INFINITY;
    bad[4].sample.iterations = 0;
    bad[5].sample.clock = ATTN_CLOCK_DEVICE + 1;
    for (size_t b = 0; b < sizeof(bad) / sizeof(bad[0]); b++)
        assert_int_equal(attn_sample_check(&bad[b], why, sizeof(why)), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_batches),
        cmocka_unit_test(test_device),
        cmocka_unit_test(test_failures),
        cmocka_unit_test(test_work_between_runs),
        cmocka_unit_test(test_work_elsewhere),
        cmocka_unit_test(test_processors),
        cmocka_unit_test(test_impossible_samples),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
