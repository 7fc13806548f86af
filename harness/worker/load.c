/* SPDX-License-Identifier: Apache-2.0 */
/* load.c - processor time of the worker and of its children. */
#include "worker/load.h"

#include <dirent.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "host/walk.h"
#include "worker/clocks.h"
#include "worker/serve.h"

/* The scheduler's clocks of several processors may be read a little apart, and threads that end
 * while they are read count late. */
#define SLACK_SHARE 0.05
#define SLACK_S     2e-3

/* A caller spins, or is ready, while a thread of oneDNN's runtime begins or ends: for 7 to 15 us in
 * each run, and for 3 ms in a few runs of additive scores beside 16 busy programs. */
#define HANDOVER_S     20e-3
#define HANDOVER_RUN_S 50e-6

/* On as many processors as threads nobody gains by more of them. There a caller that works beside
 * the threads of a runtime may wait for its turn: with oneDNN in 1 of 10 timings, and beside
 * another benchmark in half of them, for 26 to 37 ms of 0.11 s, or 60 ms of 0.71 s. */
#define TURNS_SHARE 0.2

/* A caller that hands its work over computes for less than this share of the others' time. */
#define HANDS_OVER 0.25

/* Spinning threads of OpenMP runtimes give up after 0.2 s at most, by their defaults. */
#define SPIN_MOST_S 1.0
#define BUSY_SHARE  0.3

/* With one thread nobody spins: what a library used in such a time was 0.15 ms at most. Runtimes
 * have threads for other ends, so once or twice it may be more. What they write is seen anyway. */
#define QUIET_S 1e-3
enum { BUSY_NAPS = 3 };

/* Processor time of the living children of a process and of theirs; counts them. */
static double children_of(long pid, int depth, int *count)
{
    char path[64], line[512];
    double sum = 0;
    snprintf(path, sizeof(path), "/proc/%ld/task", pid);
    DIR *tasks = opendir(path);
    for (const struct dirent *task = tasks ? readdir(tasks) : NULL; task; task = readdir(tasks)) {
        const long thread = strtol(task->d_name, NULL, 10);
        snprintf(path, sizeof(path), "/proc/%ld/task/%ld/children", pid, thread);
        FILE *file = thread > 0 ? fopen(path, "re") : NULL;
        const size_t n = file ? fread(line, 1, sizeof(line) - 1, file) : 0;
        line[n] = 0;
        if (file)
            fclose(file);
        char *next = line;
        for (long child = strtol(line, &next, 10); child > 0; child = strtol(next, &next, 10)) {
            clockid_t clock;
            if (clock_getcpuclockid((pid_t)child, &clock) == 0)
                sum += attn_clock_seconds(clock);
            ++*count;
            if (depth > 0)
                sum += children_of(child, depth - 1, count);
        }
    }
    if (tasks)
        closedir(tasks);
    return sum;
}

double attn_load_children(void)
{
    enum { DEPTH = 4 };
    int count = 0;
    struct rusage ended = {0};
    getrusage(RUSAGE_CHILDREN, &ended);
    const double reaped = (double)(ended.ru_utime.tv_sec + ended.ru_stime.tv_sec) +
                          1e-6 * (double)(ended.ru_utime.tv_usec + ended.ru_stime.tv_usec);
    return reaped + children_of((long)getpid(), DEPTH, &count);
}

struct attn_load attn_load_now(void)
{
    const double children = attn_load_children();
    return (struct attn_load){.wall = attn_clock_wall(),
                              .process = attn_clock_process() + children,
                              .thread = attn_clock_seconds(CLOCK_THREAD_CPUTIME_ID),
                              .delayed = attn_clocks_delayed(false)};
}

void attn_load_leave_out(struct attn_load *before, const struct attn_load *from)
{
    const struct attn_load now = attn_load_now();
    before->wall += now.wall - from->wall;
    before->process += now.process - from->process;
    before->thread += now.thread - from->thread;
    before->delayed += now.delayed - from->delayed;
}

/* Where the host's choice of processors lies, and one more that the calling thread may have now. */
static cpu_set_t given, inherited;

void attn_load_inherit(void)
{
    if (sched_getaffinity(0, sizeof(inherited), &inherited) != 0)
        CPU_ZERO(&inherited);
}

static void give(const struct attn_setup *setup, bool more)
{
    CPU_ZERO(&given);
    for (uint32_t p = 0; p < setup->n_processors; p++)
        CPU_SET(setup->processors[p], &given);
    if (setup->n_processors == 0)
        return;
    for (uint32_t p = 0; more && p < CPU_SETSIZE; p++) {
        cpu_set_t wide = given;
        if (CPU_ISSET(p, &given) || !CPU_ISSET(p, &inherited))
            continue;
        CPU_SET(p, &wide);
        if (sched_setaffinity(0, sizeof(wide), &wide) != 0)
            continue;
        given = wide;
        return;
    }
    sched_setaffinity(0, sizeof(given), &given);
}

void attn_load_widen(const struct attn_setup *setup)
{
    give(setup, true);
}

void attn_load_narrow(const struct attn_setup *setup)
{
    give(setup, false);
}

/* Threads that may run on processors that this process was not given. */
static uint32_t threads_astray(const struct attn_setup *setup)
{
    cpu_set_t has;
    uint32_t n = 0;
    DIR *tasks = setup->n_processors > 0 ? opendir("/proc/self/task") : NULL;
    for (const struct dirent *task = tasks ? readdir(tasks) : NULL; task; task = readdir(tasks)) {
        const long thread = strtol(task->d_name, NULL, 10);
        if (thread <= 0 || sched_getaffinity((pid_t)thread, sizeof(has), &has) != 0)
            continue;
        CPU_OR(&has, &has, &given);
        n += !CPU_EQUAL(&has, &given);
    }
    if (tasks)
        closedir(tasks);
    return n;
}

int attn_load_check(const struct attn_load *before, int64_t runs, const struct attn_setup *setup,
                    struct attn_message_reply *reply)
{
    const struct attn_load now = attn_load_now();
    if (CPU_COUNT(&given) == 0)
        give(setup, false);
    const bool room = CPU_COUNT(&given) != (int)setup->threads; /* for a thread too many */
    const double wall = now.wall - before->wall, thread = now.thread - before->thread;
    const double others = now.process - before->process - thread;
    const double idle = fmax(wall - thread - (now.delayed - before->delayed), 0);
    const double threads = setup->threads, used = others + thread;
    /* What they took beyond their due while the caller was no idler than that. Who hands its work
     * to another thread may lose the processor to it before it waits, but computes little itself:
     * it copies and sends, in each run, and so for the longer the more the others compute. */
    const double beside =
        thread < HANDS_OVER * others ? 0 : fmin(others - idle - (threads - 1) * wall, thread);
    const double handover = HANDOVER_S + HANDOVER_RUN_S * (double)runs;
    /* On the processors that were given it cannot compute more, whoever spins. */
    const double slack = SLACK_S + (CPU_COUNT(&given) > (int)setup->threads ? handover : 0);
    if (used > threads * wall * (1 + SLACK_SHARE) + slack ||
        beside > used * (room ? SLACK_SHARE : TURNS_SHARE) + SLACK_S + handover) {
        attn_reply_set(reply, ATTN_FAIL,
                       "more threads compute at once than --threads %u: other threads or processes "
                       "took %.3g s of processor time in %.3g s, of which the calling thread was "
                       "idle for %.3g s",
                       setup->threads, others, wall, idle);
        return -1;
    }
    const uint32_t astray = threads_astray(setup);
    if (astray > 0) {
        attn_reply_set(reply, ATTN_FAIL,
                       "%u of its threads may run on processors that were not given (--threads %u)",
                       astray, setup->threads);
        return -1;
    }
    return 0;
}

uint64_t attn_hash_elements(const struct attn_tensor *tensor, uint32_t element)
{
    uint64_t sum = UINT64_C(0xCBF29CE484222325);
    struct attn_walk walk;
    size_t offset;
    attn_walk_begin(&walk, tensor, element);
    while (attn_walk_next(&walk, &offset)) {
        const unsigned char *run = (const unsigned char *)tensor->data + offset;
        for (size_t n = 0; n < walk.run; n++)
            sum = (sum ^ run[n]) * UINT64_C(0x100000001B3);
    }
    return sum;
}

static void hash_outputs(const struct attn_message_request *request,
                         const struct attn_tensor *tensors, uint64_t sums[ATTN_MAX_TENSORS])
{
    for (uint32_t t = 0; t < request->n_tensors; t++)
        sums[t] = request->operands[t].output
                      ? attn_hash_elements(&tensors[t], request->operands[t].element)
                      : 0;
}

/* Is there a thread besides the caller, or a child. */
static bool accompanied(void)
{
    int children = 0;
    children_of((long)getpid(), 0, &children);
    return attn_threads_now() != 1 || children > 0;
}

int attn_load_settle(const struct attn_message_request *request, const struct attn_tensor *tensors,
                     const struct attn_setup *setup, double seconds,
                     struct attn_message_reply *reply)
{
    uint64_t was[ATTN_MAX_TENSORS], is[ATTN_MAX_TENSORS];
    const struct timespec nap = {.tv_nsec = (long)(1e9 * seconds)};
    if (!accompanied())
        return 0;
    hash_outputs(request, tensors, was);
    const struct attn_load start = attn_load_now();
    double busy = 0;
    for (int naps = 1;; naps++) {
        const struct attn_load before = attn_load_now();
        nanosleep(&nap, NULL);
        const struct attn_load now = attn_load_now();
        busy = (now.process - before.process) / (now.wall - before.wall);
        if (busy < BUSY_SHARE && (setup->threads > 1 || now.process - before.process < QUIET_S))
            break;
        if ((setup->threads == 1 && (busy >= BUSY_SHARE || naps == BUSY_NAPS)) ||
            now.wall - start.wall > SPIN_MOST_S) {
            attn_reply_set(reply, ATTN_FAIL,
                           "keeps computing after run has returned: %.2f processors after %.2g s",
                           busy, now.wall - start.wall);
            return -1;
        }
    }
    hash_outputs(request, tensors, is);
    for (uint32_t t = 0; t < request->n_tensors; t++)
        if (was[t] != is[t]) {
            attn_reply_set(reply, ATTN_FAIL, "%s changes after run has returned",
                           request->operands[t].name);
            return -1;
        }
    return 0;
}
