/* SPDX-License-Identifier: Apache-2.0 */
/* test_worker.c - whatever a plugin does, the status and the sentence are right. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "attempt.h"
#include "host/confine.h"
#include "host/worker.h"
#include "tiny.h"

static void test_good(void **state)
{
    (void)state;
    const enum attn_placement placements[] = {ATTN_PLACE_END, ATTN_PLACE_START};
    const struct attn_worker_config config = attempt_config(PLUGIN("good"));
    struct attn_worker *worker;
    expect(attn_worker_start(&config, &worker), ATTN_PASS, "");
    for (int64_t gap = 0; gap < 4; gap += 3) {
        for (int p = 0; p < 2; p++) {
            struct attn_instance *instance = tiny_create(3, 5, 4, gap);
            struct attn_plan_info info;
            double seconds = -1;
            expect(attn_worker_supports(worker, instance), ATTN_PASS, "");
            expect(attn_worker_verify(worker, instance, placements[p], 2, &info, &seconds),
                   ATTN_PASS, "");
            assert_true(tiny_error(instance) < 1e-5);
            assert_true(seconds >= 0);
            assert_true(info.has_numerics);
            assert_int_equal(info.numerics.acc_type, ATTN_F32);
            assert_string_equal(info.numerics.source, "a test");
            assert_true(info.workspace_bytes >= sizeof(struct attn_problem));
            assert_non_null(strstr(info.protection, "guard"));
            assert_int_equal(info.threads_seen, 1);
            tiny_free(instance);
        }
    }
    attn_worker_stop(worker);
}

static void test_unsupported(void **state)
{
    (void)state;
    const struct attn_worker_config config = attempt_config(PLUGIN("good"));
    struct attn_worker *worker;
    struct attn_plan_info info;
    double seconds;
    struct attn_instance *instance = tiny_create(3, 5, 4, 0);
    instance->problem.flags = 1ull << 63;
    expect(attn_worker_start(&config, &worker), ATTN_PASS, "");
    expect(attn_worker_supports(worker, instance), ATTN_SKIP, "only plain f32 attention");
    expect(attn_worker_verify(worker, instance, ATTN_PLACE_END, 1, &info, &seconds), ATTN_SKIP,
           "only plain f32 attention");
    attn_worker_stop(worker);
    tiny_free(instance);
}

/* Whoever accepts everything is found at the first question; good refuses them all. */
static void test_unknowns(void **state)
{
    (void)state;
    static const char *const accepted[] = {"flag bit 7",
                                           "op ",
                                           "score ",
                                           "a problem of type ",
                                           "an operand of role ",
                                           "a problem structure of ",
                                           "type 0 of q",
                                           "q in memory space ",
                                           "q on device 1"};
    struct attn_worker_config config = attempt_config(PLUGIN("good"));
    struct attn_worker *worker;
    struct attn_instance *instance = tiny_create(3, 5, 4, 0);
    expect(attn_worker_start(&config, &worker), ATTN_PASS, "");
    expect(attn_worker_unknowns(worker, instance), ATTN_PASS, "");
    attn_worker_stop(worker);
    config.plugin_path = PLUGIN("credulous");
    for (size_t n = 0; n < sizeof(accepted) / sizeof(accepted[0]); n++) {
        char options[32], reason[64];
        snprintf(options, sizeof(options), "accepts=%zu", n);
        snprintf(reason, sizeof(reason), "supports accepts %s", accepted[n]);
        config.options = options;
        expect(attn_worker_start(&config, &worker), ATTN_PASS, "");
        expect(attn_worker_supports(worker, instance), ATTN_PASS, "");
        expect_start(attn_worker_unknowns(worker, instance), ATTN_FAIL, reason);
        attn_worker_stop(worker);
    }
    tiny_free(instance);
}

static void test_no_keys(void **state)
{
    (void)state;
    const struct attn_worker_config config = attempt_config(PLUGIN("good"));
    struct attn_worker *worker;
    struct attn_plan_info info;
    double seconds;
    struct attn_instance *instance = tiny_create(3, 0, 4, 0);
    expect(attn_worker_start(&config, &worker), ATTN_PASS, "");
    expect(attn_worker_verify(worker, instance, ATTN_PLACE_END, 1, &info, &seconds), ATTN_PASS, "");
    attn_worker_stop(worker);
    tiny_free(instance);
}

static void test_crashes(void **state)
{
    (void)state;
    expect(verify_plugin(PLUGIN("crash"), ATTN_PLACE_END), ATTN_CRASH,
           "crashed in run (SIGSEGV at 0x40)");
    expect(verify_plugin(PLUGIN("crash_create"), ATTN_PLACE_END), ATTN_CRASH,
           "crashed in create (SIGSEGV at 0x40)");
    expect(verify_plugin(PLUGIN("steal"), ATTN_PLACE_END), ATTN_CRASH,
           "crashed in run (SIGSEGV at 0x40)");
    expect(verify_plugin(PLUGIN("thread_crash"), ATTN_PLACE_END), ATTN_CRASH,
           "crashed in run (SIGSEGV at 0x40)");
    expect(verify_plugin(PLUGIN("abort"), ATTN_PLACE_END), ATTN_CRASH, "crashed in run (SIGABRT)");
    expect(verify_plugin(PLUGIN("exit"), ATTN_PLACE_END), ATTN_CRASH,
           "exited with status 3 in run");
    expect_start(verify_plugin(PLUGIN("stack"), ATTN_PLACE_END), ATTN_CRASH,
                 "crashed in run (SIGSEGV at 0x");
}

static void test_promises(void **state)
{
    (void)state;
    expect(verify_plugin(PLUGIN("read_past"), ATTN_PLACE_END), ATTN_FAIL,
           "reads past the end of k (4 bytes beyond), in run");
    expect(verify_plugin(PLUGIN("read_before"), ATTN_PLACE_START), ATTN_FAIL,
           "reads before the start of v (4 bytes before), in run");
    expect(verify_plugin(PLUGIN("write_past"), ATTN_PLACE_END), ATTN_FAIL,
           "writes past the end of out (4 bytes beyond), in run");
    expect(verify_plugin(PLUGIN("write_past"), ATTN_PLACE_START), ATTN_FAIL,
           "writes past the end of out (4 bytes beyond)");
    expect(verify_plugin(PLUGIN("write_before"), ATTN_PLACE_START), ATTN_FAIL,
           "writes before the start of out (4 bytes before), in run");
    expect(verify_plugin(PLUGIN("write_before"), ATTN_PLACE_END), ATTN_FAIL,
           "writes before the start of out (4 bytes before)");
    expect(verify_plugin(PLUGIN("modify"), ATTN_PLACE_END), ATTN_FAIL,
           "writes to input q at byte 8, in run");
    const struct attn_worker_config gap = attempt_config(PLUGIN("gap"));
    expect(attempt_verify(&gap, ATTN_PLACE_END, 2), ATTN_FAIL,
           "writes into a gap of out at byte 16");
}

static void test_state(void **state)
{
    (void)state;
    expect(verify_plugin(PLUGIN("ftz"), ATTN_PLACE_END), ATTN_FAIL,
           "leaves MXCSR changed (0x1f80 -> 0x9f80), in run");
}

static void test_unwritten(void **state)
{
    (void)state;
    const struct attn_worker_config config = attempt_config(PLUGIN("unwritten"));
    struct attn_worker *worker;
    struct attn_plan_info info;
    double seconds;
    struct attn_instance *instance = tiny_create(3, 5, 4, 0);
    expect(attn_worker_start(&config, &worker), ATTN_PASS, "");
    expect(attn_worker_verify(worker, instance, ATTN_PLACE_END, 1, &info, &seconds), ATTN_PASS, "");
    /* The values are judged by the caller: NaN everywhere. */
    assert_true(tiny_error(instance) > 1e30);
    attn_worker_stop(worker);
    tiny_free(instance);
}

/* The same result again and again is right in the first comparison, and seen in the second. */
static void test_stale(void **state)
{
    (void)state;
    expect(verify_plugin(PLUGIN("stale"), ATTN_PLACE_END), ATTN_PASS, "");
    expect(verify_plugin(PLUGIN("stale"), ATTN_PLACE_START), ATTN_FAIL,
           "gives an earlier result: out did not change when the signs of v were turned between "
           "two runs");
    expect(verify_plugin(PLUGIN("good"), ATTN_PLACE_START), ATTN_PASS, "");
    expect(verify_plugin(PLUGIN("device"), ATTN_PLACE_START), ATTN_PASS, "");
}

static void test_errors(void **state)
{
    (void)state;
    expect(verify_plugin(PLUGIN("refuse"), ATTN_PLACE_END), ATTN_ERROR,
           "run failed: the sky is falling");
    expect(verify_plugin(PLUGIN("no_init"), ATTN_PLACE_END), ATTN_SKIP,
           "the library is not installed");
    expect(verify_plugin(PLUGIN("no_probe"), ATTN_PLACE_END), ATTN_SKIP, "no such device");
    expect_start(verify_plugin(PLUGIN("bad_numerics"), ATTN_PLACE_END), ATTN_ERROR,
                 "numerics declares an impossible acc_type");
}

static void test_hog(void **state)
{
    (void)state;
    const struct attn_outcome outcome = verify_plugin(PLUGIN("hog"), ATTN_PLACE_END);
    assert_int_equal(outcome.status, ATTN_OOM);
    assert_non_null(strstr(outcome.reason, "in run, over the limit of 384 MiB"));
#if !TEST_SANITIZED
    expect(verify_plugin(PLUGIN("reserve"), ATTN_PLACE_END), ATTN_OOM,
           "create was refused memory: no memory for the plan");
#endif
}

static void test_flood(void **state)
{
    (void)state;
    struct stat info;
    char tail[128] = "";
    assert_int_equal(truncate(attempt_log, 0), 0);
    expect(verify_plugin(PLUGIN("flood"), ATTN_PLACE_END), ATTN_PASS, "");
    assert_int_equal(stat(attempt_log, &info), 0);
    assert_in_range(info.st_size, 65536, 65536 + 128);
    FILE *file = fopen(attempt_log, "re");
    assert_non_null(file);
    fseek(file, 65536, SEEK_SET);
    const size_t n = fread(tail, 1, sizeof(tail) - 1, file);
    fclose(file);
    tail[n] = 0;
    assert_non_null(strstr(tail, "[log capped: 209649664 more bytes discarded]"));
}

static void test_refusals(void **state)
{
    (void)state;
    struct attn_worker *worker;
    struct attn_worker_config config = attempt_config(PLUGIN("wrong_version"));
    expect_start(attn_worker_start(&config, &worker), ATTN_ERROR, "the plugin is of ABI version 2");
    assert_null(worker);
    config = attempt_config(PLUGIN("good"));
    config.backend = "nonesuch";
    expect(attn_worker_start(&config, &worker), ATTN_ERROR, "the plugin has no backend nonesuch");
    config = attempt_config(PLUGIN("good"));
    config.threads = 100000;
    expect_start(attn_worker_start(&config, &worker), ATTN_ERROR, "100000 threads were asked for");
    config = attempt_config(PLUGIN("twins"));
    config.options = "tile=x";
    expect(attn_worker_start(&config, &worker), ATTN_ERROR,
           "option tile needs a decimal number, not 'x'");
    config = attempt_config(PLUGIN("good"));
    config.worker_path = "/nonexistent/attnbench-worker";
    expect(attn_worker_start(&config, &worker), ATTN_ERROR,
           "cannot start the worker: /nonexistent/attnbench-worker: No such file or directory");
    config = attempt_config(PLUGIN("good"));
    config.log_path = "/nonexistent/log";
    expect(attn_worker_start(&config, &worker), ATTN_ERROR,
           "cannot start the worker: /nonexistent/log: No such file or directory");
}

static void test_inspect(void **state)
{
    (void)state;
    static struct attn_plugin_info info;
    const struct attn_worker_config config = attempt_config(PLUGIN("twins"));
    expect(attn_worker_inspect(&config, &info), ATTN_PASS, "");
    assert_int_equal(info.n_backends, 2);
    assert_string_equal(info.backends[0].name, "test");
    assert_string_equal(info.backends[0].version, "testlib 1.2");
    assert_true(info.backends[0].available);
    assert_int_equal(info.backends[0].n_options, 3);
    assert_string_equal(info.backends[0].options[0].choices, "plain|wide");
    assert_string_equal(info.backends[1].name, "other");
    assert_int_equal(info.backends[1].exactness, ATTN_NONE);
    assert_false(info.backends[1].available);
    assert_string_equal(info.backends[1].reason, "no such device");
}

/* One run on other inputs in the same place. The error is that of the answer to them. */
static struct attn_outcome renew(const char *plugin, const char *options, double *error)
{
    struct attn_worker_config config = attempt_config(plugin);
    struct attn_worker *worker;
    struct attn_plan_info info;
    config.options = options;
    struct attn_outcome outcome = attn_worker_start(&config, &worker);
    if (outcome.status != ATTN_PASS)
        return outcome;
    struct attn_instance *instance = tiny_create(3, 5, 4, 0), *twin = tiny_create(3, 5, 4, 0);
    for (int t = 0; t < 3; t++)
        for (size_t i = 0; i < twin->operands[t].span / sizeof(float); i++)
            ((float *)twin->tensors[t].data)[i] *= (i + (size_t)t) % 2 ? 2 : -1;
    outcome = attn_worker_renew(worker, instance, twin, 10, 1, false, &info);
    *error = outcome.status == ATTN_PASS ? tiny_error(twin) : 0;
    attn_worker_stop(worker);
    tiny_free(instance);
    tiny_free(twin);
    return outcome;
}

static void test_renewed(void **state)
{
    (void)state;
    double error;
    expect(renew(PLUGIN("good"), "", &error), ATTN_PASS, "");
    assert_true(error < 1e-5);
    expect(renew(PLUGIN("device"), "", &error), ATTN_PASS, "");
    assert_true(error < 1e-5);
    expect(renew(PLUGIN("stale"), "", &error), ATTN_PASS, "");
    assert_true(error > 1e-2);
}

/* On a machine that is full the thread that lingers may hardly get a turn. */
static struct attn_outcome linger(const char *how)
{
    struct attn_outcome outcome = {.status = ATTN_PASS};
    double error;
    for (int n = 0; n < 20 && outcome.status == ATTN_PASS; n++)
        outcome = renew(PLUGIN("linger"), how, &error);
    return outcome;
}

static void test_lingering(void **state)
{
    (void)state;
    expect(linger("how=write"), ATTN_FAIL, "out changes after run has returned");
    expect_start(linger("how=compute"), ATTN_FAIL, "keeps computing after run has returned: ");
}

/* Nothing of the host is open to a plugin. */
static void test_snoop(void **state)
{
    (void)state;
    double error;
    expect(renew(PLUGIN("snoop"), "", &error), ATTN_PASS, "");
    if (geteuid() == 0 &&
        !(attn_confine_possible(attn_confine_level())->rungs & 1u << ATTN_RUNG_USER))
        skip(); /* nothing stops root here, and machine.json says so */
    assert_true(error < 1e-5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),     cmocka_unit_test(test_unsupported),
        cmocka_unit_test(test_no_keys),  cmocka_unit_test(test_crashes),
        cmocka_unit_test(test_unknowns), cmocka_unit_test(test_promises),
        cmocka_unit_test(test_state),    cmocka_unit_test(test_unwritten),
        cmocka_unit_test(test_stale),    cmocka_unit_test(test_errors),
        cmocka_unit_test(test_hog),      cmocka_unit_test(test_flood),
        cmocka_unit_test(test_refusals), cmocka_unit_test(test_inspect),
        cmocka_unit_test(test_renewed),  cmocka_unit_test(test_lingering),
        cmocka_unit_test(test_snoop),
    };
    if (attempt_setup() != 0)
        return 1;
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    attempt_teardown();
    return failed;
}
