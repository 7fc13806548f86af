/* SPDX-License-Identifier: Apache-2.0 */
/* test_lifetime.c - no worker and no child of a worker outlives its time, and work continues after
 * a worker was lost. */
#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "attempt.h"
#include "host/worker.h"
#include "tiny.h"

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

/* Is there a process of that name (a zombie is none). */
static bool is_running(const char *name)
{
    bool found = false;
    DIR *processes = opendir("/proc");
    for (const struct dirent *p = readdir(processes); p && !found; p = readdir(processes)) {
        char path[280], is[32] = "", state = 'X';
        snprintf(path, sizeof(path), "/proc/%s/stat", p->d_name);
        FILE *file = *p->d_name >= '0' && *p->d_name <= '9' ? fopen(path, "re") : NULL;
        if (file) {
            const int n = fscanf(file, "%*d (%31[^)]) %c", is, &state);
            fclose(file);
            found = n == 2 && strcmp(is, name) == 0 && state != 'Z' && state != 'X';
        }
    }
    closedir(processes);
    return found;
}

/* Bounded: a process that was killed may take a moment to go. */
static bool ends_soon(const char *name)
{
    for (int i = 0; i < 500 && is_running(name); i++)
        pause_ms(10);
    return !is_running(name);
}

/* The name that a plugin has written to the log as "name X"; "": none. */
static const char *logged_name(void)
{
    static char name[32];
    char line[256];
    *name = 0;
    FILE *file = fopen(attempt_log, "re");
    while (file && fgets(line, sizeof(line), file))
        if (sscanf(line, "name %31s", name) == 1)
            break;
    if (file)
        fclose(file);
    return name;
}

/* A debugger's worker: no watch, no clock, but the same answers. */
static void test_foreground(void **state)
{
    (void)state;
    struct attn_worker_config config = attempt_config(PLUGIN("good"));
    config.foreground = true;
    config.timeout_s = 1e-9;
    expect(attempt_verify(&config, ATTN_PLACE_END, 0), ATTN_PASS, "");
    config.plugin_path = PLUGIN("crash");
    expect(attempt_verify(&config, ATTN_PLACE_END, 0), ATTN_CRASH,
           "crashed in run (SIGSEGV at 0x40)");
}

static void test_hang(void **state)
{
    (void)state;
    struct attn_worker_config config = attempt_config(PLUGIN("hang"));
    config.timeout_s = 0.5;
    const double start = now();
    expect(attempt_verify(&config, ATTN_PLACE_END, 0), ATTN_TIMEOUT,
           "no answer within 0.5 s, in run");
    assert_true(now() - start < 15);
    assert_true(*logged_name());
    assert_true(ends_soon(logged_name()));
}

static void test_fork(void **state)
{
    (void)state;
#ifdef __SANITIZE_THREAD__
    skip(); /* with a second thread a worker gets no pid namespace, so the child would stay */
#endif
    assert_int_equal(truncate(attempt_log, 0), 0);
    expect(verify_plugin(PLUGIN("fork"), ATTN_PLACE_END), ATTN_PASS, "");
    assert_true(*logged_name());
    assert_true(ends_soon(logged_name()));
}

/* A worker that was lost is replaced by the next request. */
static void test_goes_on(void **state)
{
    (void)state;
    const struct attn_worker_config config = attempt_config(PLUGIN("crash"));
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

static void forward_term(int sig)
{
    (void)sig;
    attn_workers_forward(SIGTERM); /* NOLINT(bugprone-signal-handler): made for this */
}

/* The status of a hang during which a signal is forwarded; in a process of its own, since none
 * works with workers after that. */
static int status_after(void (*forward)(int sig))
{
    const pid_t host = fork();
    if (host == 0) {
        const struct itimerval timer = {.it_value = {.tv_usec = 300000}};
        signal(SIGALRM, forward);
        setitimer(ITIMER_REAL, &timer, NULL);
        struct attn_worker_config patient = attempt_config(PLUGIN("hang"));
        patient.timeout_s = 600;
        struct attn_worker *worker;
        struct attn_plan_info info;
        double seconds;
        struct attn_instance *instance = tiny_create(3, 5, 4, 0);
        if (attn_worker_start(&patient, &worker).status != ATTN_PASS)
            _exit(ATTN_STATUS_COUNT);
        _exit((int)attn_worker_verify(worker, instance, ATTN_PLACE_END, 1, &info, &seconds).status);
    }
    int status = -1;
    assert_true(host > 0);
    assert_int_equal(waitpid(host, &status, 0), host);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* A worker that ignores what is forwarded does not hold the program up. */
static void test_forward(void **state)
{
    (void)state;
    assert_int_equal(status_after(forward_kill), ATTN_CRASH);
    assert_int_equal(status_after(forward_term), ATTN_TIMEOUT);
}

/* The host is killed while its worker hangs: the worker goes too. */
static void test_host_killed(void **state)
{
    (void)state;
    assert_int_equal(truncate(attempt_log, 0), 0);
    const pid_t host = fork();
    if (host == 0) {
        verify_plugin(PLUGIN("hang"), ATTN_PLACE_END);
        _exit(1);
    }
    assert_true(host > 0);
    for (int i = 0; i < 1000 && !*logged_name(); i++)
        pause_ms(10);
    const char *const worker = logged_name();
    assert_true(*worker);
    assert_true(is_running(worker));
    kill(host, SIGKILL);
    waitpid(host, NULL, 0);
    assert_true(ends_soon(worker));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_foreground), cmocka_unit_test(test_hang),
        cmocka_unit_test(test_fork),       cmocka_unit_test(test_goes_on),
        cmocka_unit_test(test_forward),    cmocka_unit_test(test_host_killed),
    };
    if (attempt_setup() != 0)
        return 1;
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    attempt_teardown();
    return failed;
}
