/* SPDX-License-Identifier: Apache-2.0 */
/* watch.c - waits for a worker, with its log, its memory and the clock in view. */
#include "host/process.h"

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

/* Resident bytes of the process now; 0: not known. */
static uint64_t resident_bytes(pid_t pid)
{
    char path[64], text[128];
    snprintf(path, sizeof(path), "/proc/%ld/statm", (long)pid);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    const ssize_t n = read(fd, text, sizeof(text) - 1);
    close(fd);
    text[n > 0 ? n : 0] = 0;
    /* The second number; strtoull takes both for us, and gives 0 where there is none. */
    char *second;
    (void)strtoull(text, &second, 10);
    const uint64_t pages = strtoull(second, NULL, 10);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Is the process over its limit. Looks once a tick. */
static bool over_limit(struct attn_worker *worker, double now)
{
    if (worker->config.foreground || now - worker->rss_time < 1e-3 * TICK_MS)
        return false;
    worker->rss_time = now;
    worker->rss = resident_bytes(worker->pid);
    return worker->rss > worker->config.rss_limit;
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

enum attn_event attn_process_wait(struct attn_worker *worker, double deadline)
{
    const double limit = worker->config.foreground ? HUGE_VAL : deadline;
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
        if (now > attn_process_deadline(limit))
            return ATTN_EVENT_TIMEOUT;
        /* Before a message is given out: a worker that never stops sending must not be able to
         * hide behind that. */
        if (!exited && over_limit(worker, now))
            return ATTN_EVENT_OOM;
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
