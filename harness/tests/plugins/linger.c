/* SPDX-License-Identifier: Apache-2.0 */
/* linger.c - right answers, and a thread beside or after them. Option how: `write` stores the last
 * element 5 ms after run has returned, `compute` computes on for 100 ms, `beside` computes beside
 * run on any processor, `daemon` does so in a process that has no parent. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base.h"

static char how[16];
static float *late_to, late_value;
static pthread_t thread;
static int running;
static atomic_bool stop;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Processor time of the calling thread: as much work on a busy machine as on another. */
static double own_time(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* `write` is a race on purpose, which the worker is to find, and not ThreadSanitizer. */
__attribute__((no_sanitize("thread"))) static void *linger(void *argument)
{
    const double start = now();
    cpu_set_t all;
    if (strcmp(how, "write") == 0) {
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
        *late_to = late_value;
    }
    memset(&all, 0xff, sizeof(all));
    if (strcmp(how, "beside") == 0)
        sched_setaffinity(0, sizeof(all), &all);
    while (strcmp(how, "write") != 0 && !stop &&
           (now() < start + 0.1 || strcmp(how, "beside") == 0))
        continue;
    return argument;
}

/* A process of nobody's that computes for 50 ms. */
static void start_daemon(void)
{
    const pid_t child = fork();
    if (child == 0) {
        if (fork() == 0) {
            const double start = own_time();
            while (own_time() < start + 0.05)
                continue;
        }
        _exit(0);
    }
    waitpid(child, NULL, 0);
}

static void join(void)
{
    if (running)
        pthread_join(thread, NULL);
    running = 0;
}

static int create(const struct attn_problem *problem, const struct attn_services *services,
                  void **plan, char *why, size_t size)
{
    snprintf(how, sizeof(how), "%s", attn_option_get(services, "how", "write"));
    return base_create(problem, services, plan, why, size);
}

static int run(void *binding, char *why, size_t size)
{
    const struct base_binding *b = binding;
    const int apart = strcmp(how, "daemon") == 0, beside = apart || strcmp(how, "beside") == 0;
    join();
    stop = 0;
    if (apart)
        start_daemon();
    else if (beside)
        running = pthread_create(&thread, NULL, linger, NULL) == 0;
    const double start = own_time();
    base_run(binding, why, size);
    while (beside && own_time() < start + 0.05)
        continue;
    stop = beside;
    if (beside) {
        join();
        return ATTN_OK;
    }
    late_to = &b->out[b->out_elements - 1];
    late_value = *late_to;
    if (strcmp(how, "write") == 0)
        *late_to = 0;
    running = pthread_create(&thread, NULL, linger, NULL) == 0;
    return ATTN_OK;
}

static void release(void *binding)
{
    join();
    base_release(binding);
}

static const struct attn_option_spec options[] = {{.key = "how",
                                                   .type = ATTN_OPTION_CHOICE,
                                                   .choices = "write|compute|beside|daemon",
                                                   .default_value = "write",
                                                   .help = "what lingers"}};
static const struct attn_backend backend = {.struct_size = offsetof(struct attn_backend, device),
                                            .name = "test",
                                            .description = "a test backend",
                                            .options = options,
                                            .n_options = 1,
                                            .supports = base_supports,
                                            .create = create,
                                            .numerics = base_numerics,
                                            .bind = base_bind,
                                            .run = run,
                                            .release = release,
                                            .destroy = base_destroy};
static const struct attn_backend *const table[] = {&backend};
const struct attn_plugin attn_plugin = {BASE_PLUGIN(table)};
