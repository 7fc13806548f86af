/* SPDX-License-Identifier: Apache-2.0 */
/* test_worker.c - whatever a plugin does becomes the right status and sentence, in bounded time,
 * and the next request works. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "host/worker.h"
#include "tiny.h"

#define PLUGIN(name) TEST_PLUGIN_DIR "/" name ".so"

static char log_path[] = "/tmp/attnbench-test-worker-XXXXXX";

static struct attn_worker_config config_for(const char *plugin)
{
    return (struct attn_worker_config){
        .worker_path = TEST_WORKER,
        .plugin_path = plugin,
        .backend = "test",
        .options = "",
        .threads = 1,
        .log_path = log_path,
        .log_cap = 65536,
        .rss_limit = (uint64_t)384 << 20,
        .timeout_s = 20,
    };
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void pause_ms(long ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

/* Is there such a process (a zombie is none). */
static bool is_running(long pid)
{
    char path[64], state = 'X';
    snprintf(path, sizeof(path), "/proc/%ld/stat", pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    const int n = fscanf(file, "%*d (%*[^)]) %c", &state);
    fclose(file);
    return n == 1 && state != 'Z' && state != 'X';
}

/* Bounded: a process that was killed may take a moment to go. */
static bool ends_soon(long pid)
{
    for (int i = 0; i < 500 && is_running(pid); i++)
        pause_ms(10);
    return !is_running(pid);
}

/* The number that a plugin has written to the log as "pid N"; -1: none. */
static long logged_pid(void)
{
    char line[256];
    long pid = -1;
    FILE *file = fopen(log_path, "re");
    while (file && fgets(line, sizeof(line), file))
        if (strncmp(line, "pid ", 4) == 0)
            pid = strtol(line + 4, NULL, 10);
    if (file)
        fclose(file);
    return pid;
}

/* One verification with a worker of its own. */
static struct attn_outcome verify_once(const struct attn_worker_config *config,
                                       enum attn_placement placement, int64_t gap)
{
    struct attn_worker *worker;
    struct attn_plan_info info;
    double seconds;
    struct attn_outcome outcome = attn_worker_start(config, &worker);
    if (outcome.status != ATTN_PASS)
        return outcome;
    struct attn_instance *instance = tiny_create(3, 5, 4, gap);
    outcome = attn_worker_verify(worker, instance, placement, 1, &info, &seconds);
    tiny_free(instance);
    attn_worker_stop(worker);
    return outcome;
}

static struct attn_outcome verify_plugin(const char *plugin, enum attn_placement placement)
{
    const struct attn_worker_config config = config_for(plugin);
    return verify_once(&config, placement, 0);
}

static void expect(struct attn_outcome outcome, enum attn_status status, const char *reason)
{
    if (outcome.status != status || strcmp(outcome.reason, reason) != 0)
        fail_msg("%s: '%s', expected %s: '%s'", attn_status_name(outcome.status), outcome.reason,
                 attn_status_name(status), reason);
}

static void expect_start(struct attn_outcome outcome, enum attn_status status, const char *reason)
{
    outcome.reason[strlen(reason) < sizeof(outcome.reason) ? strlen(reason) : 0] = 0;
    expect(outcome, status, reason);
}

static void test_good(void **state)
{
    (void)state;
    const enum attn_placement placements[] = {ATTN_PLACE_END, ATTN_PLACE_START};
    const struct attn_worker_config config = config_for(PLUGIN("good"));
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

/* A debugger's worker: no watch, no clock, but the same answers. */
static void test_foreground(void **state)
{
    (void)state;
    struct attn_worker_config config = config_for(PLUGIN("good"));
    config.foreground = true;
    config.timeout_s = 1e-9;
    expect(verify_once(&config, ATTN_PLACE_END, 0), ATTN_PASS, "");
    config.plugin_path = PLUGIN("crash");
    expect(verify_once(&config, ATTN_PLACE_END, 0), ATTN_CRASH, "crashed in run (SIGSEGV at 0x40)");
}

static void test_unsupported(void **state)
{
    (void)state;
    const struct attn_worker_config config = config_for(PLUGIN("good"));
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

static void test_no_keys(void **state)
{
    (void)state;
    const struct attn_worker_config config = config_for(PLUGIN("good"));
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
    const struct attn_worker_config gap = config_for(PLUGIN("gap"));
    expect(verify_once(&gap, ATTN_PLACE_END, 2), ATTN_FAIL, "writes into a gap of out at byte 16");
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
    const struct attn_worker_config config = config_for(PLUGIN("unwritten"));
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

static void test_hang(void **state)
{
    (void)state;
    struct attn_worker_config config = config_for(PLUGIN("hang"));
    config.timeout_s = 0.5;
    const double start = now();
    expect(verify_once(&config, ATTN_PLACE_END, 0), ATTN_TIMEOUT, "no answer within 0.5 s, in run");
    assert_true(now() - start < 15);
    assert_true(logged_pid() > 0);
    assert_true(ends_soon(logged_pid()));
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
    truncate(log_path, 0);
    expect(verify_plugin(PLUGIN("flood"), ATTN_PLACE_END), ATTN_PASS, "");
    assert_int_equal(stat(log_path, &info), 0);
    assert_in_range(info.st_size, 65536, 65536 + 128);
    FILE *file = fopen(log_path, "re");
    assert_non_null(file);
    fseek(file, 65536, SEEK_SET);
    const size_t n = fread(tail, 1, sizeof(tail) - 1, file);
    fclose(file);
    tail[n] = 0;
    assert_non_null(strstr(tail, "[log capped: 209649664 more bytes discarded]"));
}

static void test_fork(void **state)
{
    (void)state;
    truncate(log_path, 0);
    expect(verify_plugin(PLUGIN("fork"), ATTN_PLACE_END), ATTN_PASS, "");
    assert_true(logged_pid() > 0);
    assert_true(ends_soon(logged_pid()));
}

/* A worker that was lost is replaced by the next request. */
static void test_goes_on(void **state)
{
    (void)state;
    const struct attn_worker_config config = config_for(PLUGIN("crash"));
    struct attn_worker *worker;
    struct attn_plan_info info;
    double seconds;
    struct attn_instance *instance = tiny_create(3, 5, 4, 0);
    expect(attn_worker_start(&config, &worker), ATTN_PASS, "");
    for (int i = 0; i < 3; i++) {
        expect(attn_worker_verify(worker, instance, ATTN_PLACE_END, 1, &info, &seconds), ATTN_CRASH,
               "crashed in run (SIGSEGV at 0x40)");
        expect(attn_worker_supports(worker, instance), ATTN_PASS, "");
    }
    attn_worker_stop(worker);
    tiny_free(instance);
}

static void forward_kill(int sig)
{
    (void)sig;
    attn_workers_forward(SIGKILL); /* NOLINT(bugprone-signal-handler): made for this */
}

static void test_forward(void **state)
{
    (void)state;
    const struct itimerval timer = {.it_value = {.tv_usec = 300000}};
    signal(SIGALRM, forward_kill);
    setitimer(ITIMER_REAL, &timer, NULL);
    expect(verify_plugin(PLUGIN("hang"), ATTN_PLACE_END), ATTN_CRASH, "killed by SIGKILL in run");
    signal(SIGALRM, SIG_DFL);
}

/* The host is killed while its worker hangs: the worker goes too. */
static void test_host_killed(void **state)
{
    (void)state;
    truncate(log_path, 0);
    const pid_t host = fork();
    if (host == 0) {
        verify_plugin(PLUGIN("hang"), ATTN_PLACE_END);
        _exit(1);
    }
    assert_true(host > 0);
    for (int i = 0; i < 1000 && logged_pid() < 0; i++)
        pause_ms(10);
    const long worker = logged_pid();
    assert_true(worker > 0);
    assert_true(is_running(worker));
    kill(host, SIGKILL);
    waitpid(host, NULL, 0);
    assert_true(ends_soon(worker));
}

static void test_refusals(void **state)
{
    (void)state;
    struct attn_worker *worker;
    struct attn_worker_config config = config_for(PLUGIN("wrong_version"));
    expect_start(attn_worker_start(&config, &worker), ATTN_ERROR, "the plugin is of ABI version 2");
    assert_null(worker);
    config = config_for(PLUGIN("good"));
    config.backend = "nonesuch";
    expect(attn_worker_start(&config, &worker), ATTN_ERROR, "the plugin has no backend nonesuch");
    config = config_for(PLUGIN("good"));
    config.threads = 100000;
    expect_start(attn_worker_start(&config, &worker), ATTN_ERROR, "100000 threads were asked for");
    config = config_for(PLUGIN("twins"));
    config.options = "tile=x";
    expect(attn_worker_start(&config, &worker), ATTN_ERROR,
           "option tile needs a decimal number, not 'x'");
    config = config_for(PLUGIN("good"));
    config.worker_path = "/nonexistent/attnbench-worker";
    expect(attn_worker_start(&config, &worker), ATTN_ERROR,
           "can not start the worker: /nonexistent/attnbench-worker: No such file or directory");
    config = config_for(PLUGIN("good"));
    config.log_path = "/nonexistent/log";
    expect(attn_worker_start(&config, &worker), ATTN_ERROR,
           "can not start the worker: /nonexistent/log: No such file or directory");
}

static void test_inspect(void **state)
{
    (void)state;
    static struct attn_plugin_info info;
    const struct attn_worker_config config = config_for(PLUGIN("twins"));
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),        cmocka_unit_test(test_unsupported),
        cmocka_unit_test(test_no_keys),     cmocka_unit_test(test_crashes),
        cmocka_unit_test(test_promises),    cmocka_unit_test(test_state),
        cmocka_unit_test(test_unwritten),   cmocka_unit_test(test_errors),
        cmocka_unit_test(test_hang),        cmocka_unit_test(test_hog),
        cmocka_unit_test(test_flood),       cmocka_unit_test(test_fork),
        cmocka_unit_test(test_goes_on),     cmocka_unit_test(test_forward),
        cmocka_unit_test(test_refusals),    cmocka_unit_test(test_inspect),
        cmocka_unit_test(test_host_killed), cmocka_unit_test(test_foreground),
    };
    const int file = mkstemp(log_path);
    if (file < 0)
        return 1;
    close(file);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(log_path);
    return failed;
}
