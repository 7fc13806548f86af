/* SPDX-License-Identifier: Apache-2.0 */
/* test_measure.c - timing, peak memory and ceilings: what holds on any machine. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "attempt.h"
#include "host/worker.h"
#include "tiny.h"

#define MIB ((uint64_t)1 << 20)

static struct attn_worker *start(const char *plugin)
{
    return attempt_worker(plugin, NULL, NULL);
}

static struct attn_outcome bench(struct attn_worker *worker, struct attn_instance *instance,
                                 const struct attn_bench_params *params,
                                 struct attn_bench_reply *reply)
{
    struct attn_plan_info info;
    memset(reply, 0, sizeof(*reply));
    return attn_worker_bench(worker, instance, params, reply, &info);
}

static void check_samples(const struct attn_bench_reply *reply, int n)
{
    assert_int_equal(reply->n, n);
    for (int s = 0; s < n; s++) {
        assert_true(reply->samples_ns[s] > 0);
        assert_true(reply->iterations[s] >= 1);
    }
}

static void test_hot_and_cold(void **state)
{
    (void)state;
    struct attn_worker *worker = start(PLUGIN("good"));
    /* Again and again in one process, as in a block of cases. */
    for (int i = 0; i < 3; i++) {
        struct attn_instance *instance = tiny_create(32, 64, 16, i);
        struct attn_bench_reply hot, cold;
        const struct attn_bench_params hot_params = {.min_time = 0.05, .samples = 4};
        const struct attn_bench_params cold_params = {.cold = true, .samples = 2};
        assert_int_equal(bench(worker, instance, &hot_params, &hot).status, ATTN_PASS);
        check_samples(&hot, 4);
        assert_true(hot.iterations[0] > 3);
        assert_true(hot.cpu_ns[0] > 0 && hot.cpu_ns[3] > 0);
        assert_int_equal(hot.iterations[0], hot.iterations[3]);
        assert_true(tiny_error(instance) < 1e-5);
        memset(instance->tensors[3].data, 0, instance->operands[3].span);
        assert_int_equal(bench(worker, instance, &cold_params, &cold).status, ATTN_PASS);
        check_samples(&cold, 2);
        assert_true(cold.iterations[0] <= 5);
        assert_true(cold.cpu_ns[0] == 0); /* it would hold what evicting took */
        assert_true(tiny_error(instance) < 1e-5);
        tiny_free(instance);
    }
    attn_worker_stop(worker);
}

/* tiny_create(3, 5, 4, 0): 256 bytes of operands. */
static void test_device(void **state)
{
    (void)state;
    struct attn_worker *worker = start(PLUGIN("device"));
    struct attn_instance *instance = tiny_create(3, 5, 4, 0);
    struct attn_bench_reply reply;
    struct attn_bench_params params = {.min_time = 0.001, .samples = 2};
    assert_int_equal(bench(worker, instance, &params, &reply).status, ATTN_PASS);
    check_samples(&reply, 2);
    assert_true(fabs(reply.samples_ns[0] - 12345) < 1);
    assert_true(tiny_error(instance) < 1e-5);
    assert_int_equal(reply.before.struct_size, sizeof(reply.before));
    assert_true(reply.before.launch_ns <= 1); /* runs at once: the first is alone */
    assert_true(reply.after.launch_ns == 64); /* at most; 1 ms has 81 */
    assert_true(reply.after.copy_gbs == 1);   /* bindings */
    assert_true(reply.after.clock_mhz == 1500);
    assert_int_equal(strlen(reply.after.throttled), sizeof(reply.after.throttled) - 1);

    /* Cold: as many bindings as exceed twice its cache of 4096 bytes, in turn. */
    params.cold = true;
    const struct attn_outcome cold = bench(worker, instance, &params, &reply);
    assert_string_equal(cold.reason, "");
    check_samples(&reply, 2);
    assert_true(reply.after.copy_gbs == 1 + 2 * 4096 / 257);
    assert_true(tiny_error(instance) < 1e-5);
    tiny_free(instance);
    attn_worker_stop(worker);
}

/* A timing of a tiny problem. */
static struct attn_outcome bench_tiny(const char *plugin, const char *options, double min_time)
{
    struct attn_worker *worker = attempt_worker(plugin, options, NULL);
    struct attn_instance *instance = tiny_create(3, 5, 4, 0);
    struct attn_bench_reply reply;
    const struct attn_bench_params params = {.min_time = min_time, .samples = 4};
    const struct attn_outcome outcome = bench(worker, instance, &params, &reply);
    tiny_free(instance);
    attn_worker_stop(worker);
    return outcome;
}

/* A device's clock that leaves out nine tenths of the time. */
static void test_false_clock(void **state)
{
    (void)state;
    const char *reason = "the device's clock says less than half of the time";
    assert_int_equal(bench_tiny(PLUGIN("false_clock"), "by=1", 0.001).status, ATTN_PASS);
    const struct attn_outcome outcome = bench_tiny(PLUGIN("false_clock"), "by=10", 0.001);
    if (outcome.status != ATTN_SUSPECT)
        fail_msg("%s", outcome.reason);
    assert_int_equal(strncmp(outcome.reason, reason, strlen(reason)), 0);
}

/* Something that computes beside run, on whatever processors there are. */
static void expect_beside(const char *how)
{
    const char *reason = "more threads compute at once than --threads 1: ";
    struct attn_outcome outcome = {.status = ATTN_PASS};
    /* On a machine that is full the thread may hardly get a turn. */
    for (int n = 0; n < 20 && outcome.status == ATTN_PASS; n++)
        outcome = bench_tiny(PLUGIN("linger"), how, 0.05);
    assert_int_equal(outcome.status, ATTN_FAIL);
    assert_int_equal(strncmp(outcome.reason, reason, strlen(reason)), 0);
}

static void test_beside(void **state)
{
    (void)state;
    expect_beside("how=beside");
    expect_beside("how=daemon");
}

static void test_device_memory(void **state)
{
    (void)state;
    struct attn_worker *worker = start(PLUGIN("device"));
    struct attn_instance *instance = tiny_create(3, 5, 4, 0);
    uint64_t bytes = 0, taken = 0;
    const struct attn_outcome outcome = attn_worker_peak(worker, instance, &bytes, &taken);
    assert_string_equal(outcome.reason, "");
    assert_int_equal(bytes, 1000);
    assert_int_equal(taken, 20000);
    tiny_free(instance);
    attn_worker_stop(worker);
}

static void test_long_run(void **state)
{
    (void)state;
    struct attn_worker *worker = start(PLUGIN("slow"));
    struct attn_instance *instance = tiny_create(3, 5, 4, 0);
    struct attn_bench_reply reply;
    const struct attn_bench_params params = {.min_time = 0.001, .samples = 8};
    assert_int_equal(bench(worker, instance, &params, &reply).status, ATTN_PASS);
    check_samples(&reply, 1);
    assert_int_equal(reply.iterations[0], 1);
    assert_true(reply.samples_ns[0] > 1e9);
    tiny_free(instance);
    attn_worker_stop(worker);
}

static struct attn_outcome bench_briefly(struct attn_worker *worker, struct attn_instance *instance)
{
    struct attn_bench_reply reply;
    const struct attn_bench_params params = {.min_time = 0.001, .samples = 2};
    return bench(worker, instance, &params, &reply);
}

static void test_failures(void **state)
{
    (void)state;
    attempt_failures(bench_briefly);
}

static uint64_t peak(const char *plugin)
{
    struct attn_worker *worker = start(plugin);
    struct attn_instance *instance = tiny_create(256, 64, 32, 0);
    uint64_t bytes = 0, taken = 1;
    const struct attn_outcome outcome = attn_worker_peak(worker, instance, &bytes, &taken);
    if (outcome.status != ATTN_PASS)
        fail_msg("%s", outcome.reason);
    assert_int_equal(taken, 0);
    assert_true(tiny_error(instance) < 1e-5);
    tiny_free(instance);
    attn_worker_stop(worker);
    return bytes;
}

/* The kernel counts resident pages in batches a processor: a MiB of slack. ThreadSanitizer keeps
 * four and a half bytes for each that is touched. */
#ifdef __SANITIZE_THREAD__
#define SLACK (512 * MIB)
#else
#define SLACK (TEST_SANITIZED ? 32 * MIB : MIB)
#endif

static void test_peak(void **state)
{
    (void)state;
    const uint64_t slack = SLACK;
    assert_true(peak(PLUGIN("good")) < slack);
    const uint64_t bytes = peak(PLUGIN("grow"));
    assert_true(bytes + MIB > 96 * MIB);
    assert_true(bytes < 96 * MIB + slack);
}

static void test_ceilings(void **state)
{
    (void)state;
    struct attn_worker *worker = start(NULL);
    struct attn_ceilings c = {.n_rungs = 0};
    const struct attn_outcome outcome = attn_worker_ceilings(worker, &c);
    if (outcome.status != ATTN_PASS)
        fail_msg("%s", outcome.reason);
    attn_worker_stop(worker);
    assert_in_range(c.n_rungs, 1, ATTN_RUNGS_MAX);
#if defined(__x86_64__) || defined(__aarch64__)
    assert_true(c.clock_ghz > 0.5 && c.clock_ghz < 10);
#endif
    for (uint32_t r = 0; r < c.n_rungs; r++) {
        assert_true(strlen(c.rungs[r].isa) > 0);
        if (strcmp(c.rungs[r].isa, "amx") == 0) { /* tiles are wider than any vector */
            assert_true(r + 1 == c.n_rungs && c.rungs[r].bf16 > c.rungs[r - 1].bf16);
            continue;
        }
        assert_true(c.rungs[r].f32 > 0);
        /* Half the elements a register, or a machine that is slower still in f64; a loop that did
         * not run what it counts would break this. */
        assert_true(c.rungs[r].f64 > 0);
        assert_true(c.rungs[r].f64 < 0.75 * c.rungs[r].f32);
    }
    assert_in_range(c.n_reads, 1, ATTN_READS_MAX);
    assert_true(c.reads[c.n_reads - 1].bytes == 0);
    assert_true(c.reads[c.n_reads - 1].gbs > 0);
    for (uint32_t r = 1; r < c.n_reads; r++) {
        assert_true(r + 1 == c.n_reads || c.reads[r].bytes > c.reads[r - 1].bytes);
        /* Each level is slower than the one before; a machine with other work on it may read its
         * last cache at the rate of memory. */
        assert_true(c.reads[r].gbs < 1.5 * c.reads[r - 1].gbs);
    }
    assert_true(c.reads[c.n_reads - 1].gbs < c.reads[0].gbs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hot_and_cold),  cmocka_unit_test(test_device),
        cmocka_unit_test(test_false_clock),   cmocka_unit_test(test_beside),
        cmocka_unit_test(test_device_memory), cmocka_unit_test(test_long_run),
        cmocka_unit_test(test_failures),      cmocka_unit_test(test_peak),
        cmocka_unit_test(test_ceilings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
