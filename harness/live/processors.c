/* SPDX-License-Identifier: Apache-2.0 */
/* processors.c - looks at /proc/stat twice, and claims by binding a name. */
#include "live/processors.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "host/affinity.h"
#include "host/clock.h"

/* Of a sibling's load, what it takes away from the other processor of its core. */
#define SIBLING_SHARE 0.5

static void nap(double seconds)
{
    nanosleep(&(struct timespec){.tv_sec = (time_t)seconds,
                                 .tv_nsec = (long)(1e9 * (seconds - (double)(time_t)seconds))},
              NULL);
}

/* A line "cpuN user nice system idle iowait irq softirq steal ...". Returns N, or -1. */
static long ticks_of(const char *line, struct attn_ticks *ticks)
{
    enum { IDLE = 3, IOWAIT = 4, STEAL = 7, FIELDS = 8 };
    char *next;
    if (strncmp(line, "cpu", 3) != 0 || line[3] < '0' || line[3] > '9')
        return -1;
    const long processor = strtol(line + 3, &next, 10);
    *ticks = (struct attn_ticks){0};
    for (int field = 0; field < FIELDS; field++) {
        const uint64_t n = strtoull(next, &next, 10);
        ticks->all += n;
        ticks->busy += field == IDLE || field == IOWAIT ? 0 : n;
        ticks->steal += field == STEAL ? n : 0;
    }
    return processor;
}

/* Processors that are not there stay zero. */
static void look(struct attn_ticks ticks[CPU_SETSIZE])
{
    char line[512];
    struct attn_ticks one;
    memset(ticks, 0, CPU_SETSIZE * sizeof *ticks);
    FILE *file = fopen("/proc/stat", "re");
    while (file && fgets(line, sizeof line, file)) {
        const long processor = ticks_of(line, &one);
        if (processor >= 0 && processor < CPU_SETSIZE)
            ticks[processor] = one;
    }
    if (file)
        fclose(file);
}

static double share(uint64_t part, uint64_t all)
{
    return all > 0 ? (double)part / (double)all : 0;
}

void attn_claim_order(const double *load, const uint32_t *cores, size_t count, size_t *order)
{
    double sums[CPU_SETSIZE];
    for (size_t i = 0; i < count; i++) {
        sums[i] = load[i];
        for (size_t j = 0; j < count; j++)
            if (j != i && cores[j] == cores[i])
                sums[i] += SIBLING_SHARE * load[j];
    }
    for (size_t i = 0; i < count; i++) {
        size_t at = i;
        for (; at > 0 && sums[order[at - 1]] > sums[i]; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
}

/* The socket that holds the name, or -1: another one does. */
static int claim_one(uint32_t processor)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    const int length =
        snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "attnbench-processor-%u", processor);
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const socklen_t bytes =
        (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
    if (fd < 0 || bind(fd, (const struct sockaddr *)&name, bytes) == 0)
        return fd;
    close(fd);
    return -1;
}

/* Takes the first `threads` of the order that are free, or, if any, whatever they are. */
static bool take(struct attn_claim *claim, uint32_t threads, bool any, const uint32_t *processors,
                 const size_t *order, size_t count)
{
    *claim = (struct attn_claim){.alone = true};
    for (size_t i = 0; i < count && claim->n < threads; i++) {
        const uint32_t processor = processors[order[i]];
        const int fd = claim_one(processor);
        if (fd < 0 && !any)
            continue;
        claim->alone = claim->alone && fd >= 0;
        claim->sockets[claim->n] = fd;
        claim->processors[claim->n++] = processor;
    }
    if (claim->n == threads)
        return true;
    attn_claim_give(claim);
    return false;
}

int attn_claim_take(uint32_t threads, double seconds, double patience, struct attn_claim *claim,
                    char *why, size_t size)
{
    static struct attn_ticks before[CPU_SETSIZE], now[CPU_SETSIZE];
    uint32_t processors[CPU_SETSIZE], cores[CPU_SETSIZE];
    size_t order[CPU_SETSIZE], count = 0;
    double load[CPU_SETSIZE];
    cpu_set_t allowed;
    *claim = (struct attn_claim){0};
    if (sched_getaffinity(0, sizeof allowed, &allowed)) {
        snprintf(why, size, "cannot ask for the processors: %s", strerror(errno));
        return -1;
    }
    for (uint32_t p = 0; p < CPU_SETSIZE; p++)
        if (CPU_ISSET(p, &allowed)) {
            cores[count] = attn_affinity_core("/sys/devices/system/cpu", p);
            processors[count++] = p;
        }
    if (threads > count || threads > ATTN_CLAIM_MAX) {
        snprintf(why, size, "%u threads are too many: %zu processors, at most %d in a comparison",
                 threads, count, ATTN_CLAIM_MAX);
        return -1;
    }
    const double until = attn_now() + patience;
    for (bool taken = false; !taken;) {
        look(before);
        nap(seconds);
        look(now);
        for (size_t i = 0; i < count; i++) {
            const struct attn_ticks *a = &before[processors[i]], *b = &now[processors[i]];
            load[i] = share(b->busy - a->busy, b->all - a->all);
        }
        attn_claim_order(load, cores, count, order);
        taken = take(claim, threads, attn_now() >= until, processors, order, count);
    }
    for (uint32_t i = 0; i < claim->n; i++)
        claim->began[i] = now[claim->processors[i]];
    return 0;
}

void attn_claim_restart(struct attn_claim *claim)
{
    static struct attn_ticks now[CPU_SETSIZE];
    look(now);
    for (uint32_t i = 0; i < claim->n; i++)
        claim->began[i] = now[claim->processors[i]];
}

double attn_claim_steal(const struct attn_claim *claim)
{
    static struct attn_ticks now[CPU_SETSIZE];
    uint64_t steal = 0, all = 0;
    look(now);
    for (uint32_t i = 0; i < claim->n; i++) {
        steal += now[claim->processors[i]].steal - claim->began[i].steal;
        all += now[claim->processors[i]].all - claim->began[i].all;
    }
    return share(steal, all);
}

void attn_claim_give(struct attn_claim *claim)
{
    for (uint32_t i = 0; i < claim->n; i++)
        if (claim->sockets[i] >= 0)
            close(claim->sockets[i]);
    claim->n = 0;
}

void attn_claim_enter(struct attn_claim *claim)
{
    cpu_set_t inside;
    CPU_ZERO(&inside);
    for (uint32_t i = 0; i < claim->n; i++)
        CPU_SET(claim->processors[i], &inside);
    claim->entered = claim->n > 0 &&
                     sched_getaffinity(0, sizeof claim->outside, &claim->outside) == 0 &&
                     sched_setaffinity(0, sizeof inside, &inside) == 0;
}

void attn_claim_leave(const struct attn_claim *claim)
{
    if (claim->entered)
        sched_setaffinity(0, sizeof claim->outside, &claim->outside);
}
