/* SPDX-License-Identifier: Apache-2.0 */
/* watch.c - waits for a worker, with its log, its memory and the clock in view. */
#include "host/process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Memory grows by 100 MB at most between two looks at the rate at which pages are first touched. */
#define TICK_MS 20
/* Children are looked for less often: that reads a file for each thread. */
#define CHILDREN_MS 60
/* This process looks at the clock every TICK_MS. Where it has not for so long, it was stopped. */
#define ABSENT_S 0.5

void attn_log_drain(struct attn_worker *worker, int reads)
{
    char text[65536];
    while (worker->log_pipe >= 0 && reads-- > 0) {
        const ssize_t n = read(worker->log_pipe, text, sizeof(text));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n <= 0) {
            close(worker->log_pipe);
            worker->log_pipe = -1;
            return;
        }
        const uint64_t room = worker->config.log_cap - worker->log_written;
        const size_t keep = (uint64_t)n < room ? (size_t)n : (size_t)room;
        /* A log that cannot be written is no reason to judge the backend differently. */
        if (keep > 0 && write(worker->log_file, text, keep) < 0)
            worker->log_discarded += keep;
        worker->log_written += keep;
        worker->log_discarded += (size_t)n - keep;
    }
}

/* Reads a file of a process; "" if there is none. */
static void read_proc(pid_t pid, const char *name, char *text, size_t size)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%ld/%s", (long)pid, name);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd >= 0 ? read(fd, text, size - 1) : 0;
    text[n > 0 ? n : 0] = 0;
    if (fd >= 0)
        close(fd);
}

/* Has a signal stopped the process? */
static bool is_stopped(pid_t pid)
{
    char text[512];
    read_proc(pid, "stat", text, sizeof(text));
    const char *name_end = strrchr(text, ')'); /* a name may hold anything */
    return name_end && (strncmp(name_end, ") T", 3) == 0 || strncmp(name_end, ") t", 3) == 0);
}

/* Resident bytes of the process now; 0: not known. */
static uint64_t resident_bytes(pid_t pid)
{
    char text[128];
    read_proc(pid, "statm", text, sizeof(text));
    /* The second number; strtoull takes both for us, and gives 0 where there is none. */
    char *second;
    (void)strtoull(text, &second, 10);
    const uint64_t pages = strtoull(second, NULL, 10);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Its share of what it has resident: pages that processes have in common count once. */
static uint64_t proportional_bytes(pid_t pid)
{
    char text[2048];
    read_proc(pid, "smaps_rollup", text, sizeof(text));
    const char *pss = strstr(text, "\nPss:");
    return pss ? 1024 * strtoull(pss + 5, NULL, 10) : resident_bytes(pid);
}

/* Below the process that the host has started: the worker itself, and the first of its namespace.
 */
enum { KEEPERS = 2 };

/* What the processes below `pid` have, summed by `bytes`; adds their number. Looks at one
 * more than there may be. */
static uint64_t bytes_below(pid_t pid, uint64_t (*bytes)(pid_t), uint32_t *count)
{
    char path[64], text[8192];
    uint64_t sum = 0;
    snprintf(path, sizeof(path), "/proc/%ld/task", (long)pid);
    DIR *tasks = opendir(path);
    for (const struct dirent *task = tasks ? readdir(tasks) : NULL; task; task = readdir(tasks)) {
        snprintf(path, sizeof(path), "task/%.20s/children", task->d_name);
        read_proc(pid, path, text, sizeof(text));
        char *next = text;
        for (long child = strtol(text, &next, 10); child > 0 && *count <= CHILDREN_MOST + KEEPERS;
             child = strtol(next, &next, 10)) {
            ++*count;
            sum += bytes((pid_t)child);
            sum += bytes_below((pid_t)child, bytes, count);
        }
    }
    if (tasks)
        closedir(tasks);
    return sum;
}

/* With what its children have, wherever they have gone in its namespace: all are below the process
 * that the host has started. Only what is over the limit is worth the slower sum. */
static void look_below(struct attn_worker *worker)
{
    uint32_t count = 0;
    const uint64_t sum = bytes_below(worker->pid, resident_bytes, &count);
    const uint32_t ours = worker->place != worker->pid ? KEEPERS : 0;
    worker->children = count > ours ? count - ours : 0;
    worker->below = 0;
    if (worker->children > 0 && sum > worker->config.rss_limit) {
        count = 0;
        worker->below = bytes_below(worker->pid, proportional_bytes, &count);
    }
}

/* Looks at the memory once a tick, and at children once in a few. MESSAGE: nothing is over. */
static enum attn_event look(struct attn_worker *worker, double now)
{
    if (worker->config.foreground || now - worker->rss_time < 1e-3 * TICK_MS)
        return ATTN_EVENT_MESSAGE;
    worker->rss_time = now;
    worker->rss = resident_bytes(worker->place);
    if (now - worker->children_time > 1e-3 * CHILDREN_MS) {
        look_below(worker);
        worker->children_time = now;
        if (worker->children > CHILDREN_MOST)
            return ATTN_EVENT_CROWD;
    }
    if (worker->below > worker->rss)
        worker->rss = worker->below;
    return worker->rss > worker->config.rss_limit ? ATTN_EVENT_OOM : ATTN_EVENT_MESSAGE;
}

/* One message if there is one. Returns its length, 0 at the end of the stream, -1: none now. */
static ssize_t receive(struct attn_worker *worker)
{
    const ssize_t n =
        recv(worker->socket, worker->in.bytes, sizeof(worker->in.bytes), MSG_DONTWAIT | MSG_TRUNC);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? -1 : 0;
    return n;
}

void attn_process_set_out(struct attn_worker *worker)
{
    worker->seen = attn_now();
    worker->deadline =
        worker->config.foreground ? HUGE_VAL : worker->seen + worker->config.timeout_s;
    worker->stopped = 0;
}

/* Moves the deadline by time that was not the worker's. Returns whether it is over. */
static bool is_late(struct attn_worker *worker, double now)
{
    const double since = now - worker->seen;
    if (since > 1e-3 * TICK_MS)
        worker->seen = now;
    if (since > ABSENT_S) {
        worker->deadline += since;
    } else if (since > 1e-3 * TICK_MS && worker->stopped < worker->config.timeout_s &&
               is_stopped(worker->place)) {
        worker->deadline += since;
        worker->stopped += since;
    }
    return now > attn_process_deadline(worker->deadline);
}

enum attn_event attn_process_wait(struct attn_worker *worker)
{
    for (;;) {
        /* Asked before the socket is read, so that nothing sent before the end is missed. */
        const bool exited = attn_process_exited(worker);
        const ssize_t n = receive(worker);
        if (n > 0) {
            if ((size_t)n < sizeof(struct attn_message_head) || n > ATTN_MESSAGE_MAX ||
                worker->in.head.length != (size_t)n)
                return ATTN_EVENT_GARBAGE;
            /* Fields beyond a short message read as zero. */
            memset(worker->in.bytes + n, 0, sizeof(worker->in.bytes) - (size_t)n);
        }
        const double now = attn_now();
        if (is_late(worker, now))
            return ATTN_EVENT_TIMEOUT;
        /* Before a message is given out: a worker that never stops sending must not be able to
         * hide behind that. */
        const enum attn_event over = exited ? ATTN_EVENT_MESSAGE : look(worker, now);
        if (over != ATTN_EVENT_MESSAGE)
            return over;
        if (n > 0)
            return ATTN_EVENT_MESSAGE;
        if (n == 0 || exited)
            return ATTN_EVENT_GONE;

        struct pollfd fds[2] = {{.fd = worker->socket, .events = POLLIN},
                                {.fd = worker->log_pipe, .events = POLLIN}};
        poll(fds, 2, TICK_MS);
        attn_log_drain(worker, 1);
    }
}
